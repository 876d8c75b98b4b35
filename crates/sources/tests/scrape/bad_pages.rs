//! Pages that are not as they should be.

use std::time::Duration;

use crate::servers::{Answer, Server, Then, all_fail_alone, fails_alone, page, typed};
use crate::{Agent, Target};
use weir_sources::scrape::BODY_LIMIT;
use weir_testkit::eventually;

const MIB: usize = 1 << 20;

#[tokio::test]
async fn a_page_that_ends_early_is_refused() {
    let open_metrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    all_fail_alone(vec![
        (page("a 2\nb{x=\"1"), "line 2: labels without an end"),
        (page("a 2\nb{x=\"1\"}"), "line 2: no value"),
        (typed(open_metrics, "# TYPE a gauge\na 2\n"), "ends before its last line, # EOF"),
        (typed(open_metrics, ""), "ends before its last line, # EOF"),
    ])
    .await;
}

#[tokio::test]
async fn what_is_no_page_of_metrics_is_refused() {
    let html = "<!DOCTYPE html>\n<html><body>a 2</body></html>\n";
    all_fail_alone(vec![
        (typed("text/html; charset=utf-8", html), "content type \"text/html; charset=utf-8\" is not a metrics format"),
        (page(html), "line 1: "),
        (typed("application/json", "{\"a\": 2}"), "content type \"application/json\""),
        (typed("image/png", "a 2\n"), "perhaps the metrics are at another path"),
        (page("\u{0}\u{1}\u{2}\n"), "line 1: "),
    ])
    .await;
}

#[tokio::test]
async fn numbers_out_of_range_are_refused() {
    all_fail_alone(vec![
        (page("a 1e999\n"), "line 1: a value that is no number, or too large for one"),
        (page("a one\n"), "line 1: a value that is no number, or too large for one"),
        (page("a 0x10\n"), "line 1: a value that is no number, or too large for one"),
        (
            page("a 1 99999999999999999999\n"),
            "line 1: a time that is no number, before 1970, or more than five centuries later",
        ),
        (page("a 1 -5\n"), "line 1: a time that is no number, before 1970, or more than five centuries later"),
        (page("a 1 soon\n"), "line 1: a time that is no number, before 1970, or more than five centuries later"),
    ])
    .await;
}

#[tokio::test]
async fn labels_that_cannot_be_are_refused() {
    all_fail_alone(vec![
        (page("a{x=\"1\",x=\"2\"} 1\n"), "line 1: the same label twice"),
        (page("a{x=1} 1\n"), "line 1: labels are not written as"),
        (page("{x=\"1\"} 1\n"), "line 1: a series without a name"),
    ])
    .await;
}

#[tokio::test]
async fn a_series_that_is_there_twice_is_taken_once() {
    let target = Target::start("a{x=\"1\"} 1\na{x=\"1\"} 2\nb 3\n").await;
    let agent = Agent::of(&[&target.url], Duration::from_millis(200)).await;
    agent.arrives("static b{} 3").await;
    agent.arrives("static scrape_samples_scraped{} 3").await;
    // The scrape is on the board a moment after it has arrived.
    eventually("it is on the board", async || {
        agent.board.all().iter().any(|(_, last)| last.taken.is_some_and(|taken| taken.repeated == 1))
    })
    .await;
    let arrived = agent.arrived();
    assert!(arrived.iter().any(|line| line == "static a{x} 1"));
    assert!(!arrived.iter().any(|line| line == "static a{x} 2"), "{arrived:?}");
}

/// There is no limit for one label, so long as the page is not too large.
#[tokio::test]
async fn labels_of_a_megabyte_arrive() {
    let long = "x".repeat(MIB);
    let lines: String = (0..4).map(|number| format!("a{{n=\"{number}\",x=\"{long}\"}} {number}\n")).collect();
    let target = Target::start(&lines).await;
    let agent = Agent::of(&[&target.url], Duration::from_secs(2)).await;
    agent.arrives("static a{n,x} 3").await;
    target.now(200, "text/plain", "a 9\n");
    agent.arrives("static a{} 9").await;
    assert_eq!(agent.arrived().iter().filter(|line| *line == "static a{n,x} gone").count(), 4);
}

#[tokio::test]
async fn a_page_with_too_many_samples_is_refused() {
    let many: String = (0..50_001).map(|number| format!("a{{n=\"{number}\"}} 1\n")).collect();
    fails_alone(Duration::from_secs(3), page(&many), "50001 samples, the limit is 50000", 64 * MIB).await;
}

#[tokio::test]
async fn a_page_is_as_large_as_it_may_be_and_no_larger() {
    let page = |bytes: usize| {
        let sample = "\na 1\n";
        format!("#{}{sample}", " ".repeat(bytes - sample.len() - 1))
    };
    let target = Target::start(&page(BODY_LIMIT)).await;
    let agent = Agent::of(&[&target.url], Duration::from_secs(1)).await;
    agent.arrives("static a{} 1").await;
    target.now(200, "text/plain", &page(BODY_LIMIT + 1));
    agent.fails("larger than 20 MiB, which is the limit").await;
}

/// Ten million series would be 300 MB. They come as fast as they are taken, and no more than the limit is.
#[tokio::test]
async fn a_page_that_is_too_large_is_refused_while_it_arrives() {
    let lines: String = (0..10_000).map(|number| format!("series_{number}{{label=\"value\"}} 1\n")).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 300000000\r\n\r\n";
    let endless = Answer { bytes: head.into(), then: Then::Go(lines.into_bytes(), Duration::ZERO) };
    fails_alone(Duration::from_secs(3), endless, "larger than 20 MiB, which is the limit", 42 * MIB).await;
}

/// SCRAPE-2: where there is no memory for the page, it is refused as well, and nothing else is.
#[tokio::test]
async fn a_page_that_finds_no_memory_is_refused() {
    let lines: String = (0..10_000).map(|number| format!("series_{number} 1\n")).collect();
    let (many, good) = (lines.repeat(80), Target::start("good 1\n").await);
    let server = Server::start(move |_| page(&many)).await;
    let backend = weir_testkit::backend::Backend::start().await;
    let plan = crate::plan_of(&backend, &[&good.url, &server.url], Duration::from_secs(3));
    let agent = Agent::run(&plan, backend, 32 * MIB).await;
    eventually("there is no memory", async || {
        agent.failure(&server.url).is_some_and(|words| words.contains("no room in --memory"))
    })
    .await;
    good.now(200, "text/plain", "good 2\n");
    agent.arrives("static good{} 2").await;
    // While it waits for memory, the page is there.
    eventually("the page is given up", async || agent.memory() < 4 * MIB).await;
}
