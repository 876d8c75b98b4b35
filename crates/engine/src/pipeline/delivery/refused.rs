//! What follows when a backend does not take a batch, because it refuses it or asks to try again: the batch waits, is
//! taken apart, or is given up. The rules are in `isolation.rs`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weir_otlp::Part;

use super::super::BackendState;
use super::super::Stats;
use super::super::isolation::{Evidence, Step};
use super::super::parked::Batch;
use super::landing::{Answered, finish};
use super::{Delivery, Parts};
use crate::books::{Fate, PARTIAL_SUCCESS};
use crate::export::{About, BackendRefusal, RetryKind, TOO_LARGE};
use crate::obligation::{Obligation, Piece};

/// What an answer says against a batch. It is needed to give an item up: a backend that only asks to try again says
/// nothing of the kind.
#[derive(Clone, Copy)]
struct Charge<'a> {
    about: About,
    code: &'a str,
    message: &'a str,
}

/// A batch that is refused so many times more often than is usual is taken apart if nothing else is there to be sent.
const OFTEN: f64 = 2.0;

impl Answered {
    fn can_be_split(&self) -> bool {
        self.batch.pieces.len() > 1 || self.batch.items() > 1
    }
}

impl Delivery {
    /// The backend asked to try again, or did not answer. A batch that it never takes, although it takes everything
    /// else, is taken apart, so that its neighbours in the request do not wait with it.
    pub(super) fn tried_in_vain(&mut self, mut answered: Answered, kind: RetryKind, hint: Option<Duration>) {
        let step = self.suspect(&mut answered, None, None);
        match step {
            Step::Halve => {
                self.pace.failed(answered.batch.suspicion.says_nothing_of_backend(), hint, Instant::now());
                self.split(answered, None, hint);
            }
            Step::Wait | Step::Reject => self.wait(answered, kind, hint),
        }
    }

    /// The backend refused a batch in words that do not ask for another attempt. Nothing of it is given up unless the
    /// backend takes something else.
    pub(super) fn refused(&mut self, mut answered: Answered, refusal: BackendRefusal) {
        let now = Instant::now();
        let bytes = answered.batch.bytes;
        let about = match refusal.about {
            About::Size if !self.account().request_size.may_be_too_large(bytes) => About::Unclear,
            about => about,
        };
        if refusal.about == About::Size {
            self.learn_size(bytes, &refusal.message, now);
        }
        if refusal.about != About::Size {
            Stats::add(&self.parts.stats.refused_items, answered.batch.items());
            self.parts.stats.backend.refused(&refusal.code, &refusal.message);
        }
        let step = self.suspect(&mut answered, Some(refusal.about), Some(about));
        if self.pace.took_nothing_since(answered.sent) {
            self.judge(&refusal, step, answered.batch.suspicion.has_own_proof(), now);
        }
        let BackendRefusal { code, message, hint, .. } = refusal;
        match step {
            Step::Wait => self.wait(answered, RetryKind::Answered, hint),
            Step::Halve => {
                self.pace.failed(answered.batch.suspicion.says_nothing_of_backend(), hint, now);
                self.split(answered, Some(Charge { about, code: &code, message: &message }), hint);
            }
            Step::Reject if about == About::Size => self.reject(answered, TOO_LARGE.to_owned(), &message),
            Step::Reject => self.reject(answered, code, &message),
        }
    }

    /// Refused data is sent again later. Where there is no place for it, the journal keeps it meanwhile.
    fn wait(&mut self, answered: Answered, kind: RetryKind, hint: Option<Duration>) {
        if self.has_no_place_for(&answered.batch) && self.put_off(&answered, hint) {
            Stats::add(&self.parts.stats.retries, 1);
            return self.pace.failed(answered.batch.suspicion.says_nothing_of_backend(), hint, Instant::now());
        }
        self.retry(answered.batch, kind, hint);
    }

    /// What a refusal says of the batch, and what follows. The proofs are about the words of the answer; what the words
    /// are taken for depends on what else was taken meanwhile.
    fn suspect(&mut self, answered: &mut Answered, words: Option<About>, about: Option<About>) -> Step {
        let can_be_split = answered.can_be_split();
        let (items, attempts, now) = (answered.batch.items(), answered.batch.attempts, Instant::now());
        let is_mixed = can_be_split && self.rates.smaller_pass(items, now);
        let fails_unusually = f64::from(attempts) >= OFTEN * self.rates.attempts_per_success(now);
        let suspicion = &mut answered.batch.suspicion;
        suspicion.refused(words, self.traffic);
        if is_mixed {
            suspicion.excuse_backend();
        }
        if !suspicion.has_own_proof() {
            self.traffic.doubt();
        }
        let evidence = self.evidence(about, can_be_split);
        match answered.batch.suspicion.step(evidence) {
            Step::Wait if is_mixed => Step::Halve,
            Step::Wait if can_be_split && self.is_halved_without_proof(&answered.batch, fails_unusually) => Step::Halve,
            step => step,
        }
    }

    /// Whether a batch that could wait is taken apart all the same.
    fn is_halved_without_proof(&mut self, batch: &Batch, fails_unusually: bool) -> bool {
        let (is_probing, nothing_else_leaves) = (self.pace.is_probing(), !self.has_fresh());
        // Where nothing else can leave, nothing else can be taken either. Then the neighbours have to show whether it is
        // this batch.
        let neighbours_decide = batch.pieces.len() > 1 && is_probing && nothing_else_leaves;
        // Otherwise a few may be taken apart, in case everything that is asked with has something in it that is
        // refused.
        let may_be_one_of_few = is_probing || (fails_unusually && nothing_else_leaves);
        self.needs_room(batch) || neighbours_decide || (may_be_one_of_few && self.probes.may_split())
    }

    fn evidence(&self, about: Option<About>, can_be_split: bool) -> Evidence {
        Evidence { about, can_be_split, doubt: self.traffic.is_in_doubt(), usual_streak: self.pace.usual_streak() }
    }

    /// What a refusal says of a backend that took nothing after it was sent this batch. `has_own_proof`: others passed
    /// where this batch did not, so the batch alone may be the cause, whatever the answer is about.
    fn judge(&mut self, refusal: &BackendRefusal, step: Step, has_own_proof: bool, now: Instant) {
        let BackendRefusal { about, code, message, hint } = refusal;
        match about {
            About::Access => {
                if !has_own_proof {
                    self.pace.shut_out(*hint, now);
                    self.concurrency.unreachable();
                }
                self.stands(BackendState::Refused, code, message, now);
            }
            About::Unclear => self.complain(RetryKind::Answered, &refusal.cause(), now),
            // It may be this batch alone, as long as it can be taken apart.
            About::Data | About::Size if step == Step::Wait || self.pace.is_probing() => {
                self.stands(BackendState::Refused, code, message, now);
            }
            About::Data | About::Size => {}
        }
    }

    fn learn_size(&mut self, bytes: usize, message: &str, now: Instant) {
        let account = self.account();
        if let Some(learned) = account.request_size.refused(bytes, now) {
            let (pipeline, cause) = (&account.id, message);
            tracing::info!(%pipeline, bytes, learned, cause, "backend found a request too large; sending less at once");
        }
    }

    /// Sends the batch again in two halves, not before `hint`, unless the refusal says nothing of the backend.
    fn split(&mut self, answered: Answered, charge: Option<Charge<'_>>, hint: Option<Duration>) {
        let Answered { mut batch, bodies, sent, number } = answered;
        let suspicion = batch.suspicion.of_parts();
        let asked = hint.filter(|_| !batch.suspicion.says_nothing_of_backend());
        if batch.pieces.len() == 1 {
            if self.room() <= self.places_for_fresh() / 2 {
                // Its parts would need more places than there are, or the last ones.
                return self.wait(Answered { batch, bodies, sent, number }, RetryKind::Answered, hint);
            }
            match split_piece(&batch.pieces[0], &bodies[0], &self.parts) {
                Split::Halves(pieces) => batch.pieces = pieces,
                Split::SingleItem => {
                    return self.alone(Answered { batch, bodies, sent, number }, charge, hint);
                }
                Split::NoMemory => return self.retry(batch, RetryKind::Ours, hint),
            }
        }
        tracing::debug!(
            pipeline = %self.account().id,
            items = batch.items(),
            bytes = batch.bytes,
            "a request is sent again in two halves"
        );
        let second = batch.pieces.split_off(batch.pieces.len().div_ceil(2));
        let not_before = asked.map(|hint| Instant::now() + self.pace.asked(hint));
        batch.attempts = 0;
        for mut half in [batch, self.batch(second)] {
            (half.suspicion, half.not_before) = (suspicion, not_before);
            if not_before.is_none() {
                // With a hint it stays here, as in `retry`. From the backlog it would be sent at once.
                half.came_back();
            }
            if half.still_owed() {
                // It is due since it arrived: one batch is taken apart to the end before the next one is begun.
                let since = half.pieces[0].since();
                self.parked.park(half, not_before.unwrap_or(since));
            }
        }
    }

    /// What was to be halved is a single item, although it counts as more.
    fn alone(&mut self, mut answered: Answered, charge: Option<Charge<'_>>, hint: Option<Duration>) {
        let evidence = self.evidence(charge.map(|charge| charge.about), false);
        match (answered.batch.suspicion.step(evidence), charge) {
            (Step::Reject, Some(Charge { code, message, .. })) => self.reject(answered, code.to_owned(), message),
            _ => self.retry(answered.batch, RetryKind::Answered, hint),
        }
    }

    fn reject(&mut self, answered: Answered, code: String, message: &str) {
        let Answered { batch, bodies, .. } = answered;
        let items = batch.items();
        // Whatever was found out need not be paid for again, so the search may go on.
        self.retries.taken(Instant::now());
        self.account().share.progressed();
        self.sample(&code, message, items, bodies.first());
        finish(&batch.pieces, &Fate::Rejected { code, cause: message.to_owned() });
    }

    /// Keeps what was refused for the user to look at.
    fn sample(&self, code: &str, message: &str, items: u64, body: Option<&Bytes>) {
        let at_ms = self.parts.clock.now_ms();
        let body = body.map(AsRef::as_ref).unwrap_or_default();
        self.parts.stats.samples.push(at_ms, (code, message), items, body);
    }

    /// Keeps a request of which the backend took all but so many items, without a word which, once a second.
    pub(super) fn sample_of_partial_success(&self, answered: &Answered, rejected: u64, message: &str) {
        let (second, of) = (self.parts.clock.now_ms() / 1000, answered.batch.items());
        // A backend may say any number.
        let rejected = rejected.min(of);
        if rejected > 0 && self.parts.stats.samples.is_due(PARTIAL_SUCCESS, second) {
            let message = format!("{rejected} of {of} items of this request, without a word which: {message}");
            self.sample(PARTIAL_SUCCESS, message.trim_end_matches(": "), rejected, answered.bodies.first());
        }
    }
}

/// What came of an attempt to split a piece.
pub(super) enum Split {
    Halves(Vec<Arc<Obligation>>),
    SingleItem,
    NoMemory,
}

/// The two halves of a piece with these bytes; none when it is not owed any more.
pub(super) fn split_piece(piece: &Arc<Obligation>, body: &Bytes, parts: &Parts) -> Split {
    if !piece.is_owed() {
        return Split::Halves(Vec::new());
    }
    let Some((first, second)) = weir_otlp::halve(piece.signal(), body) else { return Split::SingleItem };
    let make = |part: &Part<'_>| match (part.is_slice(), &parts.crew.account.queue) {
        // What it costs beside its bytes is set aside.
        (true, Some(_)) => Some(part.make()),
        (true, None) => parts.halves.make(part),
        (false, _) => parts.budget.make(part),
    };
    let [Some(first_bytes), Some(second_bytes)] = [&first, &second].map(make) else {
        return Split::NoMemory;
    };
    let half = |body, part: &Part<'_>| Piece { body, items: u64::from(part.items()) };
    Split::Halves(piece.split([half(first_bytes, &first), half(second_bytes, &second)]))
}
