//! Backends and token servers that are reached through a proxy, as the environment says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use weir_plan::Signal;
use weir_testkit::backend::{Backend, Say};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::manifests::{self, with};
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, payload};

use crate::process::Weir;

/// `user:p@ss`, as a URL has it and as a request has it.
const CREDENTIALS: [&str; 2] = ["user:p%40ss", "Basic dXNlcjpwQHNz"];

/// A proxy to one backend, whatever it is asked for; stops with the value.
struct Proxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    refusal: Arc<Mutex<Option<&'static str>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn to(backend: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heads, refusal) = (Arc::default(), Arc::default());
        let (seen, refuses) = (Arc::clone(&heads), Arc::clone(&refusal));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(pass_on(stream, backend, Arc::clone(&seen), Arc::clone(&refuses)));
            }
        });
        Self { address, heads, refusal, task }
    }

    /// Answers everything with this status from now on.
    fn refuse(&self, status: Option<&'static str>) {
        *self.refusal.lock().unwrap() = status;
    }

    /// First lines and credentials of what it was asked.
    fn asked(&self) -> Vec<(String, bool)> {
        let heads = self.heads.lock().unwrap();
        let authorization = format!("proxy-authorization: {}", CREDENTIALS[1].to_lowercase());
        let known = |head: &String| head.to_lowercase().lines().any(|line| line == authorization);
        heads.iter().map(|head| (head.lines().next().unwrap().to_owned(), known(head))).collect()
    }

    /// An environment in which it stands before everything.
    fn environment(&self) -> [String; 3] {
        let url = format!("http://{}@{}", CREDENTIALS[0], self.address);
        // The tests may run behind another one.
        [format!("HTTPS_PROXY={url}"), format!("HTTP_PROXY={url}"), "NO_PROXY=".to_owned()]
    }

    async fn before(&self, manifests: &str) -> Weir {
        let environment = self.environment();
        let [https, http, except] = environment.each_ref().map(String::as_str);
        Weir::start_under(&["env", https, http, except, "no_proxy="], manifests, &[]).await
    }
}

type Shared<T> = Arc<Mutex<T>>;

async fn pass_on(
    mut stream: TcpStream,
    backend: SocketAddr,
    heads: Shared<Vec<String>>,
    refusal: Shared<Option<&'static str>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let text = String::from_utf8(head.clone()).unwrap();
    let tunnel = text.starts_with("CONNECT ");
    heads.lock().unwrap().push(text);
    let refused = *refusal.lock().unwrap();
    if let Some(status) = refused {
        let _ = stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await;
        return;
    }
    let mut onward = TcpStream::connect(backend).await.unwrap();
    if tunnel {
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
    } else {
        onward.write_all(&head).await.unwrap();
    }
    // Ends when one of the two does.
    let _ = copy_bidirectional(&mut stream, &mut onward).await;
}

/// A backend under a name that only the proxy knows.
fn output(protocol: &str, endpoint: &str) -> Value {
    json!({"endpoint": {"value": endpoint}, "protocol": protocol, "compression": "none"})
}

async fn deliver(weir: &Weir, backend: &Backend) {
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 3, 0)).await.code, OK);
    eventually("it is delivered", async || backend.ids() == [1, 2, 3]).await;
}

#[tokio::test]
async fn backends_are_reached_through_the_proxy() {
    for (protocol, endpoint, expected) in [
        ("grpc", "http://backend.test:4317", "CONNECT backend.test:4317 HTTP/1.1"),
        ("grpc", "https://backend.test:4317", "CONNECT backend.test:4317 HTTP/1.1"),
        ("http", "https://backend.test", "CONNECT backend.test:443 HTTP/1.1"),
        ("http", "http://backend.test:4318", "POST http://backend.test:4318/v1/traces HTTP/1.1"),
    ] {
        let authority = Authority::new();
        let tls = endpoint.starts_with("https:");
        let backend = if tls { Backend::with_tls(authority.server(None)).await } else { Backend::start().await };
        let proxy = Proxy::to(backend.address).await;
        let output = output(protocol, endpoint);
        let output = if tls { with(output, json!({"tls": {"insecureSkipVerify": true}})) } else { output };
        let weir = proxy.before(&manifests::pipeline(Signal::Traces, "backend", &output)).await;
        deliver(&weir, &backend).await;
        assert_eq!(proxy.asked(), [(expected.to_owned(), true)], "{protocol} {endpoint}");
    }
}

#[tokio::test]
async fn this_machine_is_reached_without_the_proxy() {
    let backend = Backend::start().await;
    let proxy = Proxy::to(backend.address).await;
    let output = manifests::plain("grpc", backend.address);
    let weir = proxy.before(&manifests::pipeline(Signal::Traces, "backend", &output)).await;
    deliver(&weir, &backend).await;
    assert_eq!(proxy.asked(), []);
}

/// It never costs data, and the log says who refused, but not with which password.
#[tokio::test]
async fn a_proxy_that_refuses_is_no_connection() {
    for (status, cause) in [
        ("407 Proxy Authentication Required", "proxy authorization required"),
        ("403 Forbidden", "unsuccessful"),
        ("502 Bad Gateway", "unsuccessful"),
    ] {
        let backend = Backend::start().await;
        let proxy = Proxy::to(backend.address).await;
        proxy.refuse(Some(status));
        let output = output("grpc", "http://backend.test:4317");
        let weir = proxy.before(&manifests::pipeline(Signal::Traces, "backend", &output)).await;
        assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 3, 0)).await.code, OK);
        let message = "backend cannot be reached; data is kept and tried again";
        eventually("the log tells", async || weir.logged(message).is_some()).await;
        let logged = weir.logged(message).unwrap()["cause"].as_str().unwrap().to_owned();
        let expected = format!("cannot reach backend.test:4317 through the proxy {}", proxy.address);
        assert!(logged.contains(&expected) && logged.ends_with(cause), "{logged}");
        proxy.refuse(None);
        eventually("it is delivered", async || backend.ids() == [1, 2, 3]).await;
        let logs = format!("{:?}", weir.logs());
        assert!(!logs.contains("p%40ss") && !logs.contains("p@ss") && !logs.contains("dXNlcjpwQHNz"), "{logs}");
    }
}

#[tokio::test]
async fn token_servers_are_reached_through_the_proxy() {
    let tokens = Backend::scripted(|_, _| Say::Json(r#"{"access_token": "t"}"#.into())).await;
    let (backend, proxy) = (Backend::start().await, Proxy::to(tokens.address).await);
    let token_url = json!({"value": "http://auth.test/token"});
    let oauth2 = json!({"tokenURL": token_url, "clientID": {"value": "id"}, "clientSecret": {"value": "secret"}});
    let output = with(manifests::plain("http", backend.address), json!({"authentication": {"oauth2": oauth2}}));
    let weir = proxy.before(&manifests::pipeline(Signal::Traces, "backend", &output)).await;
    deliver(&weir, &backend).await;
    assert_eq!(proxy.asked(), [("POST http://auth.test/token HTTP/1.1".to_owned(), true)]);
    assert_eq!(backend.captured()[0].headers["authorization"], "Bearer t");
}

#[tokio::test]
async fn what_is_no_proxy_is_told_and_not_shown() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("pipelines.yaml");
    let output = output("grpc", "https://backend.test:4317");
    std::fs::write(&file, manifests::pipeline(Signal::Traces, "backend", &output)).unwrap();
    let mut run = crate::process::run(&file);
    run.args(["--no-data-dir"]).env("HTTPS_PROXY", "socks5://user:hunter2@127.0.0.1:1080").env_remove("NO_PROXY");
    let mut weir = run.kill_on_drop(true).spawn().unwrap();
    let mut lines = tokio::io::BufReader::new(weir.stderr.take().unwrap()).lines();
    let logged = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            assert!(!line.contains("hunter2"), "{line}");
            if line.contains("HTTPS_PROXY is not the URL of a proxy") {
                return true;
            }
        }
        false
    };
    assert!(weir_testkit::in_time("it is logged", logged).await);
    weir.kill().await.unwrap();
}
