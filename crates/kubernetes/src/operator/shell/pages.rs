//! Pages of the operator: whether it is well, and its metrics.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Ports;
use super::world::{Figures, World};
use crate::crowd::Crowd;
use crate::webhook::Webhook;

/// Connections at once, and how long each may last: a probe and a scrape take milliseconds.
const CONNECTIONS: usize = 32;
const LASTS: Duration = Duration::from_secs(10);
/// How long a request may take to come.
const HEAD: Duration = Duration::from_secs(2);

/// Ports that are bound.
pub(super) struct Pages {
    listeners: Vec<TcpListener>,
    sight: Sight,
}

/// What pages are made of.
#[derive(Clone)]
struct Sight {
    world: Arc<World>,
    webhook: Option<Arc<Webhook>>,
}

impl Pages {
    pub(super) async fn bind(ports: Ports, world: Arc<World>) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for address in [ports.health, ports.metrics].into_iter().flatten() {
            let bound = TcpListener::bind(address).await;
            let bound = bound.map_err(|error| io::Error::other(format!("cannot bind {address}: {error}")))?;
            tracing::info!(address = %bound.local_addr()?, "serving pages of the operator");
            listeners.push(bound);
        }
        Ok(Self { listeners, sight: Sight { world, webhook: ports.webhook } })
    }

    /// Serves all pages on all ports.
    pub(super) fn serve(self, tasks: &mut JoinSet<()>) {
        for listener in self.listeners {
            tasks.spawn(accept(listener, self.sight.clone()));
        }
    }
}

async fn accept(listener: TcpListener, sight: Sight) {
    let crowd = Crowd::new(CONNECTIONS);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let Some(place) = crowd.enter() else { continue };
                let sight = sight.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = timeout(LASTS, connection(stream, &sight)) => {}
                        () = place.has_to_leave() => {}
                    }
                });
            }
            // No file descriptors, for example: they come back.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(stream: TcpStream, sight: &Sight) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = page(request.uri().path(), sight);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false).max_buf_size(16 << 10);
    drop(builder.serve_connection(TokioIo::new(stream), service).await);
}

fn page(path: &str, Sight { world, webhook }: &Sight) -> Response<Full<Bytes>> {
    let (status, text) = match path {
        "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => match world.look(|seen| seen.missing()).as_slice() {
            [] if webhook.as_ref().is_some_and(|webhook| !webhook.is_ready()) => {
                (StatusCode::SERVICE_UNAVAILABLE, "the API server does not know the webhooks yet\n".to_owned())
            }
            [] => (StatusCode::OK, "ok\n".to_owned()),
            missing => (StatusCode::SERVICE_UNAVAILABLE, format!("not yet seen: {}\n", missing.join(", "))),
        },
        "/metrics" => (StatusCode::OK, metrics(world, webhook.as_deref())),
        _ => (StatusCode::NOT_FOUND, "pages: /healthz, /readyz, /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

fn metrics(world: &World, webhook: Option<&Webhook>) -> String {
    let (figures, pipelines, secrets, pods, answers) = world.look(|seen| {
        let sizes = [seen.pipelines.len(), seen.secrets.len(), seen.pods.len(), seen.answers.len()];
        (seen.figures, sizes[0], sizes[1], sizes[2], sizes[3])
    });
    let Figures { leads, decisions, writes, write_errors, watch_errors, last_decision_seconds, configuration_bytes } =
        figures;
    let mut page = String::new();
    let mut say = |name: &str, kind: &str, about: &str, value: f64| {
        page += &format!("# HELP {name} {about}\n# TYPE {name} {kind}\n{name} {value}\n");
    };
    say("weir_operator_leader", "gauge", "Whether this process leads.", f64::from(u8::from(leads)));
    say("weir_operator_pipelines", "gauge", "Pipelines that were seen.", pipelines as f64);
    say("weir_operator_secret_watches", "gauge", "Secrets that are watched.", secrets as f64);
    say("weir_operator_nodes", "gauge", "Pods of the workloads.", pods as f64);
    say("weir_operator_nodes_answering", "gauge", "Those that answered in the last round.", answers as f64);
    say(
        "weir_operator_configuration_bytes",
        "gauge",
        "Size of the configuration of the nodes, compressed.",
        configuration_bytes as f64,
    );
    say("weir_operator_decision_seconds", "gauge", "How long the last decision took.", last_decision_seconds);
    say("weir_operator_decisions_total", "counter", "Decisions.", decisions as f64);
    say("weir_operator_writes_total", "counter", "Objects, statuses and events that were written.", writes as f64);
    say("weir_operator_write_errors_total", "counter", "Writes that failed.", write_errors as f64);
    say("weir_operator_watch_errors_total", "counter", "Watches that failed.", watch_errors as f64);
    if let Some(webhook) = webhook {
        let about = "Whether the API server knew the webhooks when it was asked last.";
        let registered = f64::from(u8::from(webhook.is_registered()));
        say("weir_operator_webhooks_registered", "gauge", about, registered);
    }
    page
}
