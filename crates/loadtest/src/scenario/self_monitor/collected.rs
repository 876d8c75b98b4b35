//! What the gateway collects by itself while clients push: lines of containers, and pages of targets. It is little, and there
//! all the time: the monitor has to see how data of every input flows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::super::Settings;
use super::super::children::{Launch, Process};
use super::super::config::Scraped;
use super::super::gateway::remove_leftovers;
use super::super::metric_agent::start_targets;
use super::super::pages::ScrapeLoad;
use crate::ports::free_ports;

/// In words.
pub(crate) const COLLECTED: &str = "4 containers write 25 lines/s each; 4 targets of 100 samples are scraped every 5 s";
/// Files are rotated every few minutes.
const CONTAINERS: [&str; 3] = ["--containers=4", "--rate=25", "--rotate-size=1MiB"];
const PAGES: [&str; 4] = ["--targets=4", "--metrics=10", "--series=10", "--interval-hint=5s"];
const TARGETS: u32 = 4;
const INTERVAL: Duration = Duration::from_secs(5);

/// What counts lines and samples that were read.
const READ: [&str; 2] = ["weir_container_logs_records_total", "weir_scraped_samples_total"];

/// Containers and targets, until they are stopped; killed with the value.
pub(super) struct Collected {
    pub(super) pods: PathBuf,
    pub(super) scraped: Scraped,
    writer: Process,
    targets: Process,
}

impl Collected {
    pub(super) async fn start(settings: &Settings, directory: &Path) -> anyhow::Result<Self> {
        let pods = directory.join("pods");
        remove_leftovers(&pods)?;
        std::fs::create_dir_all(&pods).with_context(|| format!("cannot create {}", pods.display()))?;
        let port = free_ports(1)?[0];
        let load = ScrapeLoad { arguments: PAGES.map(str::to_owned).into(), targets: TARGETS, interval: INTERVAL };
        let targets = start_targets(settings, directory, &load, port).await?;
        let mut arguments = vec!["load".to_owned(), "log-files".to_owned(), pods.display().to_string()];
        arguments.extend(CONTAINERS.map(str::to_owned));
        let writer = Process::start(Launch {
            name: "writer",
            program: &settings.judge,
            arguments,
            environment: Vec::new(),
            cores: &settings.layout.judge,
            directory,
        })?;
        Ok(Self { pods, scraped: Scraped { port, targets: TARGETS, interval: INTERVAL }, writer, targets })
    }

    /// Fails when there is nothing to collect any more.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        self.writer.check_alive()?;
        self.targets.check_alive()
    }

    /// How much was written is not the point.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.writer.kill().await?;
        self.targets.kill().await?;
        remove_leftovers(&self.pods)
    }
}

/// Fails unless the page with metrics says that both were read.
pub(super) fn check_read(page: &str) -> anyhow::Result<()> {
    for metric in READ {
        let counts = |line: &str| line.starts_with(metric) && !line.ends_with(" 0");
        ensure!(page.lines().any(counts), "the gateway has read nothing that {metric} counts");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_read_is_found() {
        let page = |lines, samples| {
            format!(
                "# TYPE weir_scraped_samples counter\nweir_container_logs_records_total {lines}\n\
                 weir_scraped_samples_total{{job=\"static\"}} {samples}\n"
            )
        };
        assert!(check_read(&page(10, 20)).is_ok());
        assert!(check_read(&page(0, 20)).is_err() && check_read(&page(10, 0)).is_err() && check_read("").is_err());
    }
}
