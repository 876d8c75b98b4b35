//! An API server that is unwell: requests go on to the real one, or are answered as a sick one answers. It speaks TLS and
//! HTTP/2, as real ones do.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream::unfold;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::Client;
use kube::client::Body;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Illness {
    /// Nothing.
    None,
    /// It has too much to do, and says when to come again.
    Throttles,
    /// It takes requests and answers none; what it was answering stops in the middle.
    Hangs,
    /// It has forgotten what watches ask for, and lists what there is.
    Forgets,
    /// It refuses everything below a path.
    Refuses(&'static str),
    /// Whoever is connected hears nothing any more, not even that the connection ended.
    Vanishes,
}

/// Stands before an API server.
pub(crate) struct Proxy {
    /// Of somebody who knows only this way.
    pub(crate) client: Client,
    illness: watch::Sender<Illness>,
    refused: Arc<AtomicUsize>,
    connected: Arc<AtomicUsize>,
    asked: Asked,
    _connections: JoinSet<()>,
}

/// How many requests came for each path.
type Asked = Arc<Mutex<BTreeMap<String, usize>>>;

impl Proxy {
    pub(crate) async fn start(upstream: Client, directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (illness, seen) = watch::channel(Illness::None);
        let [refused, connected] = std::array::from_fn(|_| Arc::new(AtomicUsize::new(0)));
        let asked = Asked::default();
        let ca = directory.join(format!("proxy-{port}.crt"));
        let patient = Patient {
            upstream,
            illness: seen,
            refused: Arc::clone(&refused),
            connected: Arc::clone(&connected),
            asked: Arc::clone(&asked),
        };
        let tls = acceptor(&ca);
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(patient.clone().serve(stream, tls.clone()));
            }
        });
        let kubeconfig = directory.join(format!("proxy-{port}"));
        std::fs::write(&kubeconfig, config(port, &ca)).unwrap();
        let client = weir_kubernetes::client(Some(&kubeconfig)).await.unwrap();
        Self { client, illness, refused, connected, asked, _connections: connections }
    }

    /// From now on. What is under way ends, unless it hangs.
    pub(crate) fn falls_ill(&self, illness: Illness) {
        self.refused.store(0, Ordering::SeqCst);
        self.illness.send_replace(illness);
    }

    /// Requests that were answered by the illness, since it began.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub(crate) fn connected(&self) -> usize {
        self.connected.load(Ordering::SeqCst)
    }

    /// Requests for a path that came since the start.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.asked.lock().unwrap().get(path).copied().unwrap_or_default()
    }
}

#[derive(Clone)]
struct Patient {
    upstream: Client,
    illness: watch::Receiver<Illness>,
    refused: Arc<AtomicUsize>,
    connected: Arc<AtomicUsize>,
    asked: Asked,
}

impl Patient {
    async fn serve(self, stream: TcpStream, tls: TlsAcceptor) {
        let mut illness = self.illness.clone();
        let Ok(stream) = tls.accept(stream).await else { return };
        let answer = |request| {
            let patient = self.clone();
            async move { Ok::<_, Infallible>(patient.answer(request).await) }
        };
        self.connected.fetch_add(1, Ordering::SeqCst);
        let builder = auto::Builder::new(TokioExecutor::new());
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service_fn(answer)));
        let vanishes = tokio::select! {
            biased;
            _ = illness.wait_for(|illness| *illness == Illness::Vanishes) => true,
            // Whoever is gone is gone.
            _ = &mut connection => false,
        };
        self.connected.fetch_sub(1, Ordering::SeqCst);
        if vanishes {
            std::future::pending().await
        }
    }

    async fn answer(mut self, request: Request<Incoming>) -> Answer {
        *self.asked.lock().unwrap().entry(request.uri().path().to_owned()).or_default() += 1;
        let illness = *self.illness.borrow();
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let code = match illness {
            Illness::Throttles => StatusCode::TOO_MANY_REQUESTS,
            Illness::Forgets if is_watch => StatusCode::GONE,
            Illness::Refuses(below) if request.uri().path().starts_with(below) => StatusCode::FORBIDDEN,
            Illness::Hangs => {
                self.refused.fetch_add(1, Ordering::SeqCst);
                // Whoever still waits when it is well is answered.
                drop(self.illness.wait_for(|illness| *illness != Illness::Hangs).await);
                return self.pass_on(request).await;
            }
            _ => return self.pass_on(request).await,
        };
        self.refused.fetch_add(1, Ordering::SeqCst);
        // Whoever is throttled is told so in plain text.
        let text = match code {
            StatusCode::TOO_MANY_REQUESTS => "Too many requests, please try again later.".to_owned(),
            code => json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
                "reason": code.canonical_reason(), "message": "the API server is unwell",
            })
            .to_string(),
        };
        let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
        Response::builder().status(code).header("retry-after", "1").body(body).unwrap()
    }

    async fn pass_on(self, request: Request<Incoming>) -> Answer {
        let (mut parts, body) = request.into_parts();
        parts.version = Version::HTTP_11;
        let body = body.collect().await.unwrap().to_bytes();
        parts.headers.remove("host");
        parts.headers.remove("authorization");
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        let (head, body) = self.upstream.send(request).await.unwrap().into_parts();
        // What is well goes on; a watch ends when it is not, or stops in the middle.
        let frames = unfold((body, self.illness.clone()), |(mut body, mut illness)| async move {
            if *illness.borrow_and_update() == Illness::Hangs {
                illness.wait_for(|illness| *illness != Illness::Hangs).await.ok()?;
            }
            let frame = tokio::select! {
                frame = body.frame() => frame?,
                _ = illness.changed() => None?,
            };
            Some((frame, (body, illness)))
        });
        Response::builder().status(head.status).body(StreamBody::new(frames).boxed_unsync()).unwrap()
    }
}

/// Writes the certificate to a file.
fn acceptor(file: &Path) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(file, certificate.pem()).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config =
        config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key.into()).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn config(port: u16, ca: &Path) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority": ca,
        }}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    })
    .to_string()
}
