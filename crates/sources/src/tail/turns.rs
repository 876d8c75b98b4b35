//! Who has a turn of reading: containers with unread output, first come, first served.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{self, JoinError, JoinSet};
use tokio::time::Instant;
use weir_legible::Seldom;

use super::container::Container;
use super::shared::Shared;
use super::turn::{End, PAUSE, REST, turn};

/// Turns that are under way at once. Each holds what it read until that is safe.
const TURNS: usize = 32;

/// Gives turns to containers, first come, first served.
pub(super) struct Turns {
    shared: Arc<Shared>,
    ready: mpsc::UnboundedReceiver<Arc<Container>>,
    turns: JoinSet<End>,
    /// The containers whose turns these are.
    active: HashMap<task::Id, Arc<Container>>,
    /// Resting containers, in the order in which they get up.
    resting: VecDeque<(Instant, Arc<Container>)>,
    failure_reported: Seldom,
}

impl Turns {
    pub(super) fn new(shared: Arc<Shared>, ready: mpsc::UnboundedReceiver<Arc<Container>>) -> Self {
        Self {
            shared,
            ready,
            turns: JoinSet::new(),
            active: HashMap::new(),
            resting: VecDeque::new(),
            failure_reported: Seldom::default(),
        }
    }

    /// Runs until it is stopped; then it finishes the turns that are under way.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let gets_up = self.resting.front().map(|(at, _)| *at);
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                Some(container) = self.ready.recv(), if self.turns.len() < TURNS => self.begin(container),
                Some(ended) = self.turns.join_next_with_id() => self.end(ended),
                () = until(gets_up) => {
                    if let Some((_, container)) = self.resting.pop_front() {
                        // It is queued already.
                        let _ = self.shared.ready.send(container);
                    }
                }
            }
        }
        while self.turns.join_next().await.is_some() {}
    }

    fn begin(&mut self, container: Arc<Container>) {
        container.begin_turn();
        let (shared, active) = (Arc::clone(&self.shared), Arc::clone(&container));
        let turn = self.turns.spawn(async move { turn(&shared, &active).await });
        self.active.insert(turn.id(), container);
    }

    fn end(&mut self, ended: Result<(task::Id, End), JoinError>) {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
        let Some(container) = self.active.remove(&id) else { return };
        let end = ended.map_or_else(|error| self.failed(&container, &error), |(_, end)| end);
        match end {
            End::More => {
                container.end_turn(true);
                let _ = self.shared.ready.send(container);
            }
            End::Idle => {
                if container.end_turn(false) {
                    self.rest(container, REST);
                }
            }
            End::Again(pause) => {
                container.end_turn(true);
                self.rest(container, pause);
            }
        }
    }

    fn failed(&mut self, container: &Container, error: &JoinError) -> End {
        if let Some(left_out) = self.failure_reported.due(Instant::now()) {
            tracing::error!(
                container = %container.name,
                %error,
                left_out,
                advice = "report it with the log before it",
                "a turn of reading panicked: this is a bug in weir"
            );
        }
        End::Again(PAUSE)
    }

    fn rest(&mut self, container: Arc<Container>, pause: Duration) {
        let at = Instant::now() + pause;
        let index = self.resting.partition_point(|(earlier, _)| *earlier <= at);
        self.resting.insert(index, (at, container));
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
