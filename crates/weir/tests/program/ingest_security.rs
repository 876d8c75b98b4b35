//! OTLP ports that not everybody may send to. The client is another gateway: it speaks TLS, has a certificate, and sends
//! the headers it is told.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal as Unix;
use rustls::ClientConfig;
use rustls::crypto::ring::default_provider;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weir_loadtest::sink::Sink;
use weir_plan::{Identity, Signal};
use weir_testkit::backend::Backend;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::http::{PROTOBUF, head, read_answer};
use weir_testkit::manifests::{self, secured, with};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{arrived, sink};
use weir_testkit::tls::{self, Authority};
use weir_testkit::{eventually, in_time, payload};

use crate::process::{Weir, command, manifest};

const RENEWED: &str = "certificates and tokens are read again";

const NOT_RENEWED: &str = "cannot use the files with certificates and tokens; the old ones stay in use";

/// A gateway that sends to another one; whether ten spans come through before it gives up for good.
async fn comes_through(manifest: &str, first: u64, sink: &Sink) -> bool {
    let client = Weir::start(manifest, &[]).await;
    let answer = Grpc::connect(client.grpc).await.export(&payload::encoded(first, 10, 10)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    let mut came = false;
    eventually("it is taken or refused", async || {
        let scrape = Scrape::of(client.metrics).await;
        let books = scrape.books("client");
        came = books.delivered == 10;
        books.delivered + books.rejected == 10 || scrape.figure("weir_pipeline_retries_total", "client") > 0.0
    })
    .await;
    assert_eq!(arrived(sink).contains(&first), came);
    came
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (pipelines, empty) = (file("p.yaml", &manifest("backend", ([127, 0, 0, 1], 1).into())), file("empty", "\n"));
    let (key, spaced) = (file("key.pem", "no key"), file("spaced", "good\nnot good\n"));
    let cases: [(&[&str], &str); 9] = [
        (&["--admin-listen", "0.0.0.0"], "name a file of tokens with --admin-token-file"),
        (&["--admin-token-file", &spaced], "(--admin-token-file): line 2 has characters that no token has"),
        (&["--admin-tls-client-ca", &key], "--admin-tls-cert"),
        (
            &["--admin-tls-cert", &key, "--admin-tls-key", &key],
            "cannot secure the admin port: cannot read the certificate",
        ),
        (&["--bearer-token-file", "/nowhere/tokens"], "cannot read /nowhere/tokens (--bearer-token-file)"),
        (&["--bearer-token-file", &empty], "there is no token in it"),
        (&["--bearer-token-file", &spaced], "line 2 has characters that no token has"),
        (&["--tls-cert", &key], "--tls-key"),
        (&["--tls-cert", &key, "--tls-key", &key], "cannot read the certificate"),
    ];
    for (arguments, complaint) in cases {
        let data = directory.path().join("data");
        let run = ["run", &pipelines, "--data-dir", data.to_str().unwrap()];
        let output = command(&run).args(arguments).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(complaint), "{arguments:?}: {text}");
        assert!(!data.exists(), "{arguments:?}");
    }
}

/// Of the running program: certificates and tokens that are renewed on disk, and files that are no use.
#[tokio::test]
async fn renewed_files_are_taken_up_by_a_running_gateway() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let write = |authority: &Authority, token: &str| {
        let Identity { cert_pem, key_pem } = authority.identity_of("127.0.0.1");
        std::fs::write(path("cert"), cert_pem).unwrap();
        std::fs::write(path("key"), key_pem.reveal()).unwrap();
        std::fs::write(path("tokens"), token).unwrap();
    };
    let (first, second) = (Authority::new(), Authority::new());
    write(&first, "first");
    let sink = sink("{}").await;
    let (cert, key, tokens) = (path("cert"), path("key"), path("tokens"));
    let arguments = ["--tls-cert", &cert, "--tls-key", &key, "--bearer-token-file", &tokens];
    let weir = Weir::start(&manifest("backend", sink.grpc), &arguments).await;
    let over = |protocol, port, authority: &Authority, token: &str| {
        let output = secured(protocol, port, &json!({"ca": {"value": authority.pem()}}));
        let headers = json!([{"name": "authorization", "value": token, "prefix": "Bearer"}]);
        manifests::pipeline(Signal::Traces, "client", &with(output, json!({"headers": headers})))
    };
    let to = |authority: &Authority, token: &str| over("grpc", weir.grpc, authority, token);
    let to_http = |authority: &Authority, token: &str| over("http", weir.http, authority, token);
    assert!(comes_through(&to(&first, "first"), 100, &sink).await);
    assert!(!comes_through(&to(&first, "second"), 110, &sink).await);

    write(&second, "second");
    let renewed = || weir.logs().iter().filter(|line| line["message"] == RENEWED).count();
    eventually("they are taken up", async || renewed() == 1).await;
    assert!(comes_through(&to(&second, "second"), 200, &sink).await);
    assert!(comes_through(&to_http(&second, "second"), 230, &sink).await);
    assert!(!comes_through(&to(&first, "second"), 210, &sink).await, "the old certificate is gone");
    assert!(!comes_through(&to(&second, "first"), 220, &sink).await, "the old token is gone");

    let mut next = 300;
    for file in ["cert", "key"] {
        let good = std::fs::read(path(file)).unwrap();
        let (refused, renewed) = (weir.all_logged(NOT_RENEWED).len(), weir.all_logged(RENEWED).len());
        std::fs::write(path(file), "garbage").unwrap();
        eventually("garbage is refused", async || weir.all_logged(NOT_RENEWED).len() > refused).await;
        let error = weir.all_logged(NOT_RENEWED).last().unwrap()["error"].clone();
        assert!(error.as_str().unwrap().contains(&format!("--tls-{file}: ")), "{error}");
        for manifest in [to(&second, "second"), to_http(&second, "second")] {
            assert!(comes_through(&manifest, next, &sink).await, "{file}: the last good files stay");
            next += 10;
        }
        std::fs::write(path(file), good).unwrap();
        eventually("good files are taken up", async || weir.all_logged(RENEWED).len() > renewed).await;
    }
}

/// A request for `/v1/traces`, whole.
fn post(first: u64, count: u64) -> Vec<u8> {
    let body = payload::encoded(first, count, 10);
    [head("POST", "/v1/traces", PROTOBUF, &format!("content-length: {}\r\n", body.len())), body].concat()
}

/// A gateway whose clients need certificates, with files that an authority of theirs can be replaced in.
struct Guarded {
    directory: tempfile::TempDir,
    servers: Authority,
    backend: Backend,
    weir: Weir,
}

impl Guarded {
    async fn by(clients: &Authority) -> Self {
        let (directory, servers) = (tempfile::TempDir::new().unwrap(), Authority::new());
        let Identity { cert_pem, key_pem } = servers.identity_of("127.0.0.1");
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (cert, key) = (file("cert", &cert_pem), file("key", key_pem.reveal()));
        let ca = file("ca", &clients.pem());
        let backend = Backend::start().await;
        let ingest = ["--tls-cert", &cert, "--tls-key", &key, "--tls-client-ca", &ca, "--spill-after", "60s"];
        let admin = ["--admin-tls-cert", &cert, "--admin-tls-key", &key, "--admin-tls-client-ca", &ca];
        let weir = Weir::start(&manifest("backend", backend.address), &[&ingest[..], &admin].concat()).await;
        Self { directory, servers, backend, weir }
    }

    /// Others are authorities from now on. As an editor does, a new file takes the place of the old one.
    async fn trust(&self, clients: &[&Authority]) {
        let renewed = self.weir.all_logged(RENEWED).len();
        let (ca, new) = (self.directory.path().join("ca"), self.directory.path().join("new"));
        std::fs::write(&new, clients.iter().map(|authority| authority.pem()).collect::<String>()).unwrap();
        std::fs::rename(new, ca).unwrap();
        eventually("it is taken up", async || self.weir.all_logged(RENEWED).len() > renewed).await;
    }

    /// A client with a certificate of this authority.
    fn client(&self, authority: &Authority) -> ClientConfig {
        self.servers.client(default_provider(), &authority.identity(), &[])
    }

    async fn grpc(&self, authority: &Authority) -> Option<Grpc> {
        Grpc::connect_tls(self.weir.grpc, self.client(authority)).await
    }

    async fn http(&self, address: SocketAddr, authority: &Authority) -> TlsStream<TcpStream> {
        tls::connect(address, self.client(authority)).await.unwrap()
    }

    /// How many connections were asked to end.
    async fn retired(&self) -> f64 {
        Scrape::of(self.weir.metrics).await.get("weir_receiver_connections_retired_total")
    }
}

/// The authority of clients is replaced step by step: first there is a new one beside it, and then it goes. What is under way
/// meanwhile ends well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_may_be_trusted_no_more_are_asked_to_go_and_lose_nothing() {
    let (old, new) = (Authority::new(), Authority::new());
    let guarded = Guarded::by(&old).await;
    let Guarded { backend, weir, .. } = &guarded;
    let (client, idle) = (guarded.grpc(&old).await.unwrap(), guarded.grpc(&old).await.unwrap());
    let mut http = guarded.http(weir.http, &old).await;
    for (step, trusted) in [&[&old][..], &[&new, &old]].into_iter().enumerate() {
        guarded.trust(trusted).await;
        let first = 1 + 3 * step as u64;
        assert_eq!(client.export(&payload::encoded(first, 1, 10)).await.code, OK);
        assert_eq!(idle.export(&payload::encoded(first + 1, 1, 10)).await.code, OK);
        http.write_all(&post(first + 2, 1)).await.unwrap();
        let answer = in_time("answer", read_answer(&mut http)).await.unwrap();
        assert_eq!((answer.status, answer.header("connection")), (200, ""));
    }
    assert_eq!(guarded.retired().await, 0.0, "nobody who was trusted is trusted no more");
    let anew = || weir.all_logged(RENEWED).iter().filter(|line| line["connections"].is_string()).count();
    assert_eq!(anew(), 0);

    backend.hold();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.export(&payload::encoded(7, 10, 10)).await.code }
    });
    http.write_all(&post(17, 10)).await.unwrap();
    let waiting = async || Scrape::of(weir.metrics).await.figure("weir_pipeline_waiting_items", "backend");
    eventually("both requests are under way", async || waiting().await == 20.0).await;
    guarded.trust(&[&new]).await;
    assert_eq!(anew(), 1, "the log says so");
    eventually("all are asked to go", async || guarded.retired().await == 3.0).await;
    eventually("the idle connection is closed", async || idle.is_closed()).await;
    let refused = match guarded.grpc(&old).await {
        Some(client) => client.try_export(&payload::encoded(100, 1, 10)).await,
        None => None,
    };
    assert_eq!(refused, None, "it is not trusted any more");
    backend.answer();
    assert_eq!(in_time("answer", call).await.unwrap(), OK, "who was asked to go lost no request");
    let answer = in_time("answer", read_answer(&mut http)).await.unwrap();
    assert_eq!((answer.status, answer.header("connection")), (200, "close"));
    eventually("the connection ends after its last answer", async || client.is_closed()).await;

    let successor = guarded.grpc(&new).await.unwrap();
    assert_eq!(successor.export(&payload::encoded(27, 1, 10)).await.code, OK);
    let renewed = weir.all_logged(RENEWED).len();
    weir.signal(Unix::HUP);
    eventually("files that are the same are read again", async || weir.all_logged(RENEWED).len() > renewed).await;
    assert_eq!(successor.export(&payload::encoded(28, 1, 10)).await.code, OK);
    assert_eq!((guarded.retired().await, successor.is_closed()), (3.0, false), "nothing has changed");
    assert_eq!(backend.taken_ids(), (1..=28).collect::<Vec<_>>(), "each once");
}

/// A connection to the admin port that has not asked anything as yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_be_trusted_no_more_is_shown_nothing() {
    let (old, new) = (Authority::new(), Authority::new());
    let guarded = Guarded::by(&old).await;
    let admin = guarded.weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap();
    let mut ends = None;
    // The machine may be so slow that the connection has had its 10 s before.
    eventually("it is hung up on before its time", async || {
        guarded.trust(&[&old]).await;
        let began = Instant::now();
        let mut idle = guarded.http(admin, &old).await;
        guarded.trust(&[&new]).await;
        ends = Some(in_time("end", idle.read(&mut [0; 1])).await.unwrap_or(0));
        began.elapsed() < Duration::from_secs(9)
    })
    .await;
    assert_eq!(ends, Some(0), "it said nothing");
}

/// Whoever has a certificate may look, from anywhere; nobody else.
#[tokio::test]
async fn the_admin_port_knows_those_who_look_by_their_certificates() {
    let (directory, authority, sink) = (tempfile::TempDir::new().unwrap(), Authority::new(), sink("{}").await);
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (own, client, stranger) =
        (authority.identity_of("127.0.0.1"), authority.identity(), Authority::new().identity());
    let ca = file("ca", &authority.pem());
    let [own, client, stranger] = [("own", own), ("client", client), ("stranger", stranger)].map(|(name, of)| {
        let key = file(&format!("{name}.key"), of.key_pem.reveal());
        (file(name, &of.cert_pem), key)
    });
    let security = ["--admin-tls-cert", &own.0, "--admin-tls-key", &own.1, "--admin-tls-client-ca", &ca];
    let arguments = [&["--admin-listen", "0.0.0.0"][..], &security].concat();
    let weir = Weir::start(&manifest("backend", sink.grpc), &arguments).await;
    let port = weir.logged("ready").unwrap()["admin"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
    let url = |scheme: &str| format!("{scheme}://127.0.0.1:{port}");
    let why = async |scheme: &str, arguments: &[&str]| {
        let output = command(&["why", "--url", &url(scheme)]).args(arguments).output().await.unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.success(), said)
    };
    let (is_shown, said) = why("https", &["--ca", &ca, "--cert", &client.0, "--key", &client.1]).await;
    assert!(is_shown && said.contains("traces/backend"), "{said}");
    for arguments in [&["--ca", &ca][..], &["--ca", &ca, "--cert", &stranger.0, "--key", &stranger.1]] {
        let (is_shown, said) = why("https", arguments).await;
        assert!(!is_shown && said.contains("does not answer"), "{said}");
    }
    let (is_shown, said) = why("https", &["--cert", &client.0, "--key", &client.1]).await;
    assert!(!is_shown, "another authority: {said}");
    for (arguments, words) in [(&[][..], "does it want https?"), (&["--ca", &ca], "write the URL as https://HOST:PORT")]
    {
        let (is_shown, said) = why("http", arguments).await;
        assert!(!is_shown && said.contains(words), "{said}");
    }
}
