//! Scrapes that wait for memory.

use std::time::{Duration, Instant};

use weir_engine::Permit;
use weir_plan::Scrapables;
use weir_testkit::backend::Backend;
use weir_testkit::{eventually, in_time};

use crate::servers::{Server, page};
use crate::{Agent, plan_of};

const MIB: usize = 1 << 20;

/// Long enough for a scrape that waits to be seen, and short enough for a test.
const INTERVAL: Duration = Duration::from_secs(3);

/// A page of 5,000 series that takes a few MiB when it is read, and then one with another series before them.
async fn server() -> Server {
    let lines: String = (0..5_000).map(|number| format!("a{{n=\"{number}\"}} 1\n")).collect();
    Server::turning(page(&lines), page(&format!("b 1\n{lines}"))).await
}

impl Agent {
    /// Takes all memory for requests but so much.
    async fn leave(&self, bytes: usize) -> Permit {
        let inlet = self.engine.inlet();
        inlet.reserve(inlet.memory() - self.memory() - bytes).await.unwrap()
    }
}

async fn agent(server: &Server) -> Agent {
    let backend = Backend::start().await;
    let plan = plan_of(&backend, &[&server.url], INTERVAL);
    let agent = Agent::run(&plan, backend, 64 * MIB).await;
    agent.arrives("static a{n} 1").await;
    agent.arrives("static up{} 1").await;
    agent
}

/// With the page that needs memory.
async fn is_scraped_again(server: &Server) {
    server.turn();
    let hits = server.hits();
    eventually("it is scraped again", async || server.hits() > hits).await;
}

/// SCRAPE-2: a scrape waits that finds no memory. The target leaves meanwhile, and what is known of it is not lost.
#[tokio::test]
async fn a_target_that_leaves_does_not_wait_for_memory() {
    let server = server().await;
    let mut agent = agent(&server).await;
    let held = agent.leave(3 * MIB).await;
    is_scraped_again(&server).await;
    agent.scraper.reload(&plan_of(&agent.backend, &[], INTERVAL), &Scrapables::default());
    agent.arrives("static a{n} gone").await;
    agent.arrives("static up{} gone").await;
    let arrived = agent.arrived();
    assert_eq!(arrived.iter().filter(|line| *line == "static a{n} gone").count(), 5_000);
    assert!(arrived.iter().all(|line| line != "static up{} 0" && line != "static b{} 1"), "the scrape did not end");
    drop(held);
    in_time("the end of scraping", agent.scraper.stop()).await;
}

/// SCRAPE-3: there is no memory to say that the series have ended, and that is counted.
#[tokio::test]
async fn the_end_of_series_that_finds_no_memory_is_counted() {
    let server = server().await;
    let mut agent = agent(&server).await;
    let _held = agent.leave(32 << 10).await;
    agent.scraper.reload(&plan_of(&agent.backend, &[], INTERVAL), &Scrapables::default());
    let lost = || agent.engine.view().snapshot().unwrap().sources.scrapes.first()?.lost.first().copied();
    eventually("it is counted", async || lost().is_some_and(|(why, lost)| why == "no_memory" && lost >= 5_000)).await;
}

/// The same when all scraping ends.
#[tokio::test]
async fn a_scrape_that_waits_for_memory_ends_at_once() {
    // Again if that took long: the machine may be busy.
    eventually("it does not have its time", async || {
        let server = server().await;
        let agent = agent(&server).await;
        let _held = agent.leave(3 * MIB).await;
        is_scraped_again(&server).await;
        let began = Instant::now();
        in_time("the end of scraping", agent.scraper.stop()).await;
        began.elapsed() < INTERVAL / 3
    })
    .await;
}

/// What a page needs that is as it was is a small part of what one needs that is read.
#[tokio::test]
async fn a_page_that_is_as_it_was_needs_little_memory() {
    let lines: String = (0..5_000).map(|number| format!("a{{n=\"{number}\"}} 1\n")).collect();
    let other = lines.replace("} 1\n", "} 2\n");
    let server = Server::turning(page(&lines), page(&other)).await;
    let agent = agent(&server).await;
    let _held = agent.leave(3 * MIB).await;
    server.turn();
    agent.arrives("static a{n} 2").await;
    assert!(agent.failure(&server.url).is_none());
}

/// What is known of twenty thousand series takes about half a megabyte, and there are a few megabytes for all targets.
#[tokio::test]
async fn pages_that_find_no_room_to_be_remembered_are_counted() {
    let lines: String = (0..20_000).map(|number| format!("a{{n=\"{number}\"}} {number}\n")).collect();
    let server = Server::start(move |_| page(&lines)).await;
    let urls: Vec<_> = (0..24).map(|number| format!("{}{number}", server.url)).collect();
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let backend = Backend::start().await;
    let agent = Agent::run(&plan_of(&backend, &urls, INTERVAL), backend, 32 * MIB).await;
    let forgotten =
        || agent.engine.view().snapshot().unwrap().sources.scrapes.first()?.forgotten_targets.checked_sub(1);
    eventually("a page that is not remembered is counted", async || forgotten().is_some()).await;
    let is_seen = || agent.board.all().iter().any(|(_, last)| last.failure.is_none() && !last.is_remembered);
    eventually("the page of targets says so, too", async || is_seen()).await;
}

/// Ten kilobytes for each of five hundred targets are more than an eighth of the memory.
#[tokio::test]
async fn targets_that_find_no_room_are_not_scraped_and_say_so() {
    let server = Server::start(move |_| page("a 1\n")).await;
    let urls: Vec<_> = (0..500).map(|number| format!("{}{number}", server.url)).collect();
    let urls: Vec<_> = urls.iter().map(String::as_str).collect();
    let backend = Backend::start().await;
    let agent = Agent::run(&plan_of(&backend, &urls, INTERVAL), backend, 32 * MIB).await;
    let figures = || agent.engine.view().snapshot().unwrap().sources.scrapes.into_iter().next();
    let all = || figures().map_or(0, |of_job| of_job.targets.iter().map(|(_, count)| count).sum::<u64>());
    eventually("some are scraped", async || all() > 0).await;
    let dropped = figures().unwrap().dropped_targets;
    assert!(dropped > 100 && dropped + all() == 500, "{dropped} of 500 are dropped");
}
