//! `weir run`: a gateway with its agents on a machine whose configuration is in files.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

use crate::allocator;
use crate::cli::{ProcessArgs, RunArgs};
use crate::gateway::{self, End};
use crate::host::Files;
use crate::program_text;
use crate::signals::Signals;

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let RunArgs { paths, strict, process } = args;
    let process = Arc::new(process);
    block_on(&process, async || {
        let mut signals = Signals::new()?;
        let host = Files::new(paths, strict)?;
        // Nobody hands over where there is only one process.
        match gateway::run(Arc::clone(&process), host, &mut signals).await? {
            End::Stopped(code) | End::HandedOver(_, code) => Ok(code),
        }
    })
}

/// Runs the work of a process that moves data.
pub(crate) fn block_on(
    process: &ProcessArgs,
    work: impl AsyncFnOnce() -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let runtime = runtime(gateway::memory(process))?;
    let code = runtime.block_on(async {
        tokio::spawn(allocator::tidy());
        tokio::spawn(program_text::let_go_when_settled());
        work().await
    });
    // A disk or a name server that hangs does not keep the process alive.
    runtime.shutdown_background();
    code
}

/// What a worker keeps for itself (buffers that the allocator holds for each thread) must not outgrow the memory that it
/// works with.
const MEMORY_OF_WORKER: usize = 4 << 20;

/// One worker per core this process may use, if there is memory for so many; a single core needs no work stealing and
/// is faster without.
fn runtime(memory: usize) -> anyhow::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = cores.min(memory / MEMORY_OF_WORKER).max(1);
    let mut builder = if cores == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.worker_threads(workers).enable_all().build().context("cannot start the runtime")
}
