//! What follows from a backend's answer. What it does not take, whether it refuses it or asks to try again, goes on in
//! `refused.rs`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::{Id, JoinError};
use tokio::time::Instant;

use super::super::BackendState;
use super::super::answers::Ending;
use super::super::concurrency::Feedback;
use super::super::flight::{End, Landed};
use super::super::isolation::Suspicion;
use super::super::pace::Pace;
use super::super::parked::Batch;
use super::flights::Flight;
use super::{Delivery, Stats};
use crate::books::{DropReason, Fate, PARTIAL_SUCCESS};
use crate::clock::millis;
use crate::export::{About, BackendRefusal, Outcome, RetryKind};
use crate::obligation::Obligation;

/// Why there is a line in the log, beside the states of the backend. These are known to users, as the states are.
const BUG: &str = "bug";
const CANNOT_READ: &str = "cannot_read";
const WARNING: &str = "warning";

/// A disk that did not give its data is asked again after this long.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// A batch and the bytes that were sent for it, piece by piece.
pub(super) struct Answered {
    pub(super) batch: Batch,
    pub(super) bodies: Vec<Bytes>,
    pub(super) sent: Instant,
    /// Which of the requests to the backend it was.
    pub(super) number: u64,
}

impl Delivery {
    /// Draws the consequences of an answer.
    pub(super) fn land(&mut self, ended: Result<(Id, Landed), JoinError>) {
        let (id, landed) = match ended {
            Ok((id, landed)) => (id, Some(landed)),
            Err(error) => {
                self.panicked(&error);
                (error.id(), None)
            }
        };
        let Some((Flight { mut batch, beside, number, .. }, is_present)) = self.flights.land(id) else { return };
        if !is_present {
            // What another backend refused says nothing about this one.
            batch.suspicion = Suspicion::default();
        }
        let Some(landed) = landed else {
            return self.retry(batch, RetryKind::Ours, None);
        };
        let Landed { end, sent, fetched, mut bodies, damaged, .. } = landed;
        if !fetched.is_empty() {
            self.next_entry_bytes = 0;
            self.retries.first_attempt(Instant::now());
        }
        batch.pieces.extend(fetched);
        let lost: Vec<Arc<Obligation>> = damaged.iter().rev().map(|at| batch.pieces.remove(*at)).collect();
        damaged.iter().rev().for_each(|at| drop(bodies.remove(*at)));
        finish(&lost, &Fate::Dropped(DropReason::JournalDamaged));
        batch.measure();
        if let End::Outcome(outcome) = &end {
            self.say_ended(outcome, &batch, sent);
        }
        match end {
            End::Outcome(outcome) if !is_present => self.answered_by_another(&outcome, batch),
            End::Outcome(outcome) => {
                self.observe(&outcome, sent, beside, number, &batch);
                self.follow(outcome, Answered { batch, bodies, sent, number });
            }
            // Entries that came after the look were announced before this landed, and later ones will be announced.
            End::NothingToTake => self.backlog = self.account().backlog().untaken_entries > 0,
            // Flights that end make room.
            End::NoRoom(bytes) => self.next_entry_bytes = bytes,
            End::NothingOwed => {}
            End::Unread(cause) => self.unread(batch, &cause),
        }
    }

    /// For whoever looks why data does not flow: each request to a backend has this line.
    fn say_ended(&self, outcome: &Outcome, batch: &Batch, sent: Instant) {
        tracing::debug!(
            pipeline = %self.account().id,
            items = batch.items(),
            bytes = batch.bytes,
            attempts = batch.attempts.saturating_add(1),
            outcome = Ending::of(outcome).as_str(),
            code = outcome.code(),
            cause = outcome.message(),
            took_ms = millis(sent.elapsed()),
            "a request to a backend ended"
        );
    }

    /// Whether the pipeline is worth a line for this reason; if so, how often it was not since the last, but for what
    /// was counted with others.
    fn due(&mut self, reason: &'static str, now: Instant) -> Option<u64> {
        let left_out = self.pace.reported.entry(reason).or_default().due(now)?;
        self.account().may_say(reason, left_out).then_some(left_out)
    }

    fn panicked(&mut self, error: &JoinError) {
        let Some(left_out) = self.due(BUG, Instant::now()) else { return };
        let (pipeline, pending) = (&self.account().id, self.account().books.figures().pending);
        tracing::error!(
            %pipeline,
            reason = BUG,
            %error,
            pending,
            left_out,
            "a send task panicked: this is a bug in weir, please report it; data is kept and tried again"
        );
    }

    /// The backend that answered has been replaced. What it took is delivered; everything else is for the new one.
    fn answered_by_another(&mut self, outcome: &Outcome, mut batch: Batch) {
        if let Outcome::Delivered { rejected, message } = outcome {
            return self.enter(&batch, *rejected, message);
        }
        batch.came_back();
        if batch.still_owed() {
            batch.not_before = None;
            self.parked.park(batch, Instant::now());
        }
    }

    /// The disk does not give what is owed. That is not the backend's fault, and the batch is tried again after a
    /// pause.
    fn unread(&mut self, mut batch: Batch, cause: &str) {
        let now = Instant::now();
        if let Some(left_out) = self.due(CANNOT_READ, now) {
            let (pipeline, pending) = (&self.account().id, self.account().books.figures().pending);
            tracing::error!(
                %pipeline,
                reason = CANNOT_READ,
                cause,
                pending,
                left_out,
                advice = crate::store::LOOK_AT_THE_DISK,
                "cannot read the backlog; it is tried again"
            );
        }
        if batch.pieces.is_empty() {
            self.reads_again = Some(now + READ_PAUSE);
        }
        batch.came_back();
        if batch.still_owed() {
            self.parked.park(batch, now + READ_PAUSE);
        }
    }

    fn follow(&mut self, outcome: Outcome, answered: Answered) {
        match outcome {
            Outcome::Delivered { rejected, message } => {
                // A backend that takes a request and rejects all of it has taken nothing.
                if rejected < answered.batch.items().max(1) {
                    self.traffic.takes(answered.number);
                    self.stands(BackendState::Ok, "", "", Instant::now());
                } else {
                    // What that costs is in the log as a loss.
                    let now = Instant::now();
                    self.parts.stats.backend.becomes(BackendState::Refused, PARTIAL_SUCCESS, &message, now);
                }
                self.sample_of_partial_success(&answered, rejected, &message);
                self.delivered(&answered.batch, rejected, &message);
            }
            Outcome::Retry { kind, hint, message } => {
                self.complain(kind, &message, answered.sent);
                match kind {
                    RetryKind::Ours | RetryKind::Unreachable => self.retry(answered.batch, kind, hint),
                    RetryKind::Silent | RetryKind::Answered => self.tried_in_vain(answered, kind, hint),
                }
            }
            Outcome::Refused(refusal) => self.refused(answered, refusal),
        }
    }

    /// What the answer says about the backend's state.
    fn observe(&mut self, outcome: &Outcome, sent: Instant, beside: usize, number: u64, batch: &Batch) {
        let now = Instant::now();
        self.parts.stats.latency.observe(now.duration_since(sent), now);
        self.parts.stats.answers.count(outcome);
        let feedback = match outcome {
            Outcome::Retry { kind: RetryKind::Unreachable, .. } => return self.concurrency.unreachable(),
            Outcome::Retry { kind: RetryKind::Ours, .. } => return,
            Outcome::Retry { kind: RetryKind::Silent, .. } => Feedback::Silent,
            Outcome::Retry { kind: RetryKind::Answered, .. } => Feedback::Refused,
            Outcome::Refused(BackendRefusal { about: About::Unclear | About::Access, .. }) => Feedback::Refused,
            Outcome::Refused(BackendRefusal { about: About::Data | About::Size, .. }) | Outcome::Delivered { .. } => {
                Feedback::Taken
            }
        };
        let taken = matches!(outcome, Outcome::Delivered { .. });
        if batch.attempts == 0 {
            self.rates.observe(number, batch.items(), taken, self.traffic.left, now);
        }
        match feedback {
            // With less load it would be refused as well.
            Feedback::Refused if self.is_suspect(batch) || self.rates.is_of_data(now) => {}
            feedback => self.concurrency.answered(sent, now, feedback, beside, batch.bytes),
        }
        if feedback == Feedback::Silent {
            return;
        }
        self.heard = now;
        if self.pace.reached() && std::mem::take(&mut self.complained) {
            tracing::info!(pipeline = %self.account().id, "backend can be reached again");
        }
    }

    /// The backend's standing, as an answer shows it.
    pub(super) fn stands(&mut self, state: BackendState, code: &str, message: &str, now: Instant) {
        let (before, lasted) = self.parts.stats.backend.becomes(state, code, message, now);
        let is_news = before != state;
        match state {
            BackendState::Ok if self.complained && is_news => {
                let (pipeline, after_s) = (&self.account().id, lasted.as_secs());
                tracing::info!(%pipeline, after_s, "backend takes data again");
                self.complained = false;
            }
            BackendState::Silent if is_news => {
                let reason = state.as_str();
                let Some(left_out) = self.due(reason, now) else { return };
                let (pipeline, pending) = (&self.account().id, self.account().books.figures().pending);
                let cause = message;
                let advice = "look whether it is overloaded, and at what is between";
                tracing::warn!(
                    %pipeline,
                    reason,
                    cause,
                    pending,
                    left_out,
                    advice,
                    "backend does not answer; data is kept and tried again"
                );
                self.complained = true;
            }
            BackendState::Refused => self.refuses(code, message, now),
            _ => {}
        }
    }

    fn refuses(&mut self, code: &str, cause: &str, now: Instant) {
        let reason = BackendState::Refused.as_str();
        let Some(left_out) = self.due(reason, now) else { return };
        let (pipeline, pending) = (&self.account().id, self.account().books.figures().pending);
        let advice = "look at the credentials and the path of the output, and at what the backend says";
        tracing::warn!(
            %pipeline,
            reason,
            code,
            cause,
            pending,
            left_out,
            advice,
            "backend refuses what it is sent; data is kept, small requests are tried"
        );
        self.complained = true;
    }

    fn delivered(&mut self, batch: &Batch, rejected: u64, message: &str) {
        let now = Instant::now();
        self.account().share.progressed();
        self.retries.taken(now);
        if self.pace.is_probing() {
            self.rates.recovered();
        }
        self.pace.succeeded(now);
        self.probes.succeeded();
        self.parked.hurry_next(now);
        if let Some(first) = batch.pieces.first() {
            self.account().delivered_after(first.since().elapsed());
        }
        self.account().request_size.taken(batch.bytes, now);
        self.enter(batch, rejected, message);
    }

    /// What a backend took, in the books.
    fn enter(&mut self, batch: &Batch, rejected: u64, message: &str) {
        let now = Instant::now();
        if rejected < batch.items().max(1) {
            Stats::add(&self.account().delivered_bytes, batch.bytes as u64);
        }
        if rejected > 0 {
            self.parts.stats.backend.refused(PARTIAL_SUCCESS, message);
            return finish_but(&batch.pieces, rejected, message);
        }
        finish(&batch.pieces, &Fate::Delivered);
        if message.is_empty() {
            return;
        }
        if let Some(left_out) = self.due(WARNING, now) {
            let (pipeline, cause) = (&self.account().id, message);
            tracing::warn!(
                %pipeline,
                reason = WARNING,
                cause,
                left_out,
                advice = "read what it says; nothing is lost",
                "backend took a request with a warning"
            );
        }
    }

    pub(super) fn retry(&mut self, mut batch: Batch, kind: RetryKind, hint: Option<Duration>) {
        Stats::add(&self.parts.stats.retries, 1);
        let now = Instant::now();
        self.pace.failed(batch.suspicion.says_nothing_of_backend(), hint, now);
        batch.attempts = batch.attempts.saturating_add(1);
        batch.not_before = hint.map(|hint| now + self.pace.asked(hint));
        if hint.is_none() {
            // With a hint the batch stays here and waits that long. From the backlog it would be sent at once.
            batch.came_back();
        }
        if !batch.still_owed() {
            return;
        }
        let is_suspect = self.is_suspect(&batch) && self.draining.is_none();
        let due = match kind {
            // A batch that could not be sent at all waits for the next probe, not for a backoff of its own.
            RetryKind::Unreachable => now,
            // Only this batch fails, so nothing is gained by hurry.
            _ if is_suspect => {
                let due = now + Pace::suspect_delay(batch.attempts);
                batch.not_before = Some(batch.not_before.map_or(due, |at| at.max(due)));
                due
            }
            RetryKind::Silent | RetryKind::Answered | RetryKind::Ours => {
                now + self.pace.retry_delay(batch.attempts, hint)
            }
        };
        tracing::debug!(
            pipeline = %self.account().id,
            items = batch.items(),
            bytes = batch.bytes,
            attempts = batch.attempts,
            wait_ms = millis(due.duration_since(now)),
            "a request waits for its next attempt"
        );
        self.parked.park(batch, due);
    }

    /// Whether a batch is refused again and again while others are taken.
    pub(super) fn is_suspect(&self, batch: &Batch) -> bool {
        batch.suspicion.has_many_proofs(self.pace.usual_telling())
    }

    /// Logs what stood in the way of a request that is to be tried again, and what that says of the backend.
    pub(super) fn complain(&mut self, kind: RetryKind, cause: &str, sent: Instant) {
        let now = Instant::now();
        let state = match kind {
            RetryKind::Unreachable => {
                if self.pace.cannot_reach(now) {
                    self.say_unreachable(cause, now);
                }
                return self.stands(BackendState::Unreachable, "", cause, now);
            }
            RetryKind::Ours => BackendState::Unsent,
            RetryKind::Silent => BackendState::Silent,
            RetryKind::Answered => BackendState::Failing,
        };
        if state == BackendState::Unsent {
            self.say_unsent(cause, now);
        } else {
            self.say_failing(cause, now);
        }
        if self.pace.took_nothing_since(sent) {
            self.stands(state, "", cause, now);
        }
    }

    fn say_unreachable(&mut self, cause: &str, now: Instant) {
        let reason = BackendState::Unreachable.as_str();
        let Some(left_out) = self.due(reason, now) else { return };
        let (pipeline, pending) = (&self.account().id, self.account().books.figures().pending);
        let advice = "look at the endpoint, its name, and what is between";
        tracing::warn!(
            %pipeline,
            reason,
            cause,
            pending,
            left_out,
            advice,
            "backend cannot be reached; data is kept and tried again"
        );
        self.complained = true;
    }

    fn say_unsent(&mut self, cause: &str, now: Instant) {
        let reason = BackendState::Unsent.as_str();
        let Some(left_out) = self.due(reason, now) else { return };
        let (pipeline, pending) = (&self.account().id, self.account().books.figures().pending);
        let advice = "look at the cause: the token server, credentials, memory, or how the backend is configured";
        tracing::warn!(
            %pipeline,
            reason,
            cause,
            pending,
            left_out,
            advice,
            "requests fail here, not at the backend; data is kept and tried again"
        );
        self.complained = true;
    }

    fn say_failing(&mut self, cause: &str, now: Instant) {
        let reason = BackendState::Failing.as_str();
        let Some(left_out) = self.due(reason, now) else { return };
        let (pipeline, pending) = (&self.account().id, self.account().books.figures().pending);
        let advice = "look whether the backend is overloaded, and at its limits";
        tracing::warn!(
            %pipeline,
            reason,
            cause,
            pending,
            left_out,
            advice,
            "backend does not take data now; it is kept and tried again"
        );
        self.complained = true;
    }
}

/// The pipeline is done with all of them.
pub(super) fn finish(pieces: &[Arc<Obligation>], fate: &Fate) {
    for piece in pieces {
        piece.finish(fate);
    }
}

/// The backend took all items but so many. It does not say which, so the first ones are counted, each with its piece:
/// what is entered as delivered is never taken back. Pieces that had been given up are not in the count.
fn finish_but(pieces: &[Arc<Obligation>], mut rejected: u64, cause: &str) {
    for piece in pieces {
        let here = rejected.min(piece.items());
        let fate = match here {
            0 => Fate::Delivered,
            _ => Fate::DeliveredBut { rejected: here, cause: cause.to_owned() },
        };
        if piece.finish(&fate) {
            rejected -= here;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use weir_plan::{PipelineId, Signal};

    use super::*;
    use crate::accounts::Accounts;
    use crate::books::BookFigures;
    use crate::obligation::Ticket;
    use crate::share::Share;

    /// Whoever looks at any moment sees no item that is taken back later.
    #[test]
    fn what_a_backend_rejects_of_a_request_was_never_entered_as_delivered() {
        let share = Share::new(100_000, Instant::now());
        let account = Accounts::default().open(PipelineId::new(Signal::Traces, "backend"), share, None);
        let seen: Arc<Mutex<Vec<BookFigures>>> = Arc::default();
        let piece = |items| {
            let ticket: Arc<Ticket> = Arc::default();
            let obligation = Obligation::new(Bytes::from_static(b"abc"), items, &ticket, &account);
            let (account, seen) = (Arc::clone(&account), Arc::clone(&seen));
            ticket.when_decided(Box::new(move |_| seen.lock().unwrap().push(account.books.figures())));
            obligation
        };
        finish_but(&[3, 4, 5].map(piece), 5, "five are bad");
        let figures = |books: &BookFigures| (books.delivered, books.rejected["partial_success"]);
        assert_eq!(seen.lock().unwrap().iter().map(figures).collect::<Vec<_>>(), [(0, 3), (2, 5), (7, 5)]);

        finish_but(&[3].map(piece), u64::MAX, "all, and more");
        let books = account.books.figures();
        assert!(books.balanced(), "{books:?}");
        assert_eq!((books.accepted, figures(&books)), (15, (7, 8)));
    }
}
