//! A page as its target sends it, for people: whatever that is, and as far as it comes.

use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use weir_sources::scrape::{RawPage, SHOWN_BYTES};

use crate::Agent;
use crate::servers::{Answer, Server, Then, page, raw, status, typed};

/// Long enough for an answer on a busy machine.
const LONG: Duration = Duration::from_secs(10);

/// What is seen of the only target, which answers so.
async fn seen(answer: Answer) -> RawPage {
    seen_within(LONG, answer).await
}

/// The same of one that has only so long.
async fn seen_within(patience: Duration, answer: Answer) -> RawPage {
    let server = Server::start(move |_| answer.clone()).await;
    of(&server, patience).await
}

async fn of(server: &Server, patience: Duration) -> RawPage {
    let agent = Agent::of(&[&server.url], patience).await;
    let shown = agent.board.viewing(1).unwrap().read().await;
    assert!(agent.board.viewing(2).is_none());
    agent.scraper.stop().await;
    assert!(agent.board.viewing(1).is_none(), "nothing is read when nothing is scraped");
    shown
}

fn error(shown: &RawPage) -> &str {
    shown.error.as_deref().unwrap_or_default()
}

#[tokio::test]
async fn a_page_is_shown_as_it_is() {
    let shown = seen(page("a 1\nno line of metrics")).await;
    assert_eq!(
        (shown.status.unwrap().as_u16(), shown.content_type.as_deref()),
        (200, Some("text/plain; version=0.0.4"))
    );
    assert_eq!((&*shown.text(), shown.bytes, shown.left_out(), error(&shown)), ("a 1\nno line of metrics", 22, 0, ""));
    assert!(shown.took < Duration::from_secs(10));
}

#[tokio::test]
async fn of_a_long_page_whole_lines_are_shown_and_the_rest_is_counted() {
    let lines: String = (10_000..50_000).map(|number| format!("a{{n=\"{number}\"}} 1\n")).collect();
    let shown = seen(page(&lines)).await;
    assert_eq!((shown.bytes, error(&shown)), (lines.len(), ""));
    let text = shown.text();
    assert!(text.len() <= SHOWN_BYTES && text.len() > SHOWN_BYTES - 100, "{}", text.len());
    assert_eq!(lines.split_at(text.len()).0, text);
    assert!(text.ends_with("} 1\n") && shown.left_out() == lines.len() - text.len());
}

#[tokio::test]
async fn what_is_no_page_is_shown_with_the_reason_why_a_scrape_takes_it_for_none() {
    let denied = raw("HTTP/1.1 403 Forbidden\r\ncontent-length: 7\r\nconnection: close\r\n\r\ndenied\n");
    let shown = seen(denied).await;
    assert_eq!(
        (shown.status.unwrap().as_u16(), shown.content_type.as_deref(), &*shown.text()),
        (403, None, "denied\n")
    );
    assert!(error(&shown).starts_with("answered 403 Forbidden: it wants credentials"), "{}", error(&shown));
    let shown = seen(typed("text/html", "<script>")).await;
    assert!(
        &*shown.text() == "<script>" && error(&shown).starts_with("content type \"text/html\""),
        "{}",
        error(&shown)
    );
    let shown = seen(typed("application/vnd.google.protobuf", "\u{8}a")).await;
    assert!(error(&shown).starts_with("answered in protobuf although"), "{}", error(&shown));
}

#[tokio::test]
async fn what_came_of_a_page_that_is_not_whole_is_shown() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\n";
    let shown = seen(raw(format!("{head}a 2\nb"))).await;
    assert!(
        &*shown.text() == "a 2\nb" && error(&shown).contains("broke after 5 bytes of the page"),
        "{}",
        error(&shown)
    );
    let hangs = Answer { bytes: format!("{head}a 2\n").into(), then: Then::Hang };
    let shown = seen_within(Duration::from_secs(5), hangs).await;
    assert!(&*shown.text() == "a 2\n" && error(&shown).starts_with("no whole page within 5s"), "{}", error(&shown));
    let silent = Answer { bytes: Vec::new(), then: Then::Hang };
    let shown = seen_within(Duration::from_millis(700), silent).await;
    assert!(shown.status.is_none() && error(&shown).starts_with("no answer within 700ms"), "{}", error(&shown));
    let endless = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
    let go_on = Then::Go("a 1\n".repeat(1 << 20).into(), Duration::ZERO);
    let shown = seen(Answer { bytes: endless.into(), then: go_on }).await;
    // A slow machine has no time for 20 MiB.
    let is_ended =
        error(&shown).starts_with("the page is larger than 20 MiB") || error(&shown).starts_with("no whole page");
    assert!(is_ended && shown.text().len() == SHOWN_BYTES, "{}", error(&shown));
}

#[tokio::test]
async fn a_page_that_is_compressed_unasked_is_inflated() {
    let gzip = |body: &[u8]| {
        let mut out = GzEncoder::new(Vec::new(), Compression::none());
        out.write_all(body).unwrap();
        out.finish().unwrap()
    };
    let answer = |body: Vec<u8>| {
        let fields = "content-type: text/plain\r\ncontent-encoding: gzip\r\nconnection: close";
        let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\ncontent-length: {}\r\n\r\n", body.len());
        raw([head.into_bytes(), body].concat())
    };
    let shown = seen(answer(gzip(b"a 1\n"))).await;
    assert_eq!((&*shown.text(), shown.bytes, error(&shown)), ("a 1\n", 4, ""));
    let shown = seen(answer(b"no gzip".to_vec())).await;
    assert!(shown.text().is_empty() && error(&shown).contains("not compressed as its content encoding \"gzip\" says"));
    let shown = seen(answer(gzip("a".repeat(2 * SHOWN_BYTES).as_bytes()))).await;
    assert!(shown.text().is_empty() && error(&shown).contains("to more than 256 KiB"), "{}", error(&shown));
}

#[tokio::test]
async fn a_target_is_followed_to_itself_alone() {
    let other = Server::start(|_| page("secret 1\n")).await;
    let elsewhere = format!("location: {}\r\n", other.url);
    let shown = seen(status("307 Temporary Redirect", &elsewhere)).await;
    assert!(shown.status.is_none() && shown.text().is_empty(), "{shown:?}");
    let said = format!("redirects to {}: what another address answers is not shown", other.url);
    assert_eq!(error(&shown), said);
    // Every second request is one that was sent here.
    let itself = Server::start(|hit| match hit % 2 {
        0 => status("302 Found", "location: ?again\r\n"),
        _ => page("here 1\n"),
    })
    .await;
    assert!(of(&itself, LONG).await.text().contains("here 1\n"));
}
