//! Figures of watches for the metrics.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use weir_engine::Inlet;
use weir_engine::view::WatchFigures;
use weir_kubernetes::node::{Figures, Scope};

/// As often as other sources report.
const EVERY: Duration = Duration::from_secs(1);

/// Reports until it is aborted.
pub(super) async fn again_and_again(figures: impl Fn() -> Figures + Send, inlet: Inlet) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Figures { watches, leads } = figures();
        let watches = watches.into_iter().map(|of| WatchFigures {
            watched: of.watched,
            scope: match of.scope {
                Scope::Node => "node",
                Scope::Cluster => "cluster",
            },
            objects: of.objects,
            events: of.events,
            lists: of.lists,
            errors: of.errors,
            silence: of.silence,
        });
        let watches = watches.collect();
        inlet.report(|of_all| (of_all.watches, of_all.leads) = (watches, Some(leads)));
    }
}
