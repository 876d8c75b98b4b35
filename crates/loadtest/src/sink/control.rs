//! The control port: reports, metrics, and changing faults at run time.
//!
//! `GET /healthz`, `GET /report` (`?ids=1` adds the ids), `GET /metrics`, `GET /faults`, `POST /faults` (JSON; replaces all
//! faults), `POST /reset` (forgets what was recorded), `POST /latency/reset` (forgets latencies only, as after a warm-up).

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Shared;
use super::faults::Faults;
use super::ledger::SinkReport;
use crate::accept;

/// Largest body of `POST /faults`.
const BODY_LIMIT_BYTES: usize = 1 << 20;

/// Serves the control port until dropped.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut told = None;
    loop {
        let stream = accept::next(&listener, &mut told).await;
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&shared), request));
            if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "control connection ended");
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    Ok(match (request.method(), path.as_str()) {
        (&Method::GET, "/healthz") => text(StatusCode::OK, "ok\n"),
        (&Method::GET, "/report") => {
            let with_ids = request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "ids=1"));
            json(&shared.ledger.report(with_ids))
        }
        (&Method::GET, "/metrics") => text(StatusCode::OK, metrics(&shared.ledger.report(false))),
        (&Method::GET, "/faults") => json(&shared.dice.faults()),
        (&Method::POST, "/faults") => replace_faults(&shared, request).await,
        (&Method::POST, "/reset") => {
            shared.ledger.reset();
            text(StatusCode::OK, "ok\n")
        }
        (&Method::POST, "/latency/reset") => {
            shared.ledger.reset_latency();
            text(StatusCode::OK, "ok\n")
        }
        (method, path) => text(StatusCode::NOT_FOUND, format!("cannot answer {method} {path}: no such endpoint\n")),
    })
}

async fn replace_faults(shared: &Shared, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = match Limited::new(request.into_body(), BODY_LIMIT_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(err) => return text(StatusCode::BAD_REQUEST, format!("cannot read faults: {err}\n")),
    };
    match serde_json::from_slice::<Faults>(&body) {
        Ok(faults) => {
            let answer = json(&faults);
            shared.dice.replace(faults);
            answer
        }
        Err(err) => text(StatusCode::BAD_REQUEST, format!("cannot read faults: {err}\n")),
    }
}

fn metrics(report: &SinkReport) -> String {
    let mut out = String::new();
    for (name, help, value) in [
        ("requests", "Requests that arrived", report.requests),
        ("duplicate_items", "Items recorded more than once", report.duplicates),
        ("received_bytes", "Uncompressed bytes recorded", report.bytes),
    ] {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "# HELP weir_sink_{name}_total {help}.\n# TYPE weir_sink_{name}_total counter\nweir_sink_{name}_total {value}"
        );
    }
    out.push_str("# HELP weir_sink_received_items_total Items recorded, duplicates included.\n");
    out.push_str("# TYPE weir_sink_received_items_total counter\n");
    for (signal, count) in &report.received_by_signal {
        let _ = writeln!(out, "weir_sink_received_items_total{{signal=\"{signal}\"}} {count}");
    }
    out.push_str("# HELP weir_sink_refused_requests_total Requests not accepted.\n");
    out.push_str("# TYPE weir_sink_refused_requests_total counter\n");
    for (reason, count) in &report.refused {
        let _ = writeln!(out, "weir_sink_refused_requests_total{{reason=\"{reason}\"}} {count}");
    }
    out
}

fn json<T: Serialize>(value: &T) -> Response<Full<Bytes>> {
    match serde_json::to_vec(value) {
        Ok(body) => reply(StatusCode::OK, "application/json", body.into()),
        Err(err) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode answer: {err}\n")),
    }
}

fn text(status: StatusCode, body: impl Into<String>) -> Response<Full<Bytes>> {
    reply(status, "text/plain; charset=utf-8", body.into().into())
}

fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
