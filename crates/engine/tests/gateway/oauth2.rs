//! Backends that want a token, and token servers that are ill.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use weir_engine::Settings;
use weir_plan::{OAuth2, Output, Pipeline, Protocol, Secret, Signal};
use weir_testkit::backend::{Backend, Say};
use weir_testkit::grpc::{OK, frame};
use weir_testkit::signals::{encoded, items};
use weir_testkit::tokens::{TokenServer, illnesses};
use weir_testkit::{eventually, payload};

use crate::support::{Gateway, output, settings};

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
