//! Scraping as a source of the gateway.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::Context;
use weir_engine::Inlet;
use weir_plan::{Plan, Scrapables};
use weir_sources::scrape::{Scraper, Settings, TargetBoard};

use crate::cli::{ProcessArgs, Role};
use crate::downward::node_name;

/// Scrapes as soon as some pipeline wants it.
pub(crate) struct MetricAgent {
    args: Arc<ProcessArgs>,
    board: TargetBoard,
    scraper: Option<Scraper>,
}

impl MetricAgent {
    pub(crate) fn new(args: Arc<ProcessArgs>, board: TargetBoard) -> Self {
        Self { args, board, scraper: None }
    }

    /// Scrapes for the pipelines of this plan, which the engine runs, what there is in the cluster.
    pub(crate) fn scrape_for(&mut self, plan: &Plan, scrapables: &Scrapables, inlet: Inlet) -> anyhow::Result<()> {
        let mut inputs = plan.pipelines.iter().map(|pipeline| &pipeline.input);
        let is_wanted = inputs.any(|input| input.prometheus.is_some() || input.istio.is_some());
        match &mut self.scraper {
            Some(scraper) => scraper.reload(plan, scrapables),
            None if is_wanted && self.args.allows(Role::Metrics) => {
                let scraper = Scraper::start(self.settings(scrapables), (plan, scrapables), inlet, self.board.clone());
                self.scraper = Some(scraper.context("cannot scrape targets")?);
            }
            None => {}
        }
        Ok(())
    }

    fn settings(&self, scrapables: &Scrapables) -> Settings {
        let node_name = node_name(&self.args);
        if node_name.is_none() && !scrapables.pods.is_empty() {
            tracing::info!("pods and services of all nodes are scraped: no node is named, see --node-name");
        }
        Settings { node_name, istio_certificates: self.args.istio_certs.clone() }
    }

    /// The uids of the pods that are scraped.
    pub(crate) fn pods_in_use(&self) -> HashSet<String> {
        self.scraper.as_ref().map(Scraper::pods_in_use).unwrap_or_default()
    }

    /// Ends scraping.
    pub(crate) async fn stop(&mut self) {
        if let Some(scraper) = self.scraper.take() {
            scraper.stop().await;
        }
    }
}
