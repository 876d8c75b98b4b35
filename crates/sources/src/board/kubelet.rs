//! How the kubelet is reached that runtime metrics come from: it is shown with the targets.

use serde::Serialize;
use tokio::time::Instant;

use super::{State, TargetBoard};

/// A kubelet that was asked.
#[derive(Debug)]
pub(super) struct KubeletRow {
    url: String,
    /// What went wrong last.
    error: Option<String>,
    asked: Instant,
    /// When it began to answer, or to fail.
    since: Instant,
}

/// The same for the page.
#[derive(Debug, Serialize)]
pub(super) struct KubeletStatus<'a> {
    url: &'a str,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    seconds_ago: f64,
    since_seconds: f64,
}

impl TargetBoard {
    /// Notes that the kubelet was asked, and what went wrong.
    pub(crate) fn note_kubelet(&self, url: &str, error: Option<String>) {
        let (mut targets, now) = (self.targets(), Instant::now());
        let before = targets.kubelet.take();
        let is_as_before = before.as_ref().filter(|before| before.error.is_some() == error.is_some());
        let since = is_as_before.map_or(now, |before| before.since);
        targets.kubelet = Some(KubeletRow { url: url.to_owned(), error, asked: now, since });
    }

    /// What went wrong when the kubelet was asked last, if anything.
    pub fn kubelet_error(&self) -> Option<String> {
        self.targets().kubelet.as_ref()?.error.clone()
    }

    /// It is not asked any more.
    pub(crate) fn forget_kubelet(&self) {
        self.targets().kubelet = None;
    }
}

impl<'a> KubeletStatus<'a> {
    pub(super) fn new(row: &'a KubeletRow) -> Self {
        Self {
            url: &row.url,
            state: if row.error.is_some() { State::Down } else { State::Up },
            error: row.error.as_deref(),
            seconds_ago: row.asked.elapsed().as_secs_f64(),
            since_seconds: row.since.elapsed().as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_is_down_since_it_failed_first() {
        let board = TargetBoard::default();
        board.note_kubelet("https://node", None);
        advance(Duration::from_secs(30)).await;
        board.note_kubelet("https://node", Some("no token".to_owned()));
        advance(Duration::from_secs(30)).await;
        board.note_kubelet("https://node", Some("403".to_owned()));
        advance(Duration::from_secs(7)).await;
        let targets = board.targets();
        let status = serde_json::to_value(KubeletStatus::new(targets.kubelet.as_ref().unwrap())).unwrap();
        let expected = serde_json::json!({"url": "https://node", "state": "down", "error": "403", "seconds_ago": 7.0,
            "since_seconds": 37.0});
        assert_eq!(status, expected);
    }
}
