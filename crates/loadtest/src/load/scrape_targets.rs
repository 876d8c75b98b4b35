//! `weir load scrape-targets`: targets that serve pages of metrics, as many and as large as wanted.
//!
//! Pages are written once and changed in place, so that serving them costs little more than sending them. Each sample
//! says which one it is (`crate::series`), and the report says which pages were taken to the end: together with what a
//! sink received, that tells what an agent lost.

mod args;
mod page;
mod report;
mod server;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio::time::Instant;

pub use self::args::{MetricType, PageArgs, PageFaults, PageFormat, ScrapeTargetsArgs};
use self::page::Page;
pub use self::report::{PagesReport, TargetReport};
use self::server::Targets;
use crate::output::printed;
use crate::{cpu, files, runtime};

/// Serves pages until the time is over or SIGINT or SIGTERM arrives.
///
/// # Errors
/// The options make no sense together, the port cannot be bound, or the report cannot be written.
pub fn run(args: &ScrapeTargetsArgs) -> anyhow::Result<ExitCode> {
    runtime::build()?.block_on(async {
        let stop = runtime::stop_signal()?;
        let serving = Serving::start(args).await?;
        printed(serving.introduce(args))?;
        let end = async {
            match args.duration {
                Some(duration) => tokio::time::sleep(duration.0).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop => (),
            () = end => (),
        }
        let report = serving.stop().await;
        if let Some(path) = &args.report {
            files::write_json(path, &report)?;
        }
        printed(summarize(&report))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// The path of a target.
pub(crate) fn path(target: u32) -> String {
    format!("/targets/{target}/metrics")
}

/// How long pages that are being read may still take when no further ones are served.
const LAST_PAGES: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

/// A running server.
struct Serving {
    address: std::net::SocketAddr,
    targets: Arc<Targets>,
    task: tokio::task::JoinHandle<()>,
    about: PagesReport,
    started: Instant,
    cpu_before: f64,
}

impl Serving {
    async fn start(args: &ScrapeTargetsArgs) -> anyhow::Result<Self> {
        let series = args.look.all_series()?;
        let (ip, port) = (args.listen, args.port);
        let bound = TcpListener::bind((ip, port)).await;
        let listener = bound.with_context(|| format!("cannot listen on {ip}:{port}; choose another --port"))?;
        let address = listener.local_addr().context("cannot read the address of the targets")?;
        let pages: Vec<Page> = (0..args.targets).map(|target| Page::new(&args.look, target)).collect();
        let about =
            PagesReport { series, samples: pages[0].samples(), page_bytes: pages[0].bytes(), ..PagesReport::default() };
        let targets = Arc::new(Targets::new(pages, args.look.format, args.faults.clone()));
        let task = tokio::spawn(server::serve(listener, Arc::clone(&targets)));
        // What was spent on the pages is not spent on serving them.
        let cpu_before = cpu::own_seconds().unwrap_or(0.0);
        Ok(Self { address, targets, task, about, started: Instant::now(), cpu_before })
    }

    /// Says what can be scraped.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
    fn introduce(&self, args: &ScrapeTargetsArgs) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for target in 0..args.targets {
            writeln!(out, "http://{}{}", self.address, path(target))?;
        }
        let PagesReport { samples, page_bytes, .. } = self.about;
        let every = args.interval_hint.as_secs_f64();
        let all = samples as f64 * f64::from(args.targets);
        tracing::info!(
            address = %self.address,
            targets = args.targets,
            samples,
            page_bytes,
            samples_per_s = all / every,
            "serving pages"
        );
        Ok(())
    }

    /// Takes no further scrapes; pages that are being read may still be read to their end.
    async fn stop(self) -> PagesReport {
        let seconds = self.started.elapsed().as_secs_f64();
        let cpu_seconds = cpu::own_seconds().unwrap_or(0.0) - self.cpu_before;
        self.targets.close();
        let patience = Instant::now() + LAST_PAGES;
        while self.targets.are_read() && Instant::now() < patience {
            tokio::time::sleep(POLL).await;
        }
        self.task.abort();
        // Pages that were not read to the end are noted when their connections are gone.
        let _ = self.task.await;
        let (refused, hung) = self.targets.faulty();
        #[expect(clippy::cast_precision_loss, reason = "numbers of cores are small")]
        let busy = cpu_seconds / (seconds * runtime::cores() as f64).max(f64::MIN_POSITIVE);
        PagesReport { seconds, refused, hung, cpu_seconds, busy, targets: self.targets.reports(), ..self.about }
    }
}

/// From this share of its cores on, the generator may have been the limit.
const BUSY_LIMIT: f64 = 0.7;

#[expect(clippy::cast_precision_loss, reason = "rates need no more than 53 bits")]
fn summarize(report: &PagesReport) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let pages = report.whole();
    writeln!(
        out,
        "served {pages} pages of {} samples and {} bytes in {:.1} s: {:.0} samples/s; cut {}, refused {}, hung {}; {:.2} CPU s, {:.0} % CPU",
        report.samples,
        report.page_bytes,
        report.seconds,
        (pages * report.samples) as f64 / report.seconds,
        report.cut(),
        report.refused,
        report.hung,
        report.cpu_seconds,
        report.busy * 100.0
    )?;
    if report.busy > BUSY_LIMIT {
        writeln!(out, "the generator may have been the limit: it used {:.0} % of its CPU", report.busy * 100.0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
