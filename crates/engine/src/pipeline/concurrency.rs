//! temporary stub: overwrite me
use tokio::time::Instant;
#[derive(Debug)]
pub(super) struct Concurrency {
    max: usize,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Taken,
    Refused,
    Silent,
}
impl Concurrency {
    pub(super) fn new(max: usize) -> Self {
        Self { max }
    }
    pub(super) fn limit(&self) -> usize {
        self.max
    }
    pub(super) fn answered(&mut self, _sent: Instant, _now: Instant, _verdict: Verdict, _beside: usize, _bytes: usize) {
    }
    pub(super) fn unreachable(&mut self) {}
}
