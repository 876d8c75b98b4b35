//! Sinks of the load test as backends, which count what arrives, and addresses where there is none.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weir_loadtest::signal::Signal as Telemetry;
use weir_loadtest::sink::faults::Faults;
use weir_loadtest::sink::{Sink, SinkArgs};
use weir_plan::Signal;

/// A backend from the load test, with faults in JSON.
pub async fn sink(faults: &str) -> Sink {
    let listen = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let args = SinkArgs {
        listen,
        grpc_port: 0,
        http_port: 0,
        control_port: 0,
        frame_bytes: 16 * 1024,
        report: None,
        expect_text: None,
        scraped: false,
        log_lines: true,
        faults: self::faults(faults),
    };
    Sink::start(&args).await.unwrap()
}

/// Faults of a backend that nobody can connect to.
pub const DOWN: &str = r#"{"outage": ["0s..1000s"]}"#;

/// Faults from JSON.
pub fn faults(json: &str) -> Faults {
    serde_json::from_str(json).unwrap()
}

/// The numbers of all spans that arrived at a sink.
pub fn arrived(sink: &Sink) -> Vec<u64> {
    arrived_of(sink, Signal::Traces)
}

/// The numbers of all items of a signal that arrived at a sink.
pub fn arrived_of(sink: &Sink, signal: Signal) -> Vec<u64> {
    let signal = match signal {
        Signal::Traces => Telemetry::Traces,
        Signal::Metrics => Telemetry::Metrics,
        Signal::Logs => Telemetry::Logs,
    };
    sink.report(true).ids_of(signal).iter().flat_map(|&(first, last)| first..=last).collect()
}

/// An address on which nothing listens, and nobody else begins to.
pub async fn closed_port() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    // Taken until the end of the tests.
    std::mem::forget(socket);
    address
}
