//! How an engine is set up: addresses, sizes and times. Every default is here, with its reason.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use weir_journal::Fs;
use weir_plan::Secret;

use crate::admin::Route;
use crate::talkers::Talkers;
use crate::taps::Taps;

/// OTLP/gRPC's registered port.
pub const GRPC_PORT: u16 = 4317;
/// OTLP/HTTP's registered port.
pub const HTTP_PORT: u16 = 4318;
/// Where the field's gateways serve their metrics.
pub const METRICS_PORT: u16 = 8888;
/// Where the field's gateways answer health checks.
pub const HEALTH_PORT: u16 = 13133;
/// Where the field's gateways show what passes through them (zPages).
pub const ADMIN_PORT: u16 = 55679;

/// The budget when there is no cgroup limit to take it from.
pub const MEMORY: usize = 512 << 20;
/// With less memory there is hardly room for a request of a MiB beside what is set aside.
pub const MEMORY_MIN: usize = 32 << 20;
/// How long a client waits for delivery before its data is held. This is long enough for any healthy backend, and short
/// enough for every exporter's timeout.
pub const SPILL_AFTER: Duration = Duration::from_millis(250);
/// How long a shutdown may take to deliver what is here: within Kubernetes' default grace period of 30 s.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest request, compressed and decompressed: four times what gRPC servers take by default.
pub const MAX_REQUEST_BYTES: usize = 16 << 20;
/// The largest request to a backend: just under the 4 MiB that gRPC servers take by default.
pub const BATCH_BYTES: usize = (4 << 20) - (16 << 10);
/// Clients are asked to reconnect after this long (give or take a tenth), so that they spread over new instances.
pub const MAX_CONNECTION_AGE: Duration = Duration::from_secs(600);
/// The time in which the body of every request has to arrive. Large bodies have more, by a minimum rate.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Clients that are refused at the drain deadline have this long to receive their answer.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// When what was written to the journal is forced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Before a client is answered: nothing acknowledged is lost, whatever happens to the machine.
    Always,
    /// This often. A power loss or kernel crash loses what was acknowledged since; a crash of the process loses
    /// nothing.
    Interval(Duration),
    /// When the kernel likes. A power loss may lose half a minute or more; a crash of the process loses nothing.
    Never,
}

/// Where data is kept that no backend takes.
#[derive(Debug, Clone)]
pub struct Journal {
    /// The journal's directory, which this process holds the lock of.
    pub fs: Arc<dyn Fs>,
    /// See [`Fsync`].
    pub fsync: Fsync,
}

/// Small files that outlive the process: what is remembered of metric series.
pub trait State: Send + Sync + fmt::Debug {
    /// What was put under this name. `pay` is asked for the length of the file before the file is read; if there is no
    /// room for it, that is an error.
    fn read(&self, name: &str, pay: &mut dyn FnMut(usize) -> bool) -> io::Result<Option<Vec<u8>>>;
    /// From now on nothing is under this name, not even after a loss of power: what was there must not be used twice.
    fn delete(&self, name: &str) -> io::Result<()>;
    /// Keeps what `write` writes under this name, whole or not at all.
    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()>;
}

/// Who may use a port. By default, everybody may, in plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortSecurity {
    /// Transport security.
    pub tls: Option<PortTls>,
    /// Bearer tokens, by the lines of the file that they are on, from 1: so the log calls them. Every request must
    /// carry one of them; if there are none, it need not.
    pub tokens: BTreeMap<u32, Secret>,
}

impl PortSecurity {
    /// Whether nobody may use it without a secret of their own.
    pub(crate) fn knows_clients(&self) -> bool {
        !self.tokens.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.client_ca_pem.is_some())
    }
}

/// TLS of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortTls {
    /// PEM certificate chain of this gateway.
    pub cert_pem: String,
    /// PEM private key of this gateway.
    pub key_pem: Secret,
    /// PEM bundle of the authorities that clients need a certificate of; `None` takes clients without one.
    pub client_ca_pem: Option<String>,
}

/// The port for those who run the gateway. It shows samples of telemetry.
#[derive(Debug, Clone)]
pub struct Admin {
    /// Address that it is bound on.
    pub listen: IpAddr,
    /// The port; 0 takes a free one. Without a port nothing is shown.
    pub port: Option<u16>,
    /// Who may use it. An address that is no loopback address needs tokens, or clients with certificates.
    pub security: PortSecurity,
    /// Pages besides those of the engine. If both have the same path, the engine's page is shown.
    pub routes: Vec<Route>,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: Some(ADMIN_PORT),
            security: PortSecurity::default(),
            routes: Vec::new(),
        }
    }
}

impl Admin {
    /// Whether this is enough for its address.
    pub(crate) fn may_have(&self, security: &PortSecurity) -> bool {
        self.listen.is_loopback() || security.knows_clients()
    }
}

/// The proxies that outputs and token servers are reached through, as in the environment's variables of these names. By
/// default there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxy {
    /// `HTTPS_PROXY`, for TLS and for gRPC: a URL, which may have credentials.
    pub https: Option<Secret>,
    /// `HTTP_PROXY`, for plain text.
    pub http: Option<Secret>,
    /// `NO_PROXY`: what is reached without.
    pub except: String,
}

/// What looks at what passes, while somebody asks for it.
#[derive(Debug, Clone, Default)]
pub struct Onlookers {
    /// See the items.
    pub taps: Taps,
    /// See who sends them.
    pub talkers: Talkers,
}

/// A disk that hangs keeps the process alive for no longer than this.
pub(crate) const LAST_WRITES: Duration = Duration::from_secs(5);

/// Settings of one engine.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address that all ports are bound on, except that of [`Admin`].
    pub listen: IpAddr,
    /// OTLP/gRPC port; 0 takes a free one. Without a port nothing is served; the same is true of the other ports.
    pub grpc_port: Option<u16>,
    /// OTLP/HTTP port.
    pub http_port: Option<u16>,
    /// Port of `/metrics`.
    pub metrics_port: Option<u16>,
    /// Port of the health check.
    pub health_port: Option<u16>,
    /// Memory budget in bytes.
    pub memory: usize,
    /// See [`SPILL_AFTER`].
    pub spill_after: Duration,
    /// See [`DRAIN_TIMEOUT`].
    pub drain_timeout: Duration,
    /// See [`MAX_REQUEST_BYTES`].
    pub max_request_bytes: usize,
    /// See [`BATCH_BYTES`].
    pub batch_bytes: usize,
    /// See [`MAX_CONNECTION_AGE`].
    pub max_connection_age: Duration,
    /// For one of several instances behind one address: connections live shorter the busier the process is, and these are
    /// the cores that it is meant to use.
    pub rebalance: Option<f64>,
    /// See [`BODY_TIMEOUT`].
    pub body_timeout: Duration,
    /// `None`: what no backend takes is held in memory only.
    pub journal: Option<Journal>,
    /// `None`: nothing is remembered of metric series beyond the process.
    pub state: Option<Arc<dyn State>>,
    /// Who may send.
    pub security: PortSecurity,
    /// Who may see samples of what was sent.
    pub admin: Admin,
    /// Pages beside `/metrics`, for everybody.
    pub pages: Vec<Route>,
    /// Pages beside the health check, for everybody.
    pub health_pages: Vec<Route>,
    /// How backends are reached.
    pub proxy: Proxy,
    /// Who looks at what passes.
    pub onlookers: Onlookers,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            grpc_port: Some(GRPC_PORT),
            http_port: Some(HTTP_PORT),
            metrics_port: Some(METRICS_PORT),
            health_port: Some(HEALTH_PORT),
            memory: MEMORY,
            spill_after: SPILL_AFTER,
            drain_timeout: DRAIN_TIMEOUT,
            max_request_bytes: MAX_REQUEST_BYTES,
            batch_bytes: BATCH_BYTES,
            max_connection_age: MAX_CONNECTION_AGE,
            rebalance: None,
            body_timeout: BODY_TIMEOUT,
            journal: None,
            state: None,
            security: PortSecurity::default(),
            admin: Admin::default(),
            pages: Vec::new(),
            health_pages: Vec::new(),
            proxy: Proxy::default(),
            onlookers: Onlookers::default(),
        }
    }
}
