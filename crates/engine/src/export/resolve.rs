//! The addresses of a name.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;
use std::{fmt, io};

/// A name server that says nothing is waited for no longer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses that are looked up.
pub(super) type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Somebody who knows the addresses of names.
pub(super) trait Resolve: Send + Sync + fmt::Debug {
    /// The addresses of `host` now, those to be preferred first.
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a>;
}

/// What the operating system knows.
#[derive(Debug)]
pub(super) struct System;

impl Resolve for System {
    fn resolve<'a>(&'a self, host: &'a str, port: u16) -> Resolving<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) })
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
