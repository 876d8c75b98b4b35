//! Who is scraped when, and what is said of those who leave.

use std::collections::BTreeSet;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;
use weir_engine::{EarlyLoss, Settings};
use weir_plan::{PipelineId, Scrapables, Signal};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::servers::{Answer, Server, Then, page};
use crate::{Agent, Target, arrived, plan_of};

/// Two targets hang as long as they may, which is as long as the interval is; the others do not wait for them.
#[tokio::test]
async fn a_target_that_hangs_delays_nobody() {
    let hanging = || Server::start(|_| Answer { bytes: Vec::new(), then: Then::Hang });
    let (one, other) = (hanging().await, hanging().await);
    let good = [Server::start(|_| page("a 1\n")).await, Server::start(|_| page("a 1\n")).await];
    let urls = [&one.url, &good[0].url, &other.url, &good[1].url].map(String::as_str);
    let agent = Agent::of(&urls, Duration::from_secs(1)).await;
    let hangs = |server: &Server| agent.failure(&server.url).is_some_and(|words| words.contains("no answer within 1s"));
    eventually("they hang", async || hangs(&one) && hangs(&other)).await;
    eventually("the others are scraped", async || good.iter().all(|server| server.hits() >= 4)).await;
    assert!(one.hits() <= good[0].hits() + 2);
    // The others take some while they arrive.
    eventually("what hangs costs nothing", async || agent.memory() < 64 << 10).await;
}

/// When the counter began, of all points that arrived.
fn starts(backend: &Backend) -> BTreeSet<u64> {
    let requests = backend.captured();
    let requests = requests.iter().map(|captured| ExportMetricsServiceRequest::decode(&*captured.plain).unwrap());
    let scopes = requests.flat_map(|request| request.resource_metrics).flat_map(|resource| resource.scope_metrics);
    let sums = scopes.flat_map(|scope| scope.metrics).filter_map(|metric| match metric.data {
        Some(Data::Sum(sum)) => Some(sum),
        _ => None,
    });
    sums.flat_map(|sum| sum.data_points).map(|point| point.start_time_unix_nano).collect()
}

#[tokio::test]
async fn another_interval_changes_times_and_nothing_else() {
    let target = Target::start("# TYPE a counter\na 1\n").await;
    let mut agent = Agent::of(&[&target.url], Duration::from_secs(3600)).await;
    let plan = |interval| plan_of(&agent.backend, &[&target.url], interval);
    let (slow, fast) = (plan(Duration::from_millis(200)), plan(Duration::from_millis(50)));
    assert!(agent.board.all().is_empty(), "its time is within the hour");
    agent.scraper.reload(&slow, &Scrapables::default());
    agent.arrives("static a{} 1").await;
    agent.scraper.reload(&fast, &Scrapables::default());
    target.now(200, "text/plain", "# TYPE a counter\na 2\n");
    agent.arrives("static a{} 2").await;
    let starts = starts(&agent.backend).len();
    // On a busy machine a scrape may be too late, and what comes after it has begun anew.
    let late = arrived(&agent.backend).iter().filter(|line| *line == "static up{} 0").count();
    assert!((1..=1 + late).contains(&starts), "it began when it was seen first: {starts}, {late} late");
    agent.scraper.stop().await;
}

#[tokio::test]
async fn the_series_of_a_target_that_leaves_end() {
    let (stays, leaves) = (Target::start("stays 1\n").await, Target::start("leaves 1\n").await);
    let mut agent = Agent::of(&[&stays.url, &leaves.url], Duration::from_millis(100)).await;
    agent.arrives("static leaves{} 1").await;
    agent.arrives("static stays{} 1").await;
    let less = plan_of(&agent.backend, &[&stays.url], Duration::from_millis(100));
    agent.scraper.reload(&less, &Scrapables::default());
    agent.arrives("static leaves{} gone").await;
    agent.arrives("static up{} gone").await;
    stays.now(200, "text/plain", "stays 2\n");
    agent.arrives("static stays{} 2").await;
    assert_eq!(agent.board.all().len(), 1);
    agent.scraper.stop().await;
    // On a busy machine a scrape may be too late, and then the series of a page end without any of these.
    let is_of_page = |line: &str| ["static leaves{", "static stays{"].iter().any(|page| line.starts_with(page));
    let arrived = arrived(&agent.backend);
    let ended = arrived.iter().filter(|line| line.contains("gone") && !is_of_page(line.as_str())).count();
    assert_eq!(ended, 5, "what was said of it, and nothing when scraping ends");
}

/// SCRAPE-3: a backend that does not answer is waited for until it is time for the next scrape. By then one pipeline
/// has delivered what was collected and the other one holds it: nobody has lost it.
#[tokio::test]
async fn what_a_scrape_does_not_wait_for_any_more_is_not_lost() {
    let server = Server::start(|_| page("a 1\n")).await;
    let (backend, hangs) = (Backend::start().await, Backend::holding().await);
    let mut plan = plan_of(&backend, &[&server.url], Duration::from_secs(1));
    let mut other = plan.pipelines[0].clone();
    other.id = PipelineId::new(Signal::Metrics, "hangs");
    other.output.endpoint.port = hangs.address.port();
    plan.pipelines.push(other);
    // Nothing but the next scrape ends the waiting.
    let settings = Settings { spill_after: Duration::from_secs(3600), ..Settings::default() };
    let agent = Agent::with(&plan, backend, settings).await;
    agent.arrives("static a{} 1").await;
    eventually("both have it", async || !hangs.captured().is_empty()).await;
    let hits = server.hits();
    eventually("it is over", async || server.hits() > hits + 1).await;
    let seen = agent.engine.view().snapshot().unwrap();
    let early: Vec<_> = seen.pipelines.iter().map(|pipeline| pipeline.before_books).collect();
    // On a busy machine a page may not be read in time, which is another loss.
    assert_eq!(early.len(), 2);
    assert!(early.iter().all(|early| early.last != Some(EarlyLoss::NoRoom)), "{early:?}");
    let mut lost = seen.sources.scrapes.iter().flat_map(|of_job| of_job.lost.iter());
    assert!(lost.all(|(why, data_points)| *why != "no_room" || *data_points == 0));
}
