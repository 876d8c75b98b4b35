//! Scraping as a source of the gateway.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::Context;
use weir_engine::Inlet;
use weir_plan::{Plan, Scrapables};
use weir_sources::scrape::{ReadyToScrape, Scraper, Settings, TargetBoard};

use crate::cli::{ProcessArgs, Role};
use crate::downward::node_name;

/// Scrapes as soon as some pipeline wants it.
pub(crate) struct MetricAgent {
    args: Arc<ProcessArgs>,
    board: TargetBoard,
    /// What it is about to begin with.
    ready: Option<ReadyToScrape>,
    scraper: Option<Scraper>,
}

impl MetricAgent {
    pub(crate) fn new(args: Arc<ProcessArgs>, board: TargetBoard) -> Self {
        Self { args, board, ready: None, scraper: None }
    }

    /// Sets up what it takes to scrape for the pipelines of this plan. Call this before anything begins with the plan:
    /// after that nothing fails any more.
    pub(crate) fn prepare(&mut self, plan: &Plan) -> anyhow::Result<()> {
        if self.scraper.is_none() && self.ready.is_none() && wants(plan) && self.args.allows(Role::Metrics) {
            let settings =
                Settings { node_name: node_name(&self.args), istio_certificates: self.args.istio_certs.clone() };
            self.ready = Some(ReadyToScrape::with(settings).context("cannot scrape targets")?);
        }
        Ok(())
    }

    /// Scrapes for the pipelines of this plan, which the engine runs, what there is in the cluster.
    pub(crate) fn scrape_for(&mut self, plan: &Plan, scrapables: &Scrapables, inlet: Inlet) {
        if let Some(scraper) = &mut self.scraper {
            scraper.reload(plan, scrapables);
        } else if let Some(ready) = self.ready.take_if(|_| wants(plan)) {
            if node_name(&self.args).is_none() && !scrapables.pods.is_empty() {
                tracing::info!("pods and services of all nodes are scraped: no node is named, see --node-name");
            }
            self.scraper = Some(ready.start((plan, scrapables), inlet, self.board.clone()));
        }
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

fn wants(plan: &Plan) -> bool {
    plan.pipelines.iter().any(|pipeline| pipeline.input.prometheus.is_some() || pipeline.input.istio.is_some())
}
