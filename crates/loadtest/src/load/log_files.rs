//! `weir load log-files`: a fake kubelet with containers that write.
//!
//! It does to files what the kubelet and the runtimes do, as fast as a disk's cache takes it, and says in a manifest
//! exactly what it wrote, and what it deleted. The judge compares that with what a sink received.

mod args;
mod chain;
mod kubelet;
mod life;
mod manifest;
mod text;
mod verify;
mod worker;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};

pub use self::args::{FateArgs, Format, LineShape, LogFilesArgs, LookArgs};
use self::kubelet::{Counter, Kubelet};
use self::life::{Bench, Orders, Pace};
pub use self::manifest::{ContainerEntry, Manifest, Pod, StreamEntry};
use self::text::{Clock, Texts};
pub use self::verify::{LinesJudgement, StreamJudgement, judge};
pub use self::worker::Stop;
use self::worker::{Shared, Worker};
use crate::output::printed;
use crate::{cpu, files, runtime};

/// Writes files until everything is written or SIGINT or SIGTERM arrives; or judges what arrived.
///
/// # Errors
/// The options make no sense together, or a file cannot be written or read.
pub fn run(args: &LogFilesArgs) -> anyhow::Result<ExitCode> {
    if let Some([report, manifest]) = args.verify.as_deref() {
        return verify::run(report, manifest);
    }
    let stop = Arc::new(Stop::default());
    let manifest = runtime::build()?.block_on(async {
        let stopped = runtime::stop_signal()?;
        let (stopper, args) = (Arc::clone(&stop), args.clone());
        tokio::spawn(async move {
            stopped.await;
            stopper.stop();
        });
        tokio::task::spawn_blocking(move || write(&args, &stop)).await.context("the writer panicked")?
    })?;
    if let Some(path) = &args.manifest {
        files::write_json(path, &manifest)?;
    }
    printed(summarize(&manifest))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes files as `args` say; returns what was written.
///
/// # Errors
/// The options make no sense together, or a file cannot be written.
pub fn write(args: &LogFilesArgs, stop: &Arc<Stop>) -> anyhow::Result<Manifest> {
    let directory = args.directory.as_deref().context("no directory was named")?;
    let plain = args.look.format == Format::Plain;
    ensure!(
        !plain || args.look.partial.fraction() == 0.0,
        "cannot split lines: --format plain has no runtime that does"
    );
    let texts = Texts::new(&args.look)?;
    let cpu_before = cpu::own_seconds().unwrap_or(0.0);
    let kubelet = Kubelet::start()?;
    let begin = Instant::now();
    let shared = Arc::new(Shared {
        orders: Arc::new(orders(args, directory)),
        stop: Arc::clone(stop),
        deadline: args.duration.map(|duration| begin + duration),
        numbers: AtomicU32::new(0),
    });
    let written = write_all(args, &shared, &texts, &kubelet.counter());
    let done = kubelet.finish();
    // When the kubelet fails, so do all who wait for it: its own error says more.
    let containers = match (written, done) {
        (_, Err(error)) | (Err(error), Ok(())) => return Err(error),
        (Ok(containers), Ok(())) => containers,
    };
    let mut manifest = Manifest {
        seconds: containers.seconds,
        format: args.look.format,
        shape: args.look.shape,
        line_bytes: args.look.length(),
        seed: args.seed,
        lines: 0,
        bytes: 0,
        cpu_seconds: cpu::own_seconds().unwrap_or(0.0) - cpu_before,
        bottleneck: None,
        containers: containers.entries,
    };
    manifest.lines = manifest.sum(ContainerEntry::lines);
    manifest.bytes = manifest.sum(|container| container.bytes);
    manifest.bottleneck = bottleneck(args, shared.orders.pace, &manifest);
    Ok(manifest)
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
fn orders(args: &LogFilesArgs, directory: &Path) -> Orders {
    Orders {
        directory: directory.to_owned(),
        namespace: args.namespace.clone(),
        seed: args.seed,
        pace: match (args.rate, args.byte_rate) {
            (_, Some(bytes)) if bytes > 0 => Pace::Bytes(bytes as f64),
            (0, _) => Pace::Free,
            (lines, _) => Pace::Lines(lines as f64),
        },
        lines: args.lines.unwrap_or(u64::MAX),
        format: args.look.format,
        stderr: args.look.stderr.fraction(),
        partial: args.look.partial.fraction(),
        parts: args.look.parts,
        tear: args.look.tear,
        holes: args.look.holes.fraction(),
        fate: Arc::new(args.fate.clone()),
    }
}

/// Below this share of the wanted rate, the rate counts as not kept.
const RATE_KEPT: f64 = 0.99;
/// Seconds that all containers may take to start.
const START_UP: f64 = 0.1;

/// Whether a rate that was to be kept all the time was not.
#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
fn bottleneck(args: &LogFilesArgs, pace: Pace, manifest: &Manifest) -> Option<String> {
    if args.lines.is_some() || args.fate.pods_live.is_some() {
        return None;
    }
    let (written, rate, what, slack) = match pace {
        Pace::Free => return None,
        // The last line of each container may not be due yet.
        Pace::Lines(rate) => (manifest.lines as f64, rate, "lines", 2.0),
        Pace::Bytes(rate) => (manifest.bytes as f64, rate, "bytes", manifest.line_bytes as f64),
    };
    let containers = f64::from(args.containers);
    let seconds = args.duration.map_or(manifest.seconds, |duration| manifest.seconds.min(duration.as_secs_f64()));
    let wanted = rate * containers * (seconds - START_UP);
    (written + slack * containers < wanted * RATE_KEPT)
        .then(|| format!("wrote {:.0} of {:.0} {what}/s", written / seconds, rate * containers))
}

/// What the threads brought.
struct Written {
    seconds: f64,
    entries: Vec<ContainerEntry>,
}

fn write_all(args: &LogFilesArgs, shared: &Arc<Shared>, texts: &Texts, counter: &Counter) -> anyhow::Result<Written> {
    let begin = Instant::now();
    // Those that live for a while end one after the other too.
    let spread = match (args.fate.pods_live, shared.orders.pace) {
        (Some(live), _) => live,
        (None, Pace::Lines(rate)) => Duration::from_secs_f64((1.0 / rate).min(1.0)),
        (None, Pace::Free | Pace::Bytes(_)) => Duration::ZERO,
    };
    let starts: Vec<Instant> = worker::starts(begin, args.containers, spread).collect();
    let threads = usize::from(args.threads).min(starts.len()).max(1);
    let share = starts.len().div_ceil(threads);
    let (mut left, mut entries) = (Vec::new(), Vec::new());
    let mut failure = None;
    std::thread::scope(|scope| {
        let spawn = |starts| {
            let bench = Bench { texts: texts.clone(), clock: Clock::default(), block: Vec::new() };
            let mut worker = Worker::new(Arc::clone(shared), counter.clone(), bench, starts);
            scope.spawn(move || worker.run().map(|()| (worker.left, worker.removed)))
        };
        let handles: Vec<_> = starts.chunks(share).map(spawn).collect();
        for handle in handles {
            match handle.join().unwrap_or_else(|_| Err(anyhow!("a writing thread panicked"))) {
                Ok((lives, removed)) => {
                    left.extend(lives);
                    entries.extend(removed);
                }
                Err(error) => failure = Some(error),
            }
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let seconds = begin.elapsed().as_secs_f64();
    if let Some(pause) = args.fate.delete_after
        && !shared.stop.wait(Instant::now() + pause)
    {
        left.iter_mut().try_for_each(life::Life::remove)?;
    }
    entries.extend(left.iter().map(life::Life::entry));
    entries.sort_unstable_by_key(|entry| entry.pod.number);
    ensure!(!entries.is_empty(), "no container was started: the time was up before");
    Ok(Written { seconds, entries })
}

#[expect(clippy::cast_precision_loss, reason = "rates need no more than 53 bits")]
fn summarize(manifest: &Manifest) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let megabytes = manifest.bytes as f64 / 1e6;
    writeln!(
        out,
        "wrote {} lines, {megabytes:.1} MB, of {} containers in {:.1} s: {:.0} lines/s, {:.1} MB/s; {:.2} CPU s",
        manifest.lines,
        manifest.containers.len(),
        manifest.seconds,
        manifest.lines as f64 / manifest.seconds,
        megabytes / manifest.seconds,
        manifest.cpu_seconds
    )?;
    writeln!(
        out,
        "{} rotations, {} restarts; {} of {} files deleted, and with them {} lines; {} inodes used again",
        manifest.sum(|container| container.rotations),
        manifest.sum(|container| container.restarts.into()),
        manifest.sum(|container| container.files_deleted),
        manifest.sum(|container| container.files),
        manifest.sum(ContainerEntry::deleted_lines),
        manifest.sum(|container| container.inodes_reused)
    )?;
    if let Some(bottleneck) = &manifest.bottleneck {
        writeln!(out, "the writer was the limit: {bottleneck}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
