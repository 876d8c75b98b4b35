//! OTLP ports that not everybody may send to. The client is another gateway: it speaks TLS, has a certificate, and sends
//! the headers it is told.

use std::net::SocketAddr;

use weir_engine::Settings;
use weir_engine::settings::{PortSecurity, PortTls};
use weir_loadtest::sink::Sink;
use weir_plan::{Header, Output, Pipeline, Protocol, Secret, Signal, Tls};
use weir_testkit::grpc::{Grpc, OK, UNAUTHENTICATED};
use weir_testkit::http::{self, PROTOBUF};
use weir_testkit::sink::{arrived, sink};
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, payload};

use crate::support::{Gateway, ingest, output, pipeline, settings};

fn with_token(token: &str) -> Vec<Header> {
    vec![Header { name: "authorization".into(), value: Secret::new(format!("Bearer {token}")) }]
}

fn tokens(tokens: &[&str]) -> PortSecurity {
    PortSecurity { tls: None, tokens: (1..).zip(tokens.iter().map(|token| Secret::new(*token))).collect() }
}

/// A gateway with these rules, and what is behind it.
async fn guarded(security: PortSecurity) -> (Sink, Gateway) {
    let sink = sink("{}").await;
    let settings = Settings { security, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    (sink, gateway)
}

/// A gateway that sends to another one; whether ten spans come through before it gives up for good.
async fn comes_through(to: Output, first: u64, sink: &Sink) -> bool {
    let client = Gateway::start(vec![Pipeline::new(Signal::Traces, "client", to)]).await;
    let answer = client.client().await.export(&payload::encoded(first, 10, 10)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    let mut outcome = None;
    eventually("it is taken or refused", async || {
        let books = client.books("client");
        let retries = client.scrape().await.get("weir_pipeline_retries_total{pipeline=\"client\",signal=\"traces\"}");
        outcome = Some(books.delivered == 10);
        books.delivered + books.rejected.values().sum::<u64>() == 10 || retries > 0.0
    })
    .await;
    let came = outcome == Some(true);
    assert_eq!(arrived(sink).contains(&first), came);
    came
}

#[tokio::test]
async fn a_token_is_wanted_on_both_transports() {
    let (sink, gateway) = guarded(tokens(&["old", "new"])).await;
    let answer = gateway.client().await.export(&payload::encoded(1, 1, 0)).await;
    assert_eq!((answer.code, answer.message.contains("bearer token")), (UNAUTHENTICATED, true), "{answer:?}");
    let answer = http::post(gateway.at.http, PROTOBUF, None, &payload::encoded(1, 1, 0)).await;
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Bearer"), "{answer:?}");
    for (protocol, port, first) in [(Protocol::Grpc, gateway.at.grpc, 100), (Protocol::Http, gateway.at.http, 200)] {
        for (number, (token, taken)) in [("old", true), ("new", true), ("wrong", false)].into_iter().enumerate() {
            let to = Output { headers: with_token(token), ..output(port, protocol) };
            let came = comes_through(to, first + 10 * number as u64, &sink).await;
            assert_eq!(came, taken, "{protocol:?} {token}");
        }
    }
    // A token that is withdrawn is refused from then on, on connections that are open.
    let client = gateway.client().await;
    gateway.engine.secure(&PortSecurity::default(), &PortSecurity::default()).unwrap();
    assert_eq!(client.export(&payload::encoded(300, 1, 0)).await.code, OK);
    gateway.engine.secure(&tokens(&["newer"]), &PortSecurity::default()).unwrap();
    assert_eq!(client.export(&payload::encoded(301, 1, 0)).await.code, UNAUTHENTICATED);
    let refused = gateway
        .scrape()
        .await
        .get("weir_receiver_refused_requests_total{transport=\"http\",reason=\"unauthenticated\"}");
    assert!(refused >= 2.0, "{refused}");
}

#[tokio::test]
async fn with_tls_only_clients_that_are_trusted_come_through() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let security = PortSecurity { tls: Some(ingest(&servers, Some(&clients))), ..PortSecurity::default() };
    let (sink, gateway) = guarded(security).await;
    let to = |port: SocketAddr, protocol, identity| {
        let tls = Some(Tls { ca_pem: Some(servers.pem().into()), identity, ..Tls::default() });
        Output { tls, ..output(port, protocol) }
    };
    for (protocol, port, first) in [(Protocol::Grpc, gateway.at.grpc, 100), (Protocol::Http, gateway.at.http, 200)] {
        assert!(comes_through(to(port, protocol, Some(clients.identity())), first, &sink).await, "{protocol:?}");
        assert!(!comes_through(to(port, protocol, Some(strangers.identity())), first + 10, &sink).await);
        assert!(!comes_through(to(port, protocol, None), first + 20, &sink).await);
    }
    assert!(Grpc::connect(gateway.at.grpc).await.try_export(&payload::encoded(1, 1, 0)).await.is_none(), "plain text");
    assert!(gateway.scrape().await.get("weir_receiver_tls_handshakes_failed_total") >= 3.0);

    // Another certificate, as after a renewal by another authority, without a restart.
    let renewed = PortSecurity { tls: Some(ingest(&strangers, None)), ..PortSecurity::default() };
    gateway.engine.secure(&renewed, &PortSecurity::default()).unwrap();
    let trusting = Tls { ca_pem: Some(strangers.pem().into()), ..Tls::default() };
    let to = Output { tls: Some(trusting), ..output(gateway.at.grpc, Protocol::Grpc) };
    assert!(comes_through(to, 400, &sink).await);
    let garbage = PortTls { cert_pem: "garbage".into(), ..ingest(&servers, None) };
    gateway
        .engine
        .secure(&PortSecurity { tls: Some(garbage), ..PortSecurity::default() }, &PortSecurity::default())
        .unwrap_err();
    let trusting = Tls { ca_pem: Some(strangers.pem().into()), ..Tls::default() };
    let to = Output { tls: Some(trusting), ..output(gateway.at.grpc, Protocol::Grpc) };
    assert!(comes_through(to, 410, &sink).await, "the last good certificate stays");
}
