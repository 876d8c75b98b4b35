//! What follows from a backend's answer: finish, park, split, or give up.

use std::time::Duration;

use bytes::Bytes;
use tokio::task::{Id, JoinError};
use tokio::time::Instant;

use super::super::bisect;
use super::super::concurrency::Verdict;
use super::super::flight::{End, Landed};
use super::super::pace;
use super::super::parked::Batch;
use super::super::queue::Piece;
use super::super::samples::Sample;
use super::{Delivery, Flight, Stats};
use crate::books::{DropReason, Fate};
use crate::budget::Budget;
use crate::export::{Outcome, RetryKind};

/// A backend that answers "too large" is not offered less than this before its answer counts as a refusal of the data.
const MIN_BATCH_BYTES: usize = 16 * 1024;

/// A disk that did not give what it holds is asked again after this long.
const READ_PAUSE: Duration = Duration::from_secs(1);

/// A batch and the bytes that were sent of it, piece by piece.
struct Answered {
    batch: Batch,
    bodies: Vec<Bytes>,
}

impl Delivery {
    /// Draws the consequences of an answer.
    pub(super) fn land(&mut self, ended: Result<(Id, Landed), JoinError>) {
        let (id, landed) = match ended {
            Ok((id, landed)) => (id, Some(landed)),
            Err(error) => {
                let pipeline = &self.account().id;
                tracing::error!(pipeline, %error, "a send task panicked: this is a bug in weir");
                (error.id(), None)
            }
        };
        let Some(Flight { mut batch, bytes, beside, backend }) = self.flights.remove(&id) else { return };
        let is_of_now = backend == self.backend;
        if is_of_now {
            self.flying -= 1;
            self.in_flight_bytes -= bytes;
        }
        let Some(landed) = landed else {
            return self.retry(batch, RetryKind::Ours, None, "the send task panicked");
        };
        let Landed { end, sent, fetched, mut bodies, damaged, .. } = landed;
        if !fetched.is_empty() {
            self.retries.first_attempt(Instant::now());
        }
        batch.pieces.extend(fetched);
        let lost: Vec<Piece> = damaged.iter().rev().map(|at| batch.pieces.remove(*at)).collect();
        damaged.iter().rev().for_each(|at| drop(bodies.remove(*at)));
        self.account().report_damage(finish(&lost, &Fate::Dropped(DropReason::JournalDamaged)));
        batch.measure();
        match end {
            End::Outcome(outcome) if !is_of_now => self.answered_by_another(&outcome, batch),
            End::Outcome(outcome) => {
                self.observe(&outcome, sent, beside, batch.bytes);
                self.follow(outcome, Answered { batch, bodies });
            }
            // What came after the look was announced before this landed; the next entry will be announced.
            End::NothingToTake => self.backlog = self.account().backlog().untaken_entries > 0,
            End::NothingOwed => {}
            End::Unread(cause) => self.unread(batch, &cause),
        }
    }

    /// The backend that this went to was replaced meanwhile. What it took is delivered; all else is for the new one.
    fn answered_by_another(&mut self, outcome: &Outcome, mut batch: Batch) {
        if let Outcome::Delivered { rejected, message } = outcome {
            return self.delivered(&batch, *rejected, message);
        }
        batch.came_back();
        if batch.still_owed() {
            batch.not_before = None;
            self.parked.park(batch, Instant::now());
        }
    }

    /// The disk does not give what is owed: that is not the backend's fault, and it is tried again after a pause.
    fn unread(&mut self, mut batch: Batch, cause: &str) {
        let now = Instant::now();
        if self.pace.may_complain(now) {
            tracing::error!(pipeline = self.account().id, cause, "cannot read the backlog; it is tried again");
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
            Outcome::Delivered { rejected, message } => self.delivered(&answered.batch, rejected, &message),
            Outcome::Retry { kind, hint, message } => self.retry(answered.batch, kind, hint, &message),
            Outcome::TooLarge { message } => self.too_large(answered, &message),
            Outcome::Rejected { code, message } => self.refused(answered, code, &message),
        }
    }

    /// What the answer says about the backend's state.
    fn observe(&mut self, outcome: &Outcome, sent: Instant, beside: usize, bytes: usize) {
        let now = Instant::now();
        self.parts.stats.latency.observe(now.duration_since(sent));
        let verdict = match outcome {
            Outcome::Retry { kind: RetryKind::Unreachable, .. } => return self.concurrency.unreachable(),
            Outcome::Retry { kind: RetryKind::Ours, .. } => return,
            Outcome::Retry { kind: RetryKind::Silent, .. } => Verdict::Silent,
            Outcome::Retry { kind: RetryKind::Answered, .. } => Verdict::Refused,
            Outcome::Delivered { .. } | Outcome::TooLarge { .. } | Outcome::Rejected { .. } => Verdict::Taken,
        };
        self.concurrency.answered(sent, now, verdict, beside, bytes);
        if verdict == Verdict::Taken {
            self.retries.taken(now);
            self.pace.succeeded();
        }
        if verdict != Verdict::Silent && self.pace.reached() {
            tracing::info!(pipeline = self.account().id, "backend can be reached again");
        }
    }

    fn delivered(&mut self, batch: &Batch, rejected: u64, message: &str) {
        self.account().share.progressed();
        self.parked.hurry_next(Instant::now());
        if let Some(first) = batch.pieces.first() {
            self.account().delivered_after(first.since.elapsed());
        }
        self.bisect.delivered();
        let entered = finish(&batch.pieces, &Fate::Delivered);
        if rejected > 0 {
            self.account().books.correct_partial(rejected.min(entered));
        }
        if (rejected > 0 || !message.is_empty()) && self.pace.may_report_loss(Instant::now()) {
            let pipeline = &self.account().id;
            tracing::warn!(pipeline, rejected, cause = message, "backend took a request only in part");
        }
    }

    fn retry(&mut self, mut batch: Batch, kind: RetryKind, hint: Option<Duration>, message: &str) {
        Stats::add(&self.parts.stats.retries, 1);
        let now = Instant::now();
        self.complain(kind, message, now);
        self.pace.failed(hint, now);
        batch.attempts = batch.attempts.saturating_add(1);
        batch.not_before = hint.map(|hint| now + hint.min(pace::HINT_MAX));
        if hint.is_none() {
            // With a hint it stays with the batch, which waits that long: by way of the backlog it would be sent at once.
            batch.came_back();
        }
        if batch.still_owed() {
            // What could not be sent at all waits for the gate, not for a backoff of its own.
            let due = match kind {
                RetryKind::Unreachable => now,
                RetryKind::Silent | RetryKind::Answered | RetryKind::Ours => {
                    now + self.pace.retry_delay(batch.attempts, hint, self.draining.is_some())
                }
            };
            self.parked.park(batch, due);
        }
    }

    fn complain(&mut self, kind: RetryKind, cause: &str, now: Instant) {
        let pipeline = self.parts.crew.account.id.as_str();
        if kind == RetryKind::Unreachable {
            if self.pace.cannot_reach(now) {
                tracing::warn!(pipeline, cause, "backend cannot be reached; data is kept and tried again");
            }
        } else if self.pace.may_complain(now) {
            let parked = self.parked.len() + 1;
            tracing::warn!(pipeline, cause, parked, "backend does not take data now; it is kept and tried again");
        }
    }

    /// The backend takes smaller requests than this: learn that, and send the batch in two.
    fn too_large(&mut self, answered: Answered, message: &str) {
        let bytes = answered.batch.bytes;
        let learned = (bytes / 2).max(MIN_BATCH_BYTES);
        if learned < self.batch_bytes {
            let pipeline = &self.account().id;
            let cause = message;
            tracing::warn!(pipeline, bytes, learned, cause, "backend found a request too large; sending less at once");
            self.batch_bytes = learned;
            self.account().takes_at_most(learned);
        }
        self.split(answered, "too_large", message);
    }

    /// The backend does not want the batch: find out which items it means, unless it refuses everything.
    fn refused(&mut self, answered: Answered, code: String, message: &str) {
        let pieces = answered.batch.pieces.len();
        let items = answered.batch.items();
        match self.bisect.verdict(&code, pieces, items) {
            bisect::Verdict::Split => self.split(answered, &code, message),
            bisect::Verdict::Reject => self.reject(answered, code, message),
        }
    }

    /// Sends the batch again in two halves.
    fn split(&mut self, answered: Answered, code: &str, message: &str) {
        let Answered { mut batch, bodies } = answered;
        if batch.pieces.len() == 1 {
            match split_piece(&batch.pieces[0], &bodies[0], &self.parts.budget) {
                Split::Halves(pieces) => batch.pieces = pieces,
                Split::SingleItem => return self.reject(Answered { batch, bodies }, code.to_owned(), message),
                Split::NoMemory => return self.retry(batch, RetryKind::Ours, None, "no memory to split a request"),
            }
        }
        let second = batch.pieces.split_off(batch.pieces.len().div_ceil(2));
        for mut half in [batch, self.batch(second)] {
            half.came_back();
            if half.still_owed() {
                // Due since it arrived: one batch is taken apart to the end before the next one is begun.
                let since = half.pieces[0].since;
                self.parked.park(half, since);
            }
        }
    }

    fn reject(&mut self, answered: Answered, code: String, message: &str) {
        let Answered { batch, bodies } = answered;
        let items = batch.items();
        if self.pace.may_report_loss(Instant::now()) {
            let pipeline = &self.account().id;
            tracing::warn!(pipeline, code, cause = message, items, "backend refused data for good");
        }
        self.account().share.progressed();
        self.sample(&code, message, items, bodies.first());
        finish(&batch.pieces, &Fate::Rejected(code));
    }

    /// Keeps what was refused for the user to look at.
    fn sample(&self, code: &str, message: &str, items: u64, body: Option<&Bytes>) {
        let at_ms = self.parts.clock.now_ms();
        let body = body.map(AsRef::as_ref).unwrap_or_default();
        self.parts.stats.samples.push(Sample::new(at_ms, code, message, items, body));
    }
}

/// How many items were entered in the books: not those that had been given up while they were on the wire.
fn finish(pieces: &[Piece], fate: &Fate) -> u64 {
    pieces.iter().filter(|piece| piece.obligation.finish(fate)).map(|piece| piece.obligation.items()).sum()
}

/// What came of an attempt to split a piece.
enum Split {
    Halves(Vec<Piece>),
    SingleItem,
    NoMemory,
}

/// The two halves of a piece with these bytes; none when it is not owed any more.
fn split_piece(piece: &Piece, body: &Bytes, budget: &Budget) -> Split {
    if !piece.obligation.is_owed() {
        return Split::Halves(Vec::new());
    }
    let Some((first, second)) = weir_otlp::halve(piece.obligation.signal(), body) else { return Split::SingleItem };
    let paid = [&first, &second].map(|part| budget.pay_for_copy(body, part.bytes.clone()));
    let [Some(first_bytes), Some(second_bytes)] = paid else { return Split::NoMemory };
    let halves = [(first_bytes, u64::from(first.items)), (second_bytes, u64::from(second.items))];
    let halves = piece.obligation.split(halves).into_iter();
    Split::Halves(halves.map(|obligation| Piece { obligation, since: piece.since }).collect())
}
