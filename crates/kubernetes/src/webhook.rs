//! The webhooks: an HTTPS server that API servers ask, the certificates by which they know it, and what tells them
//! where it is.
//!
//! Several processes may serve at once. They share one Secret, and whoever sees first that something is due renews it.

mod keeper;
mod registration;
mod server;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use kube::Client;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpListener;
use weir_resources::schema::ConversionWebhook;

use crate::operator::Pending;
use keeper::Keeper;

pub(crate) use keeper::{AUTHORITIES, SERVER};
pub(crate) use registration::CONFIGURATIONS;
pub use registration::configurations;
pub use server::ServeError;

/// The port of the server.
pub const PORT: u16 = 9443;
/// The Secret that keeps the certificates.
pub const SECRET: &str = "telemetry-webhook-cert";
/// The Service that leads to the server.
pub const SERVICE: &str = "telemetry-manager-webhook";

const VALIDATE: &str = "/validate";
const MUTATE: &str = "/mutate";
const CONVERT: &str = "/convert";

/// Where the webhooks are.
#[derive(Debug, Clone)]
pub struct Options {
    /// The namespace of the Secret and of the Service.
    pub namespace: String,
    /// The Secret that keeps the certificates: [`SECRET`].
    pub secret: String,
    /// Where API servers find the server.
    pub address: Address,
    /// What waits in pods, if the server is to tell autoscalers.
    pub pending: Option<Pending>,
}

/// Where API servers find the server.
#[derive(Debug, Clone)]
pub enum Address {
    /// Through a Service: [`SERVICE`].
    Service(String),
    /// On a port of a host, for API servers outside of the cluster.
    Host(String, u16),
}

impl Options {
    /// In a namespace, with the names that are published.
    pub fn in_namespace(namespace: &str) -> Self {
        let address = Address::Service(SERVICE.to_owned());
        Self { namespace: namespace.to_owned(), secret: SECRET.to_owned(), address, pending: None }
    }

    /// Where objects are converted, without the authority that vouches for it.
    pub fn conversion(&self) -> ConversionWebhook {
        match &self.address {
            Address::Service(name) => ConversionWebhook::service(&self.namespace, name, CONVERT),
            Address::Host(host, port) => ConversionWebhook::url(&format!("https://{host}:{port}{CONVERT}")),
        }
    }

    /// What the server's certificate is for.
    fn names(&self) -> Vec<String> {
        let namespace = &self.namespace;
        match &self.address {
            Address::Service(name) => {
                ["svc", "svc.cluster.local"].map(|end| format!("{name}.{namespace}.{end}")).to_vec()
            }
            Address::Host(host, _) => vec![host.clone()],
        }
    }
}

/// The webhooks of a process.
#[derive(Debug)]
pub struct Webhook {
    options: Options,
    certificate: Certificate,
    /// Whether the API server was found to know all of them, or was told: ever, and when it was asked last.
    was_registered: AtomicBool,
    is_registered: AtomicBool,
}

impl Webhook {
    /// They do nothing until they [`run`](Self::run).
    pub fn new(options: Options) -> Arc<Self> {
        Arc::new(Self {
            options,
            certificate: Certificate::default(),
            was_registered: AtomicBool::default(),
            is_registered: AtomicBool::default(),
        })
    }

    /// Whether API servers ask, and get answers: they know the webhooks, by the authority of the certificate that is
    /// served here. Every replica tells them, or sees that another has. What was so once counts: whoever answers is not to
    /// be taken from the Service because an API server is away, or because somebody has changed what it knew.
    pub fn is_ready(&self) -> bool {
        self.was_registered.load(Ordering::Relaxed)
    }

    /// Whether the API server knew all of them when it was asked last. One that is away says nothing of it.
    pub fn is_registered(&self) -> bool {
        self.is_registered.load(Ordering::Relaxed)
    }

    /// Takes what came of telling the API server. Returns whether it knows the webhooks for the first time.
    fn registered(&self, result: &Result<(), kube::Error>) -> bool {
        match result {
            Ok(()) => self.is_registered.store(true, Ordering::Relaxed),
            Err(kube::Error::Api(_)) => self.is_registered.store(false, Ordering::Relaxed),
            Err(_) => {}
        }
        result.is_ok() && !self.was_registered.swap(true, Ordering::Relaxed)
    }

    /// Serves, keeps the certificates and tells the API server of them, until it is told to stop. What fails is logged
    /// and tried again.
    ///
    /// # Errors
    /// When the server cannot be set up.
    pub async fn run(
        self: Arc<Self>,
        client: Client,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let keeper = Keeper::new(client, Arc::clone(&self));
        tokio::select! {
            served = server::serve(listener, Arc::clone(&self), stop) => served,
            () = keeper.run() => Ok(()),
        }
    }
}

/// The certificate of the server, which can be replaced at any time.
#[derive(Debug, Default)]
struct Certificate {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

impl Certificate {
    fn get(&self) -> Option<Arc<CertifiedKey>> {
        self.current.read().map(|current| current.clone()).unwrap_or_else(|poisoned| poisoned.into_inner().clone())
    }

    fn set(&self, certificate: Arc<CertifiedKey>) {
        let mut current = self.current.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        *current = Some(certificate);
    }
}

impl ResolvesServerCert for Webhook {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate.get()
    }
}

#[cfg(test)]
mod tests;
