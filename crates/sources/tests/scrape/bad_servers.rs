//! Targets that do not answer as they should.

use std::time::Duration;

use weir_testkit::eventually;
use weir_testkit::sink::closed_port;

use crate::servers::{Answer, Then, all_fail_alone, raw, status};
use crate::{Agent, Target};

fn hanging(bytes: &str) -> Answer {
    Answer { bytes: bytes.into(), then: Then::Hang }
}

/// A byte a second, after these.
fn slow(bytes: &str) -> Answer {
    Answer { bytes: bytes.into(), then: Then::Go(b"a".to_vec(), Duration::from_secs(1)) }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\n";

#[tokio::test]
async fn a_target_that_takes_its_time_is_given_up() {
    all_fail_alone(vec![
        (hanging(""), "no answer within 700ms"),
        (slow("HTTP/1.1 200 OK\r\nx-field: "), "no answer within 700ms"),
        (hanging(HEAD), "no whole page within 700ms"),
        (slow(&format!("{HEAD}a 2\n")), "no whole page within 700ms"),
    ])
    .await;
}

#[tokio::test]
async fn a_target_that_goes_away_is_told_from_one_that_answers() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\na 2\n\r\n";
    all_fail_alone(vec![
        (raw(""), "ends the connection without an answer; a port for TLS, or an Istio proxy"),
        (raw("HTTP/1.1 200 OK\r\ncontent-"), "ends the connection without an answer"),
        (raw(format!("{HEAD}a 2\n")), "broke after 4 bytes of the page"),
        (raw(chunked), "broke after 4 bytes of the page"),
        (raw(chunked.replace("4\r\na 2", "zz\r\na 2")), "broke after 0 bytes of the page"),
    ])
    .await;
}

#[tokio::test]
async fn a_target_that_speaks_no_http_is_told_so() {
    // What a server says that waits for TLS.
    let alert = [0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46];
    let long = format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n\r\n", "x".repeat(1 << 20));
    all_fail_alone(vec![
        (raw("220 mail.example.com\r\n"), "does not speak HTTP"),
        (raw(alert), "perhaps it wants HTTPS: then write https://"),
        (raw(long), "does not speak HTTP: "),
    ])
    .await;
}

#[tokio::test]
async fn an_answer_that_is_no_page_says_what_to_do() {
    all_fail_alone(vec![
        (status("401 Unauthorized", ""), "answered 401 Unauthorized: it wants credentials"),
        (status("403 Forbidden", ""), "answered 403 Forbidden: it wants credentials"),
        (status("404 Not Found", ""), "answered 404 Not Found: the metrics are at another path"),
        (status("400 Bad Request", ""), "answered 400 Bad Request: some servers say so when they want HTTPS"),
        (status("500 Internal Server Error", ""), "answered 500 Internal Server Error"),
        (status("204 No Content", ""), "answered 204 No Content"),
    ])
    .await;
}

#[tokio::test]
async fn nobody_at_home_is_said_so() {
    let good = Target::start("good 1\n").await;
    let nobody = format!("http://{}/metrics", closed_port().await);
    let nowhere = "http://no.such.host.invalid/metrics";
    let agent = Agent::of(&[&good.url, &nobody, nowhere], Duration::from_millis(700)).await;
    let says = |url: &str, words: &str| agent.failure(url).is_some_and(|said| said.contains(words));
    eventually("it listens nowhere", async || says(&nobody, "nothing listens at this address and port")).await;
    eventually("it has no address", async || says(nowhere, "cannot be reached: ")).await;
    agent.arrives("static good{} 1").await;
    agent.arrives("static up{} 0").await;
}
