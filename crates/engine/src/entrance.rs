//! The ways into an engine: its ports, who may use them, and the servers behind them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::StartError;
use crate::admin::{Desk, HealthPage, LivePage, Route};
use crate::backends::Backends;
use crate::budget::Funds;
use crate::metrics::Metrics;
use crate::probes::{LIVE, Probes};
use crate::receive::{ADMIN, Gate, OTLP_PORTS, Server};
use crate::samples::{Lost, LostPage};
use crate::settings::{Admin, PortSecurity, Settings};
use crate::view::View;

/// The addresses that an engine listens on; `None` where its settings have no port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// OTLP/gRPC.
    pub grpc: Option<SocketAddr>,
    /// OTLP/HTTP.
    pub http: Option<SocketAddr>,
    /// Prometheus metrics.
    pub metrics: Option<SocketAddr>,
    /// Health check.
    pub health: Option<SocketAddr>,
    /// How backends stand, and samples of what they refused.
    pub admin: Option<SocketAddr>,
}

/// The ports of an engine that is about to start, bound, and who may use them. Nobody is served as yet.
#[derive(Debug)]
pub struct Entrance {
    pub(crate) gate: Gate,
    pub(crate) admin_gate: Arc<Gate>,
    pub(crate) sockets: Sockets,
}

impl Entrance {
    /// Takes up certificates and tokens, and binds the ports that there are.
    pub async fn open(settings: &Settings) -> Result<Self, StartError> {
        let admin = &settings.admin;
        is_closed(admin, &admin.security)?;
        let gate = Gate::new(OTLP_PORTS, &settings.security).map_err(StartError::Security)?;
        let admin_gate = Arc::new(Gate::new(ADMIN, &admin.security).map_err(StartError::Security)?);
        Ok(Self { gate, admin_gate, sockets: Sockets::bind(settings).await? })
    }

    /// Answers probes at the health port until the engine is open: what comes before that may take long. `None` without
    /// that port.
    ///
    /// # Errors
    /// When the system has no file descriptor left.
    pub fn answer_probes(&self, status: &'static str) -> io::Result<Option<Probes>> {
        let Some(socket) = &self.sockets.health else { return Ok(None) };
        Probes::on(socket.double()?, status).map(Some)
    }
}

/// OTLP ports, bound: gRPC and HTTP. Nobody is served as yet.
#[derive(Debug)]
pub struct OtlpPorts(pub(crate) [Option<Socket>; 2]);

impl OtlpPorts {
    /// Those that another process has bound, and gave to this one: at most two.
    ///
    /// # Errors
    /// When one of them is no listening socket.
    pub fn inherited(sockets: impl IntoIterator<Item = OwnedFd>) -> io::Result<Self> {
        let mut sockets = sockets.into_iter().map(Socket::inherited);
        Ok(Self([sockets.next().transpose()?, sockets.next().transpose()?]))
    }

    /// Binds those that there are.
    ///
    /// # Errors
    /// When one of them cannot be bound; then none is.
    pub async fn bind(listen: IpAddr, [grpc, http]: [Option<u16>; 2]) -> Result<Self, StartError> {
        let grpc = Socket::bind(listen, grpc, "OTLP/gRPC", ["--listen", "--grpc-port"]).await?;
        let http = Socket::bind(listen, http, "OTLP/HTTP", ["--listen", "--http-port"]).await?;
        Ok(Self([grpc, http]))
    }
}

/// Checks that nobody else sees samples of telemetry.
pub(crate) fn is_closed(admin: &Admin, security: &PortSecurity) -> Result<(), StartError> {
    match admin.port {
        Some(port) if !admin.may_have(security) => {
            Err(StartError::OpenAdmin { address: SocketAddr::new(admin.listen, port) })
        }
        _ => Ok(()),
    }
}

/// Those who serve, and where.
#[derive(Debug)]
pub(crate) struct Doors {
    pub(crate) sockets: Sockets,
    pub(crate) server: Server,
    /// Of metrics, health and administration.
    pub(crate) desks: [Desk; 3],
}

/// What pays for pages: those that are open to everybody, and those of administration.
pub(crate) struct DeskFunds {
    pub(crate) open: Funds,
    pub(crate) admin: Funds,
}

/// Those of metrics, health and administration.
pub(crate) fn desks(settings: &Settings, admin_gate: &Arc<Gate>, view: &View, funds: DeskFunds) -> [Desk; 3] {
    let desk = |routes: Vec<Route>, gate, funds| Desk { routes: routes.into(), gate, view: view.clone(), funds };
    let mut admin = vec![
        Route::new("/backends", Backends),
        Route::new("/rejected", LostPage::of(Lost::Rejected)),
        Route::new("/dropped", LostPage::of(Lost::Dropped)),
        Route::new("/metrics", Metrics),
    ];
    admin.extend_from_slice(&settings.admin.routes);
    let mut open = vec![Route::new("/metrics", Metrics)];
    open.extend_from_slice(&settings.pages);
    let mut health = vec![Route::new(LIVE, LivePage)];
    health.extend_from_slice(&settings.health_pages);
    // Every other path.
    health.push(Route::new("/", HealthPage));
    [
        desk(open, None, funds.open.clone()),
        desk(health, None, funds.open),
        desk(admin, Some(Arc::clone(admin_gate)), funds.admin),
    ]
}

/// The listening sockets, bound before anything runs.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) grpc: Option<Socket>,
    pub(crate) http: Option<Socket>,
    pub(crate) metrics: Option<Socket>,
    pub(crate) health: Option<Socket>,
    pub(crate) admin: Option<Socket>,
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) listener: TcpListener,
    address: SocketAddr,
}

impl Sockets {
    async fn bind(settings: &Settings) -> Result<Self, StartError> {
        let Settings { listen, grpc_port, http_port, metrics_port, health_port, admin, .. } = settings;
        let OtlpPorts([grpc, http]) = OtlpPorts::bind(*listen, [*grpc_port, *http_port]).await?;
        Ok(Self {
            grpc,
            http,
            metrics: Socket::bind(*listen, *metrics_port, "metrics", ["--listen", "--metrics-port"]).await?,
            health: Socket::bind(*listen, *health_port, "health checks", ["--listen", "--health-port"]).await?,
            admin: Socket::bind(admin.listen, admin.port, "administration", ["--admin-listen", "--admin-port"]).await?,
        })
    }

    pub(crate) fn addresses(&self) -> Addresses {
        let of = Socket::address_of;
        Addresses {
            grpc: of(&self.grpc),
            http: of(&self.http),
            metrics: of(&self.metrics),
            health: of(&self.health),
            admin: of(&self.admin),
        }
    }
}

impl Socket {
    pub(crate) fn address_of(socket: &Option<Self>) -> Option<SocketAddr> {
        socket.as_ref().map(|socket| socket.address)
    }

    /// The same socket once more.
    pub(crate) fn double(&self) -> io::Result<TcpListener> {
        Ok(Self::inherited(self.listener.as_fd().try_clone_to_owned()?)?.listener)
    }

    fn inherited(socket: OwnedFd) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// None without a port.
    async fn bind(
        listen: IpAddr,
        port: Option<u16>,
        purpose: &'static str,
        flags: [&'static str; 2],
    ) -> Result<Option<Self>, StartError> {
        let Some(port) = port else { return Ok(None) };
        let address = SocketAddr::new(listen, port);
        let fail = |source| StartError::Bind { address, purpose, flags, source };
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Some(Self { listener, address }))
    }
}
