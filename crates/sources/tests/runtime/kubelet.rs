//! A kubelet of which nothing is real but the connection.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use weir_testkit::tls::Authority;

const SUMMARY: &str = r#"{
 "node": {"nodeName": "node-1", "startTime": "2026-11-25T10:00:00Z", "cpu": {"usageNanoCores": 500000000}},
 "pods": [
  {"podRef": {"name": "cart-0", "namespace": "shop", "uid": "uid-1"}, "startTime": "2026-11-25T11:00:00Z",
   "containers": [{"name": "app", "startTime": "2026-11-25T11:00:00Z", "memory": {"usageBytes": 67108864}}],
   "network": {"name": "eth0", "rxBytes": 10, "txBytes": 20}},
  {"podRef": {"name": "dns-0", "namespace": "kube-system", "uid": "uid-2"}, "startTime": "2026-11-25T11:00:00Z",
   "containers": null, "network": {"name": "eth0", "rxBytes": 30}}
 ]
}"#;

const PODS: &str = r#"{"items": [{"metadata": {"uid": "uid-1"}, "spec": {"containers": [
 {"name": "app", "resources": {"limits": {"memory": "128Mi"}}}]}}]}"#;

/// What it does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Forbids,
    Hangs,
    /// Its page is none.
    Raves,
}

/// A kubelet that lets in whoever has its token.
pub(crate) struct Kubelet {
    pub(crate) url: String,
    /// The certificate of the authority that signed its own.
    pub(crate) ca: String,
    pub(crate) state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

/// What can change while it runs.
pub(crate) struct State {
    pub(crate) token: String,
    pub(crate) mood: Mood,
    /// Answers so far: paths and codes; 0 where it hung.
    pub(crate) answered: Vec<(String, u16)>,
    /// Connections that ended before there was a request.
    pub(crate) distrusted: usize,
}

impl State {
    fn new(token: &str) -> Arc<Mutex<Self>> {
        let (token, mood) = (token.to_owned(), Mood::Well);
        Arc::new(Mutex::new(Self { token, mood, answered: Vec::new(), distrusted: 0 }))
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kubelet {
    pub(crate) async fn start(token: &str) -> Self {
        let authority = Authority::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let state = State::new(token);
        let (acceptor, shared) = (authority.server(None), Arc::clone(&state));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    match acceptor.accept(stream).await {
                        Ok(stream) => serve(stream, &shared).await,
                        // A client that does not trust it goes away.
                        Err(_) => shared.lock().unwrap().distrusted += 1,
                    }
                });
            }
        });
        Self { url, ca: authority.pem(), state, task }
    }

    /// One without TLS.
    pub(crate) async fn plain(token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State::new(token);
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let ((stream, _), shared) = (listener.accept().await.unwrap(), Arc::clone(&shared));
                tokio::spawn(async move { serve(stream, &shared).await });
            }
        });
        Self { url, ca: String::new(), state, task }
    }

    pub(crate) fn is(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    /// How often it has answered with this code.
    pub(crate) fn answers(&self, code: u16) -> usize {
        self.state.lock().unwrap().answered.iter().filter(|(_, answered)| *answered == code).count()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: &Mutex<State>) {
    let mut stream = BufReader::new(stream);
    let (mut path, mut bearer, mut line) = (String::new(), String::new(), String::new());
    while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
        if let Some(rest) = line.strip_prefix("GET ") {
            path = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if let Some(("authorization", value)) = line.trim_end().split_once(": ") {
            bearer = value.to_owned();
        } else if line == "\r\n" {
            let Some(answer) = answer(&path, &std::mem::take(&mut bearer), state) else {
                return std::future::pending().await;
            };
            if stream.write_all(answer.as_bytes()).await.is_err() || stream.flush().await.is_err() {
                return;
            }
        }
        line.clear();
    }
}

fn answer(path: &str, bearer: &str, state: &Mutex<State>) -> Option<String> {
    let mut state = state.lock().unwrap();
    let (code, body) = match state.mood {
        Mood::Hangs => {
            state.answered.push((path.to_owned(), 0));
            return None;
        }
        _ if bearer != format!("Bearer {}", state.token) => (401, "Unauthorized"),
        Mood::Forbids => (403, "Forbidden"),
        Mood::Raves => (200, "<html>"),
        Mood::Well if path == "/stats/summary" => (200, SUMMARY),
        Mood::Well if path == "/pods" => (200, PODS),
        Mood::Well => (404, ""),
    };
    state.answered.push((path.to_owned(), code));
    Some(format!("HTTP/1.1 {code} Said\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}
