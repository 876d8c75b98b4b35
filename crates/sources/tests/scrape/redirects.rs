//! Targets that send us elsewhere.

use std::time::Duration;

use crate::servers::{Server, all_fail_alone, page, status};
use crate::{Agent, Target};

#[tokio::test]
async fn a_target_that_sends_us_elsewhere_is_followed() {
    let other = Target::start("there 1\n").await;
    let elsewhere = format!("location: {}\r\n", other.url);
    let to_other = Server::start(move |_| status("307 Temporary Redirect", &elsewhere)).await;
    let to_itself = Server::start(|hit| match hit % 4 {
        3 => page("here 1\n"),
        _ => status("302 Found", "location: ../metrics?again\r\n"),
    })
    .await;
    let agent = Agent::of(&[&to_other.url, &to_itself.url], Duration::from_millis(700)).await;
    agent.arrives("static there{} 1").await;
    agent.arrives("static here{} 1").await;
}

#[tokio::test]
async fn nobody_is_followed_in_circles_or_out_of_http() {
    all_fail_alone(vec![
        (status("301 Moved", "location: /metrics\r\n"), "redirected more than 10 times"),
        (status("302 Found", "location: ftp://127.0.0.1/metrics\r\n"), "which is not an http or https URL"),
        (status("302 Found", "location: file:///etc/passwd\r\n"), "redirects to \"file:///etc/passwd\""),
        (status("308 Moved", ""), "redirects without a Location header"),
        (status("304 Not Modified", ""), "answered 304"),
    ])
    .await;
}
