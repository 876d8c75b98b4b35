//! The server on a port of the loopback address, without an API server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::certificates::{Certificates, certified, renewed};
use crate::operator::pending;

struct Served {
    webhook: Arc<Webhook>,
    address: SocketAddr,
    certificates: Certificates,
    stop: oneshot::Sender<()>,
    server: JoinHandle<Result<(), ServeError>>,
}

fn made() -> Certificates {
    renewed(None, &["127.0.0.1".to_owned()], SystemTime::now()).unwrap().unwrap()
}

async fn serve() -> Served {
    serve_with(Options::in_namespace("kyma-system")).await
}

async fn serve_with(options: Options) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let webhook = Webhook::new(options);
    let (stop, stopped) = oneshot::channel();
    let stopped = async move { drop(stopped.await) };
    let server = tokio::spawn(server::serve(listener, Arc::clone(&webhook), stopped));
    let certificates = made();
    webhook.certificate.set(certified(&certificates).unwrap());
    Served { webhook, address, certificates, stop, server }
}

impl Served {
    async fn connect(&self, certificates: &Certificates) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificates.authorities.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::from(self.address.ip()), stream).await
    }

    async fn ask(&self, method: Method, path: &str, body: impl Into<Bytes>) -> (StatusCode, Bytes) {
        let stream = self.connect(&self.certificates).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", "webhook");
        let request = request.body(Full::new(body.into())).unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        (parts.status, body.collect().await.unwrap().to_bytes())
    }
}

#[tokio::test]
async fn reviews_are_answered() {
    let served = serve().await;
    let object = json!({"apiVersion": "telemetry.kyma-project.io/v1beta1", "kind": "TracePipeline",
        "metadata": {"name": "x"}, "spec": {"output": {"otlp": {"endpoint": {"value": "a:1"}}}}});
    let admission = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "object": object}});
    let conversion = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "telemetry.kyma-project.io/v1alpha1", "objects": [object]}});
    for (path, review, pointer, expected) in [
        ("/validate", &admission, "/response/allowed", json!(true)),
        ("/mutate", &admission, "/response/patchType", json!("JSONPatch")),
        ("/convert", &conversion, "/response/result/status", json!("Success")),
    ] {
        let (status, body) = served.ask(Method::POST, path, review.to_string()).await;
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, answer.pointer(pointer)), (StatusCode::OK, Some(&expected)), "{answer:#}");
    }
}

#[tokio::test]
async fn whoever_asks_for_something_else_is_told_so() {
    let served = serve().await;
    for (method, path, body, expected) in [
        (Method::GET, "/validate", "", StatusCode::METHOD_NOT_ALLOWED),
        (Method::POST, "/", "", StatusCode::NOT_FOUND),
        (Method::POST, "/validate", "no review", StatusCode::BAD_REQUEST),
        (Method::POST, "/convert", "{}", StatusCode::BAD_REQUEST),
    ] {
        let (status, body) = served.ask(method, path, body).await;
        assert_eq!(status, expected);
        assert!(!body.is_empty());
    }
}

#[tokio::test]
async fn autoscalers_are_answered_where_they_are_to_be() {
    let pending = Pending::default();
    let pods = BTreeMap::from([("telemetry-gateway-0".to_owned(), ("telemetry-gateway", 7))]);
    pending.set("kyma-system", pods, tokio::time::Instant::now());
    let options = Options::in_namespace("kyma-system");
    let (answers, does_not) = (serve_with(Options { pending: Some(pending), ..options }).await, serve().await);
    let path = |metric| format!("{}/namespaces/kyma-system/pods/*/{metric}", pending::PATH);
    let (status, body) = answers.ask(Method::GET, &path(pending::NAME), "").await;
    let answer: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, answer.pointer("/items/0/value")), (StatusCode::OK, Some(&json!("7"))), "{answer:#}");
    for (served, method, metric, expected) in [
        (&answers, Method::GET, "cpu", StatusCode::NOT_FOUND),
        (&answers, Method::GET, "weir_pending_bytes?labelSelector=team%3Dblue", StatusCode::BAD_REQUEST),
        (&answers, Method::POST, pending::NAME, StatusCode::NOT_FOUND),
        (&does_not, Method::GET, pending::NAME, StatusCode::NOT_FOUND),
    ] {
        let (status, body) = served.ask(method, &path(metric), "").await;
        assert_eq!(status, expected, "{metric}");
        assert!(!body.is_empty());
    }
}

/// A body that is announced as too large is not waited for, and one that turns out to be is not read to its end.
#[tokio::test]
async fn bodies_have_a_limit() {
    let served = serve().await;
    for head in ["content-length: 8000000", "transfer-encoding: chunked"] {
        let mut stream = served.connect(&served.certificates).await.unwrap();
        let request = format!("POST /validate HTTP/1.1\r\nhost: webhook\r\n{head}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let (mut reading, mut writing) = tokio::io::split(stream);
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        let flood = async {
            // Until the server has had enough.
            while head.starts_with("transfer") && writing.write_all(chunk.as_bytes()).await.is_ok() {}
            std::future::pending::<()>().await;
        };
        let mut answer = [0; 12];
        tokio::select! {
            read = reading.read_exact(&mut answer) => drop(read.unwrap()),
            () = flood => {}
        }
        assert_eq!(&answer, b"HTTP/1.1 413", "{head}");
    }
}

#[tokio::test]
async fn a_certificate_is_replaced_without_a_restart() {
    let served = serve().await;
    assert!(served.connect(&served.certificates).await.is_ok());
    let next = made();
    assert!(served.connect(&next).await.is_err(), "its authority has not signed yet");
    served.webhook.certificate.set(certified(&next).unwrap());
    assert!(served.connect(&next).await.is_ok());
    assert!(served.connect(&served.certificates).await.is_err());
}

#[tokio::test]
async fn without_a_certificate_there_are_no_answers_and_the_server_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let webhook = Webhook::new(Options::in_namespace("kyma-system"));
    let server = tokio::spawn(server::serve(listener, Arc::clone(&webhook), std::future::pending()));
    let (certificates, (stop, _)) = (made(), oneshot::channel());
    let served = Served { webhook, address, certificates, stop, server };
    assert!(!served.webhook.is_ready());
    assert!(served.connect(&served.certificates).await.is_err());
    let mut stranger = TcpStream::connect(address).await.unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    served.webhook.certificate.set(certified(&served.certificates).unwrap());
    assert!(served.connect(&served.certificates).await.is_ok());
    assert!(!served.webhook.is_ready(), "no API server was told");
}

/// Somebody deletes a configuration, and the operator may not make it again. Replicas stay ready, and say so.
#[test]
fn whether_the_webhooks_are_registered_is_what_the_api_server_said_last() {
    let webhook = Webhook::new(Options::in_namespace("kyma-system"));
    let refusal = json!({"status": "Failure", "message": "forbidden", "reason": "Forbidden", "code": 403});
    let refused = || Err(kube::Error::Api(serde_json::from_value(refusal.clone()).unwrap()));
    let away = || Err(kube::Error::Service("connection refused".into()));
    let said = |result| (webhook.registered(&result), webhook.is_registered(), webhook.is_ready());
    assert_eq!(said(refused()), (false, false, false));
    assert_eq!(said(Ok(())), (true, true, true));
    assert_eq!(said(away()), (false, true, true), "nobody knows");
    assert_eq!(said(refused()), (false, false, true));
    assert_eq!(said(away()), (false, false, true));
    assert_eq!(said(Ok(())), (false, true, true), "that is no news for the log");
}

#[tokio::test]
async fn it_ends_when_it_is_told_to_although_somebody_is_connected() {
    let served = serve().await;
    let (status, _) = served.ask(Method::POST, "/validate", "{}").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let idle = served.connect(&served.certificates).await.unwrap();
    served.stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), served.server).await.unwrap();
    assert!(ended.unwrap().is_ok());
    drop(idle);
}
