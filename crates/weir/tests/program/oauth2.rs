//! Backends that want a token, and token servers that are ill.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weir_plan::Signal;
use weir_testkit::backend::{Backend, Captured, Say};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::http;
use weir_testkit::manifests::{self, secured, with};
use weir_testkit::metrics::Scrape;
use weir_testkit::tls::Authority;
use weir_testkit::tokens::TokenServer;
use weir_testkit::{eventually, payload};

use crate::process::Weir;

/// Nobody has asked the backend.
const FAILS_HERE: &str = "requests fail here, not at the backend; data is kept and tried again";

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
        let logged = || causes(&weir, FAILS_HERE, pipeline);
        eventually(&format!("{pipeline}: {expected}"), async || logged().contains(&expected)).await;
        // Nor is it the backend that does not answer.
        let silent = causes(&weir, "backend does not answer; data is kept and tried again", pipeline);
        assert_eq!(silent, Vec::<String>::new(), "{pipeline}");
    }
    tokens.recover();
    eventually("both deliver", async || backend.ids() == [1, 1, 2, 2, 3, 3]).await;
}

/// A backend that nobody asks is neither overloaded nor at fault.
#[tokio::test]
async fn a_token_server_that_fails_is_not_told_as_a_backend_that_does() {
    let (authority, tokens) = (Authority::new(), TokenServer::ill(Say::Code(500, "down", None)).await);
    let backend = Backend::with_tls(authority.server(None)).await;
    let weir = Weir::start(&guarded(&backend, &authority, &tokens.backend), &["--look-every", "500ms"]).await;
    assert_eq!(Grpc::connect(weir.grpc).await.export(&payload::encoded(1, 3, 0)).await.code, OK);
    let mut page = Vec::new();
    eventually("nothing is delivered", async || {
        page = serde_json::from_str::<Vec<Value>>(&http::get(weir.health, "/health/pipelines").await.text()).unwrap();
        page.len() == 2 && page.iter().all(|of| of["state"] == "nothing_delivered")
    })
    .await;
    for of in &page {
        let message = of["message"].as_str().unwrap();
        assert!(
            message.contains("The backend: not asked, as requests fail here: cannot get a token from"),
            "{message}"
        );
        assert!(message.contains("Look at that cause, which is not the backend"), "{message}");
        assert!(!message.contains("it answers") && !message.contains("Mend the backend"), "{message}");
    }
    let scrape = Scrape::of(weir.metrics).await;
    assert_eq!(scrape.sum("weir_pipeline_backend_state", "state=\"unsent\""), 2.0);
    assert_eq!(weir.all_logged("backend does not take data now; it is kept and tried again"), Vec::<Value>::new());
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
    let message = FAILS_HERE;
    let logged = || causes(&weir, message, "traces/wary").iter().any(|cause| cause.contains("UnknownIssuer"));
    eventually("the other one trusts only whom the system trusts", async || logged()).await;
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
    let message = FAILS_HERE;
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
    let message = FAILS_HERE;
    let is_told = || causes(&weir, message, "traces/http").iter().any(|cause| cause.contains("too large"));
    eventually("the head is too large", async || is_told()).await;
    assert!(backend.captured().is_empty());
    talking.abort();
}
