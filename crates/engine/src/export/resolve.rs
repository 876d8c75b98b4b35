//! The addresses of a name.
//!
//! The system looks names up, and a lookup that has begun cannot be ended. So few names are looked up at once in the
//! whole process, and each backend has at most one lookup. A lookup waits for its place and goes on when nobody waits
//! for it any longer; whoever asks next gets what it found.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A name server that does not answer is waited for no longer than this.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses that are remembered of a name.
pub(super) const MOST_ADDRESSES: usize = 64;

/// A look-up that takes longer is a slow one.
const SLOW: Duration = Duration::from_secs(1);

/// A result that nobody has asked for in this time is not used: the name is looked up again.
const FRESH: Duration = Duration::from_secs(30);

/// Look-ups of the whole process. The system keeps all addresses of a name until it is done, 800 KiB where there are
/// thousands of them.
static PLACES: Places = Places::new(32);

/// Look-ups that there can be at once.
#[derive(Debug)]
struct Places {
    all: Semaphore,
    /// How many of these places names may take that were slow the last time.
    slow: Semaphore,
}

impl Places {
    const fn new(all: usize) -> Self {
        Self { all: Semaphore::const_new(all), slow: Semaphore::const_new(all / 2) }
    }
}

/// Addresses that are looked up.
pub(super) type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Somebody who knows the addresses of names.
pub(super) trait Resolve: Send + Sync + fmt::Debug {
    /// The addresses of `host` now, those to be preferred first.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// Asks for the addresses of a name and waits for the answer.
type Ask = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// What the operating system knows of one name.
#[derive(Debug)]
pub(super) struct System {
    ask: Ask,
    places: &'static Places,
    /// The look-up, if there is one. It ends with this, or when the system has answered.
    look_up: Mutex<JoinSet<Found>>,
    was_slow: Arc<AtomicBool>,
}

/// What a look-up found, and when.
type Found = (io::Result<Vec<SocketAddr>>, Instant);

impl System {
    pub(super) fn new() -> Self {
        let ask = |host: &str, port| Ok((host, port).to_socket_addrs()?.take(MOST_ADDRESSES).collect());
        Self::with(ask, &PLACES)
    }

    fn with(ask: Ask, places: &'static Places) -> Self {
        Self { ask, places, look_up: Mutex::default(), was_slow: Arc::default() }
    }

    /// Names that were slow leave half of the places to others.
    fn begin(&self, host: String, port: u16) -> impl Future<Output = Found> + use<> {
        let (ask, places, was_slow) = (self.ask, self.places, Arc::clone(&self.was_slow));
        async move {
            let slow = if was_slow.load(Ordering::Relaxed) { places.slow.acquire().await.ok() } else { None };
            let place = places.all.acquire().await.ok();
            let since = Instant::now();
            let look_up = move || {
                let _places = (slow, place);
                ask(&host, port)
            };
            let found = tokio::task::spawn_blocking(look_up).await;
            was_slow.store(since.elapsed() >= SLOW, Ordering::Relaxed);
            (found.unwrap_or_else(|error| Err(error.into())), Instant::now())
        }
    }
}

impl Resolve for System {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move {
            let mut look_up = self.look_up.lock().await;
            loop {
                if look_up.is_empty() {
                    look_up.spawn(self.begin(host.to_owned(), port));
                }
                match look_up.join_next().await {
                    Some(Ok((found, at))) if at.elapsed() < FRESH => return found,
                    Some(Err(error)) => return Err(error.into()),
                    Some(Ok(_)) | None => {}
                }
            }
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
