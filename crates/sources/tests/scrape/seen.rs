//! What is seen of scraping from outside: figures for metrics, and what is lost.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_engine::view::ScrapeFigures;
use weir_sources::scrape::{DroppedTarget, Loss};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::{Agent, Target, plan_of};

impl Agent {
    /// What the metrics show of a job, which is up to a second old.
    fn figures(&self, job: &str) -> Option<ScrapeFigures> {
        let sources = self.engine.view().snapshot().unwrap().sources;
        sources.scrapes.into_iter().find(|figures| figures.job == job)
    }
}

fn counts(list: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    list.iter().copied().collect()
}

#[tokio::test]
async fn every_scrape_is_counted_by_its_result() {
    let (good, bad) = (Target::start("a 1\nb 2\n").await, Target::start("a 1\n").await);
    bad.now(404, "text/plain", "");
    let agent = Agent::of(&[&good.url, &bad.url], Duration::from_millis(100)).await;
    let dropped = |target: &str| DroppedTarget {
        job: "pods".to_owned(),
        target: target.to_owned(),
        reason: "the port is 0".to_owned(),
    };
    agent.board.set_dropped(vec![dropped("one"), dropped("other")]);
    let states = BTreeMap::from([("up", 1), ("down", 1), ("waiting", 0)]);
    let mut last = None;
    // On a busy machine the good one is down for a while, because a scrape was too late.
    eventually("both were scraped", async || {
        let Some(figures) = agent.figures("static") else { return false };
        let results = counts(&figures.scrapes);
        let are_counted = ["ok", "status"].iter().all(|result| results.get(result).is_some_and(|count| *count > 2));
        let are_known = counts(&figures.targets) == states;
        last = Some(figures);
        are_counted && are_known
    })
    .await;
    let figures = last.unwrap();
    let results = counts(&figures.scrapes);
    assert_eq!((figures.samples, figures.bytes), (2 * results["ok"], 8 * results["ok"]));
    let all: u64 = figures.durations.buckets.iter().map(|(_, count)| count).sum();
    assert_eq!(all, results.values().sum::<u64>());
    assert_eq!(figures.lost, [("no_memory", 0), ("no_room", 0), ("too_large", 0)]);
    assert_eq!(agent.figures("pods").unwrap().dropped_targets, 2);
    agent.scraper.stop().await;
}

/// SCRAPE-3: the backend takes nothing, and there is no data directory: when the pipeline is full, scrapes are lost, and each data
/// point of them is counted with the reason.
#[tokio::test]
async fn what_no_pipeline_takes_is_counted_with_the_reason() {
    let lines: String = (0..5_000).map(|number| format!("a{{n=\"{number}\"}} 1\n")).collect();
    let (target, backend) = (Target::start(&lines).await, Backend::holding().await);
    let plan = plan_of(&backend, &[&target.url], Duration::from_millis(500));
    let agent = Agent::run(&plan, backend, 32 << 20).await;
    eventually("the pipeline is full", async || {
        agent.board.all().iter().any(|(_, last)| last.lost.is_some_and(|lost| lost.data_points >= 5_000))
    })
    .await;
    let (_, last) = agent.board.all().remove(0);
    assert!(last.lost.is_none_or(|lost| matches!(lost.why, Loss::NoRoom | Loss::NoMemory)), "{last:?}");
    eventually("it is in the metrics", async || {
        agent.figures("static").is_some_and(|figures| counts(&figures.lost).values().sum::<u64>() >= 5_000)
    })
    .await;
    agent.backend.answer();
    eventually("all is well again", async || {
        agent.board.all().iter().all(|(_, last)| last.lost.is_none() && last.failure.is_none())
    })
    .await;
}
