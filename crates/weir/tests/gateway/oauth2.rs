//! Backends that want a token, and token servers that are ill.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weir_engine::Settings;
use weir_plan::{OAuth2, Output, Pipeline, Protocol, Secret, Signal};

use crate::support::backend::{Backend, Captured, Say};
use crate::support::gateway::{Gateway, output, settings};
use crate::support::grpc::{Grpc, OK, frame};
use crate::support::manifests::{self, secured, with};
use crate::support::process::Weir;
use crate::support::signals::{encoded, items};
use crate::support::tls::Authority;
use crate::support::{eventually, payload};

const UNAUTHENTICATED: u16 = 16;
const PROTOCOLS: [Protocol; 2] = [Protocol::Grpc, Protocol::Http];

/// A backend with OAuth2: the token server is a script too.
struct Guarded {
    tokens: Backend,
    backend: Backend,
}

impl Guarded {
    /// The backend takes only the newest token, and refuses others with `code`.
    async fn start(code: u16, expired: Arc<AtomicBool>) -> Self {
        let issued = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&issued);
        let tokens = Backend::scripted(move |_, _| {
            let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
            Say::Json(format!(
                "{{\"access_token\": \"token-{number}\", \"token_type\": \"Bearer\", \"expires_in\": 3600}}"
            ))
        })
        .await;
        let backend = Backend::scripted(move |_, request| {
            let newest = if expired.load(Ordering::SeqCst) { 2 } else { 1 };
            let expected = format!("Bearer token-{newest}");
            if request.headers["authorization"] == *expected { Say::Ok } else { Say::Code(code, "token expired", None) }
        })
        .await;
        Self { tokens, backend }
    }

    fn output(&self, protocol: Protocol) -> Output {
        let oauth2 = OAuth2 {
            token_url: format!("http://{}/oauth2/token", self.tokens.address),
            client_id: Secret::new("weir"),
            client_secret: Secret::new("p&ss word"),
            scopes: vec!["traces.write".into()],
            params: vec![("audience".into(), Secret::new("traces"))],
            ca_pem: None,
        };
        Output { oauth2: Some(oauth2), ..output(self.backend.address, protocol) }
    }
}

#[tokio::test]
async fn oauth2_tokens_are_fetched_once_and_replaced_when_refused() {
    for (protocol, code) in [(Protocol::Http, 401), (Protocol::Grpc, UNAUTHENTICATED)] {
        let expired = Arc::new(AtomicBool::new(false));
        let guarded = Guarded::start(code, Arc::clone(&expired)).await;
        let pipeline = Pipeline::new(Signal::Traces, "backend", guarded.output(protocol));
        let gateway = Gateway::start(vec![pipeline]).await;
        let client = gateway.client().await;
        for first in [1, 11, 21] {
            assert_eq!(client.export(&payload::encoded(first, 10, 100)).await.code, OK);
        }
        gateway.settle().await;
        let fetches = guarded.tokens.captured();
        assert_eq!(fetches.len(), 1, "one token serves all requests");
        let basic = base64::engine::general_purpose::STANDARD.encode("weir:p%26ss+word");
        assert_eq!(fetches[0].headers["authorization"], format!("Basic {basic}"));
        let form = String::from_utf8(fetches[0].body.to_vec()).unwrap();
        assert_eq!(form, "grant_type=client_credentials&scope=traces.write&audience=traces");

        expired.store(true, Ordering::SeqCst);
        // At once, so that several requests are refused with the same old token.
        let clients = futures_util::future::join_all((0..8).map(|_| gateway.client())).await;
        let large: Vec<_> = (0..8).map(|n| payload::encoded(101 + n * 10, 10, 40_000)).collect();
        let answers = clients.iter().zip(&large).map(|(client, body)| client.export(body));
        for answer in futures_util::future::join_all(answers).await {
            assert_eq!(answer.code, OK, "{answer:?}");
        }
        gateway.settle().await;
        let books = gateway.books("backend");
        assert_eq!((books.accepted, books.delivered), (110, 110), "{protocol:?}: {books:?}");
        assert_eq!(guarded.tokens.captured().len(), 2, "{protocol:?}: one refresh");
    }
}

/// A token server that is ill at first.
struct TokenServer {
    backend: Backend,
    well: Arc<AtomicBool>,
}

impl TokenServer {
    /// Says `illness` to everybody, until it recovers.
    async fn ill(illness: Say) -> Self {
        let well = Arc::new(AtomicBool::new(false));
        let switch = Arc::clone(&well);
        let backend = Backend::scripted(move |_, _| {
            if switch.load(Ordering::SeqCst) { Say::Json(r#"{"access_token": "t"}"#.into()) } else { illness.clone() }
        })
        .await;
        Self { backend, well }
    }

    fn recover(&self) {
        self.well.store(true, Ordering::SeqCst);
    }

    fn oauth2(&self) -> OAuth2 {
        OAuth2 {
            token_url: format!("http://{}/", self.backend.address),
            client_id: Secret::new("id"),
            client_secret: Secret::new("secret"),
            scopes: Vec::new(),
            params: Vec::new(),
            ca_pem: None,
        }
    }
}

/// What a token server may do instead of issuing a token.
fn illnesses() -> [Say; 6] {
    [
        Say::Code(500, "down", None),
        Say::Code(302, "log in elsewhere", None),
        Say::Html("<html><body>Please log in</body></html>"),
        Say::Json(r#"{"token": "t"}"#.into()),
        Say::Json(r#"{"access_token": "a\nb"}"#.into()),
        Say::Nothing,
    ]
}

/// Nothing is sent without a token, nothing is lost while there is none, and no other pipeline notices.
#[tokio::test]
async fn an_ill_token_server_delays_its_pipelines_and_no_others() {
    futures_util::future::join_all(illnesses().map(suffer)).await;
}

/// One pipeline for each signal and protocol that wants a token, and one for each signal that does not.
async fn suffer(illness: Say) {
    let tokens = TokenServer::ill(illness.clone()).await;
    let (guarded, well) = (Backend::start().await, Backend::start().await);
    let mut pipelines = Vec::new();
    for (signal, protocol) in each_signal_and_protocol() {
        let to = Output { oauth2: Some(tokens.oauth2()), ..output_for(signal, protocol, &guarded) };
        let name = if protocol == Protocol::Grpc { "guarded-grpc" } else { "guarded-http" };
        pipelines.push(Pipeline::new(signal, name, to));
    }
    let plain = |signal| Pipeline::new(signal, "well", output_for(signal, Protocol::Grpc, &well));
    pipelines.extend(Signal::ALL.map(plain));
    // None of these clients waits for what cannot be delivered.
    let spill_after = Duration::from_millis(10);
    let gateway = Gateway::with(pipelines, Settings { spill_after, ..settings() }).await;

    for signal in Signal::ALL {
        send(&gateway, signal, 1..4).await;
    }
    for signal in Signal::ALL {
        let has_it = || arrived(&well, signal, Protocol::Grpc) == count(signal, 1..4);
        eventually("those without a token server have theirs", async || has_it()).await;
    }
    eventually("all others have asked for a token", async || tokens.backend.captured().len() >= 6).await;
    for (pipeline, books) in gateway.engine.books().into_iter().filter(|(id, _)| id.name.contains("guarded")) {
        let (lost, rejected) = (books.dropped.len(), books.rejected.len());
        assert_eq!((books.pending, lost, rejected), (books.accepted, 0, 0), "{illness:?}: {pipeline}: {books:?}");
    }
    assert!(guarded.captured().is_empty(), "{illness:?}");

    tokens.recover();
    gateway.settle().await;
    for (signal, protocol) in each_signal_and_protocol() {
        let arrived = arrived(&guarded, signal, protocol);
        assert_eq!(arrived, count(signal, 1..4), "{illness:?}: {signal:?} {protocol:?}");
    }
}

fn each_signal_and_protocol() -> impl Iterator<Item = (Signal, Protocol)> {
    Signal::ALL.into_iter().flat_map(|signal| PROTOCOLS.map(|protocol| (signal, protocol)))
}

/// Where a backend gets this.
fn path(signal: Signal, protocol: Protocol) -> &'static str {
    if protocol == Protocol::Grpc { signal.grpc_method() } else { signal.http_path() }
}

fn output_for(signal: Signal, protocol: Protocol, backend: &Backend) -> Output {
    let mut output = output(backend.address, protocol);
    if protocol == Protocol::Http {
        output.endpoint.path = signal.http_path().into();
    }
    output
}

async fn send(gateway: &Gateway, signal: Signal, ids: std::ops::Range<u64>) {
    let request = encoded(signal, &[("service.name", "shop")], ids);
    let answer = gateway.client().await.call(signal.grpc_method(), None, frame(&request, false)).await;
    assert_eq!(answer.code, OK, "{signal:?}: {answer:?}");
}

fn count(signal: Signal, ids: std::ops::Range<u64>) -> u64 {
    items(signal, &encoded(signal, &[], ids))
}

/// Items that a backend got.
fn arrived(backend: &Backend, signal: Signal, protocol: Protocol) -> u64 {
    let path = path(signal, protocol);
    let requests = backend.captured().into_iter().filter(|request| request.path == path);
    requests.map(|request| items(signal, &request.plain)).sum()
}

/// The value of `authentication` for a token server.
fn authentication(tokens: &Backend) -> Value {
    let token_url = json!({"value": format!("http://{}/", tokens.address)});
    json!({"oauth2": {"tokenURL": token_url, "clientID": {"value": "id"}, "clientSecret": {"value": "secret"}}})
}

/// Over both protocols to a backend that wants tokens; the names of the pipelines are `grpc` and `http`.
fn guarded(backend: &Backend, authority: &Authority, tokens: &Backend) -> String {
    let tls = json!({"ca": {"value": authority.pem()}});
    let document = |protocol| {
        let output = secured(protocol, backend.address, &tls);
        let output = with(output, json!({"authentication": authentication(tokens)}));
        manifests::pipeline(Signal::Traces, protocol, &output)
    };
    document("grpc") + &document("http")
}

/// Causes in the log of one pipeline under this message.
fn causes(weir: &Weir, message: &str, pipeline: &str) -> Vec<String> {
    let lines = weir.all_logged(message).into_iter().filter(|line| line["pipeline"] == pipeline);
    lines.map(|line| line["cause"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn the_log_tells_what_is_wrong_with_a_token_server() {
    let causes = [
        (Say::Code(500, "down", None), "the token server answered 500 Internal Server Error"),
        (
            Say::Html("<html>Please log in</html>"),
            "the answer is not a JSON object with access_token (its content type: text/html)",
        ),
        (Say::Nothing, "no answer within 10 s"),
    ];
    futures_util::future::join_all(causes.map(|(illness, cause)| is_logged(illness, cause))).await;
}

async fn is_logged(illness: Say, cause: &str) {
    let (authority, tokens) = (Authority::new(), TokenServer::ill(illness).await);
    let backend = Backend::with_tls(authority.server(None)).await;
    let weir = Weir::start(&guarded(&backend, &authority, &tokens.backend), &[]).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 3, 0)).await.code, OK);
    for pipeline in ["traces/grpc", "traces/http"] {
        let expected = format!("cannot get a token from 127.0.0.1: {cause}");
        let told = || causes(&weir, "backend does not take data now; it is kept and tried again", pipeline);
        eventually(&format!("{pipeline}: {expected}"), async || told().contains(&expected)).await;
    }
    tokens.recover();
    eventually("both deliver", async || backend.ids() == [1, 1, 2, 2, 3, 3]).await;
}

/// A token that is valid for 20 s is replaced after 10 s. When that fails, requests go on with it.
#[tokio::test]
async fn a_token_server_that_becomes_ill_stops_nobody_who_has_a_token() {
    let illnesses = [
        (Say::Code(503, "down", None), "the token server answered 503 Service Unavailable"),
        (Say::Nothing, "no answer within 10 s"),
    ];
    futures_util::future::join_all(illnesses.map(|(illness, cause)| goes_on(illness, cause))).await;
}

async fn goes_on(illness: Say, cause: &str) {
    let (authority, ill) = (Authority::new(), Arc::new(AtomicBool::new(false)));
    let switch = Arc::clone(&ill);
    let tokens = Backend::scripted(move |number, _| match switch.load(Ordering::SeqCst) {
        true => illness.clone(),
        // The first one of each pipeline is short-lived.
        false if number < 2 => Say::Json(r#"{"access_token": "first", "expires_in": 20}"#.into()),
        false => Say::Json(r#"{"access_token": "next", "expires_in": 3600}"#.into()),
    })
    .await;
    let backend = Backend::with_tls(authority.server(None)).await;
    let weir = Weir::start(&guarded(&backend, &authority, &tokens), &[]).await;
    let client = Grpc::connect(weir.grpc).await;
    let sent = AtomicUsize::new(0);
    let send = async || {
        let id = sent.fetch_add(1, Ordering::SeqCst) + 1;
        assert_eq!(client.export(&payload::encoded(id as u64, 1, 0)).await.code, OK);
    };
    send().await;
    eventually("both have it", async || backend.captured().len() == 2).await;
    ill.store(true, Ordering::SeqCst);
    eventually("both have asked for the next token", async || {
        send().await;
        tokens.captured().len() >= 4
    })
    .await;
    send().await;
    eventually("all is delivered", async || backend.ids().len() == 2 * sent.load(Ordering::SeqCst)).await;
    let tokens_used = || backend.captured().into_iter().map(|request| request.headers["authorization"].clone());
    assert!(tokens_used().all(|token| token == "Bearer first"));
    let message = "the OAuth2 token is not replaced yet; it is used until it expires";
    for pipeline in ["traces/grpc", "traces/http"] {
        let expected = format!("cannot get a token from 127.0.0.1: {cause}");
        eventually(&expected, async || causes(&weir, message, pipeline).contains(&expected)).await;
    }

    ill.store(false, Ordering::SeqCst);
    eventually("the next token is used", async || {
        send().await;
        tokens_used().any(|token| token == "Bearer next")
    })
    .await;
}

/// A token server with a certificate that the system does not know.
#[tokio::test]
async fn a_token_server_may_have_an_authority_of_its_own() {
    let authority = Authority::new();
    let token = |_: usize, _: &Captured| Say::Json(r#"{"access_token": "t", "expires_in": "3600"}"#.into());
    let tokens = Backend::scripted_with_tls(authority.server(None), token).await;
    let backend = Backend::start().await;
    let authentication = json!({"oauth2": {
        "tokenURL": {"value": format!("https://{}/", tokens.address)},
        "clientID": {"value": "id"},
        "clientSecret": {"value": "secret"},
    }});
    let document = |name: &str, annotations: Value| {
        let output = with(manifests::plain("http", backend.address), json!({"authentication": authentication}));
        let metadata = json!({"name": name, "annotations": annotations});
        let api_version = "telemetry.kyma-project.io/v1beta1";
        let spec = json!({"output": {"otlp": output}});
        let document = json!({"apiVersion": api_version, "kind": "TracePipeline", "metadata": metadata, "spec": spec});
        format!("{document}\n---\n")
    };
    let manifests = document("trusting", json!({"weir.dev/oauth2-ca": "default/auth/ca.crt"}))
        + &document("wary", json!({}))
        + &manifests::secret("auth", &json!({"ca.crt": authority.pem()}));
    let weir = Weir::start(&manifests, &[]).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 3, 0)).await.code, OK);
    eventually("one of them delivers", async || backend.ids() == [1, 2, 3]).await;
    assert_eq!(backend.captured()[0].headers["authorization"], "Bearer t");
    let message = "backend does not take data now; it is kept and tried again";
    let told = || causes(&weir, message, "traces/wary").iter().any(|cause| cause.contains("UnknownIssuer"));
    eventually("the other one trusts only whom the system trusts", async || told()).await;
    assert!(causes(&weir, message, "traces/trusting").is_empty());
}

/// An answer is read up to 64 KiB; then its connection is closed.
#[tokio::test]
async fn a_token_server_whose_answer_has_no_end_is_hung_up_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&closed);
    let talking = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"grant_type=client_credentials") {
            request.push(stream.read_u8().await.unwrap());
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
        while stream.write_all(chunk.as_bytes()).await.is_ok() {}
        seen.store(true, Ordering::SeqCst);
        // Nobody else is answered.
        std::future::pending::<()>().await;
    });
    let backend = Backend::start().await;
    let weir = with_tokens_from(address, &backend).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 3, 0)).await.code, OK);
    let expected =
        "cannot get a token from 127.0.0.1: the answer is longer than 64 KiB, or in very many pieces".to_owned();
    let message = "backend does not take data now; it is kept and tried again";
    eventually(&expected, async || causes(&weir, message, "traces/http").contains(&expected)).await;
    eventually("the connection is closed", async || closed.load(Ordering::SeqCst)).await;
    talking.abort();
}

/// A gateway that gets its tokens for `backend` at `address`.
async fn with_tokens_from(address: SocketAddr, backend: &Backend) -> Weir {
    let token_url = json!({"value": format!("http://{address}/")});
    let oauth2 = json!({"tokenURL": token_url, "clientID": {"value": "id"}, "clientSecret": {"value": "secret"}});
    let output = with(manifests::plain("http", backend.address), json!({"authentication": {"oauth2": oauth2}}));
    Weir::start(&manifests::pipeline(Signal::Traces, "http", &output), &[]).await
}

/// What is kept of a head is bounded, as it is of the answers of backends.
#[tokio::test]
async fn a_token_server_whose_answer_has_a_large_head_gives_no_token() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let body = r#"{"access_token": "t"}"#;
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: {}\r\n\r\n", "x".repeat(100_000), body.len());
    let answer = head + body;
    let talking = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"grant_type=client_credentials") {
                request.push(stream.read_u8().await.unwrap());
            }
            // It may be hung up on.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let backend = Backend::start().await;
    let weir = with_tokens_from(address, &backend).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 3, 0)).await.code, OK);
    let message = "backend does not take data now; it is kept and tried again";
    let is_told = || causes(&weir, message, "traces/http").iter().any(|cause| cause.contains("too large"));
    eventually("the head is too large", async || is_told()).await;
    assert!(backend.captured().is_empty());
    talking.abort();
}
