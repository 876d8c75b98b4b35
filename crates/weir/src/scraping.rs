//! Scraping as a source of the gateway.

use std::sync::Arc;

use anyhow::Context;
use weir_engine::Inlet;
use weir_plan::Plan;
use weir_sources::scrape::{Scraper, TargetBoard};

use crate::cli::{Role, RunArgs};

/// Scrapes as soon as some pipeline names targets.
pub(crate) struct MetricAgent {
    args: Arc<RunArgs>,
    board: TargetBoard,
    scraper: Option<Scraper>,
}

impl MetricAgent {
    pub(crate) fn new(args: Arc<RunArgs>, board: TargetBoard) -> Self {
        Self { args, board, scraper: None }
    }

    /// Scrapes for the pipelines of this plan, which the engine runs.
    pub(crate) fn scrape_for(&mut self, plan: &Plan, inlet: Inlet) -> anyhow::Result<()> {
        let inputs = plan.pipelines.iter().filter_map(|pipeline| pipeline.input.prometheus.as_ref());
        let has_targets = inputs.flat_map(|input| &input.static_targets).next().is_some();
        match &mut self.scraper {
            Some(scraper) => scraper.reload(plan),
            None if has_targets && self.args.allows(Role::Metrics) => {
                let scraper = Scraper::start(plan, inlet, self.board.clone()).context("cannot scrape targets")?;
                self.scraper = Some(scraper);
            }
            None => {}
        }
        Ok(())
    }

    /// Ends scraping.
    pub(crate) async fn stop(&mut self) {
        if let Some(scraper) = self.scraper.take() {
            scraper.stop().await;
        }
    }
}
