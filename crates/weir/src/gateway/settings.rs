//! What the command line says about the engine.

use anyhow::bail;
use weir_engine::settings::{Admin, Onlookers};
use weir_engine::{Settings, settings};
use weir_plan::Plan;

use crate::cli::{ProcessArgs, Role};
use crate::limits;
use crate::proxy;
use crate::security::{self, Security};

/// The memory budget, in bytes.
pub(crate) fn memory(args: &ProcessArgs) -> usize {
    let of_limit = || limits::cgroup_memory_limit().map_or(settings::MEMORY, |limit| limit / 4 * 3);
    args.memory.unwrap_or_else(of_limit)
}

/// Whether clients are to be served: if the command line says so, else if a pipeline takes what they push.
pub(super) fn serves_clients(args: &ProcessArgs, plan: &Plan) -> bool {
    let is_asked_for = || plan.pipelines.iter().any(|pipeline| pipeline.input.otlp.is_some());
    args.names(Role::Gateway) || (args.allows(Role::Gateway) && is_asked_for())
}

pub(super) fn of(args: &ProcessArgs, plan: &Plan) -> anyhow::Result<Settings> {
    let memory = memory(args);
    if memory < settings::MEMORY_MIN {
        let (memory, least) = (limits::size(memory), limits::size(settings::MEMORY_MIN));
        bail!("cannot work with --memory {memory}: at least {least} is needed");
    }
    let largest = memory / 4;
    let max_request_bytes = args.max_request_size.unwrap_or(settings::MAX_REQUEST_BYTES.min(largest));
    if max_request_bytes > largest {
        let [wanted, largest, memory] = [max_request_bytes, largest, memory].map(limits::size);
        bail!(
            "cannot take requests of --max-request-size {wanted}: it must be at most {largest}, a quarter of --memory \
             ({memory})"
        );
    }
    if args.fsync_interval.is_zero() {
        bail!("cannot sync every 0 s: choose a longer --fsync-interval, or --fsync always");
    }
    let Security { ingest: security, admin } = security::read(args)?;
    let (listen, port) = (args.admin.admin_listen, Some(args.admin.admin_port));
    let admin = Admin { listen, port, security: admin, routes: Vec::new() };
    let serves_clients = serves_clients(args, plan);
    Ok(Settings {
        listen: args.listen,
        grpc_port: serves_clients.then_some(args.grpc_port),
        http_port: serves_clients.then_some(args.http_port),
        metrics_port: Some(args.metrics_port),
        health_port: Some(args.health_port),
        memory,
        spill_after: args.spill_after,
        drain_timeout: args.drain_timeout,
        max_request_bytes,
        batch_bytes: settings::BATCH_BYTES,
        max_connection_age: args.max_connection_age,
        rebalance: args.rebalance.then(|| args.rebalance_cpu.unwrap_or_else(limits::cores)),
        body_timeout: settings::BODY_TIMEOUT,
        journal: None,
        state: None,
        security,
        admin,
        pages: Vec::new(),
        health_pages: Vec::new(),
        proxy: proxy::of_environment()?,
        onlookers: Onlookers::default(),
    })
}
