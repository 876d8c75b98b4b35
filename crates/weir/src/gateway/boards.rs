//! What pages show beside the figures of the engine.

use weir_engine::Settings;
use weir_engine::admin::Route;
use weir_sources::scrape::TargetBoard;
use weir_sources::tail::Board;

use crate::health::{ChangesOfPipelines, HealthOfPipelines, Verdicts};
use crate::page::{self, Configurations, LogsPage, Past};

/// Each is written by whoever knows it, and read by pages.
pub(super) struct Boards {
    /// How data flows through each pipeline.
    pub(super) verdicts: Verdicts,
    /// The last hour.
    pub(super) past: Past,
    pub(super) configurations: Configurations,
    /// How containers are read.
    pub(super) containers: Board,
    /// How targets are scraped.
    pub(super) targets: TargetBoard,
}

impl Boards {
    /// `memory`: the whole budget, in bytes.
    pub(super) fn within(memory: usize) -> Self {
        Self {
            verdicts: Verdicts::default(),
            past: Past::within(memory),
            configurations: Configurations::default(),
            containers: Board::default(),
            targets: TargetBoard::default(),
        }
    }

    /// Has all of them shown. `of_host`: what only this host shows, beside the metrics.
    pub(super) fn show(&self, settings: &mut Settings, of_host: Vec<Route>) {
        let Self { verdicts, past, configurations, containers, targets } = self;
        settings.pages = of_host;
        settings.pages.extend(page::routes(verdicts, past));
        settings.health_pages.push(Route::new("/health/pipelines", HealthOfPipelines::of(verdicts)));
        settings.health_pages.push(Route::new("/health/changes", ChangesOfPipelines::of(verdicts)));
        let routes = &mut settings.admin.routes;
        routes.push(Route::new("/logs", LogsPage(containers.clone())));
        routes.push(Route::new("/targets", targets.clone()));
        routes.extend(page::private_routes(&settings.onlookers, configurations, targets));
        // The last of these stands for every path.
        routes.extend(page::routes(verdicts, past));
    }
}
