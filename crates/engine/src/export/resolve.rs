//! The addresses of a name.

use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tokio::sync::Semaphore;

/// A name server that says nothing is waited for no longer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses that are remembered of a name.
pub(super) const MOST_ADDRESSES: usize = 64;

/// Looked up at once, in the whole process: the system keeps all addresses of a name until it is done, 800 KiB where there
/// are thousands of them.
static LOOK_UPS: Semaphore = Semaphore::const_new(32);

/// Addresses that are looked up.
pub(super) type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Somebody who knows the addresses of names.
pub(super) trait Resolve: Send + Sync + fmt::Debug {
    /// The addresses of `host` now, those to be preferred first.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// What the operating system knows.
#[derive(Debug)]
pub(super) struct System {
    /// One at a time, until the system has answered: nobody can end that.
    turn: Arc<Semaphore>,
}

impl System {
    pub(super) fn new() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Resolve for System {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move {
            let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(io::Error::other)?;
            let one = LOOK_UPS.acquire().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            let look_up = move || {
                let _turns = (turn, one);
                Ok((host.as_str(), port).to_socket_addrs()?.take(MOST_ADDRESSES).collect())
            };
            tokio::task::spawn_blocking(look_up).await?
        })
    }
}

/// The addresses of `host`, each once: at least one, or why there is none.
pub(super) async fn addresses(resolve: &dyn Resolve, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let fail = |cause: &dyn fmt::Display| format!("cannot find the address of {host} (DNS): {cause}");
    let found = tokio::time::timeout(TIMEOUT, resolve.resolve(host, port)).await;
    let found = found.map_err(|_| fail(&format_args!("no answer within {} s", TIMEOUT.as_secs())))?;
    let mut addresses = Vec::new();
    for address in found.map_err(|error| fail(&error))? {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err(fail(&"the name has none")) } else { Ok(addresses) }
}
