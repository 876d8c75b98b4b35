//! What talks: watches, requests, and the loop between them. It decides nothing but when to try again.

pub(crate) mod api;
mod apply;
mod ask;
mod pages;
mod reconcile;
mod secrets;
pub(crate) mod trim;
mod watch;
mod world;

use std::net::SocketAddr;
use std::sync::Arc;

use kube::Client;
use tokio::task::JoinSet;

use super::{Options, SetLogLevel, names};
use crate::lease::{self, Timings};
use crate::webhook::Webhook;
use apply::Writer;
use pages::Pages;
use reconcile::Reconciler;
use world::World;

/// Where the operator serves pages about itself.
#[derive(Debug, Clone, Default)]
pub struct Ports {
    /// For probes. Each port has all pages: `/healthz`, `/readyz`, `/metrics`.
    pub health: Option<SocketAddr>,
    /// For whoever scrapes.
    pub metrics: Option<SocketAddr>,
    /// Webhooks of this process, which is not ready before the API server knows them.
    pub webhook: Option<Arc<Webhook>>,
}

/// Runs until `stop` resolves. `name`: what identifies this process for people.
///
/// # Errors
/// When a port cannot be had, or a task ends by itself.
pub async fn run(
    client: Client,
    options: Options,
    ports: Ports,
    name: &str,
    set_log_level: SetLogLevel,
    stop: impl Future<Output = ()>,
) -> std::io::Result<()> {
    let world = Arc::new(World::default());
    let pages = Pages::bind(ports, Arc::clone(&world)).await?;
    let identity = format!("{name}_{:016x}", fastrand::u64(..));
    let (leadership, mut campaign) =
        lease::campaign(client.clone(), &options.namespace, names::LEASE, identity.clone(), Timings::default());
    let (halt, halted) = tokio::sync::oneshot::channel::<()>();
    let campaign = tokio::spawn(async move { campaign.run(async { drop(halted.await) }).await });

    let mut tasks = JoinSet::new();
    pages.serve(&mut tasks);
    watch::all(&client, &options.namespace, &world, &mut tasks);
    tasks.spawn(ask::every_node(Arc::clone(&world), leadership.clone(), Arc::new(options.clone())));
    let writer = Writer::new(client.clone(), leadership.clone(), identity);
    tasks.spawn(Reconciler::new(client, options, set_log_level, world, (leadership, writer)).run());

    let result = tokio::select! {
        () = stop => Ok(()),
        Some(ended) = tasks.join_next() => {
            tracing::error!(?ended, "a task of the operator ended: this is a bug in weir, please report it");
            Err(std::io::Error::other("a task of the operator ended"))
        }
    };
    // Nothing is written any more when the Lease is given back.
    tasks.shutdown().await;
    drop(halt);
    drop(campaign.await);
    result
}
