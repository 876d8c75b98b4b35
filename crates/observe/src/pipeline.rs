//! One pipeline: when it is in trouble, and when that is over.
//!
//! Each trouble is true or not at a look. It is told as long as it was true within the last looks ([`Seen::hold`]), and
//! the worst of those that are told counts. Nothing else is remembered of states.

use std::collections::VecDeque;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use crate::look::{Backend, Input, Look, Moment, Waiting};
use crate::verdict::{Amounts, Kept, Roles, State, Trouble, Verdict};

/// Fewer items, or requests, are no trouble.
const LEAST: u64 = 3;
/// A share of lost items, in percent, that is one.
const LOST: u64 = 1;
/// A share of items that the backend refuses although it may get them again.
const REFUSED: u64 = 10;
/// A share of what arrives that has to wait.
const GROWTH: u64 = 10;
/// A share of the room that is taken.
const NEARLY_FULL: u64 = 80;
/// A share of the requests of clients that are asked to come again.
const TURNED_AWAY: u64 = 5;
/// Looks in a row after which something is no coincidence.
const IN_A_ROW: u32 = 3;
/// So many looks of the last six at which a backend refuses much are none either: of few requests, the share that is
/// refused is another one at each look.
const OFTEN: u32 = 4;
/// It is told as long as there are so many.
const A_FEW: u32 = 2;

/// How much time things take, as a number of looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rhythm {
    every: Duration,
}

impl Rhythm {
    /// With a look so often.
    pub fn of(every: Duration) -> Self {
        Self { every }
    }

    /// What counts as now, and how long nothing may be delivered.
    pub fn recent(self) -> Duration {
        3 * self.every
    }

    /// How long a trouble is told after it was true last, unless it has come back soon after an end.
    pub fn hold(self) -> Duration {
        5 * self.every
    }

    /// Looks are never exactly so far apart: what should have been so long ago at one is, a little earlier.
    fn slack(self) -> Duration {
        self.every / 2
    }

    /// What counts as lately, for pipelines that have little to do.
    pub fn long(self) -> Duration {
        60 * self.every
    }
}

/// The figures of a look that others are compared with.
#[derive(Debug, Clone, Copy, Default)]
struct Figures {
    at: Moment,
    accepted: u64,
    items: u64,
    bytes: u64,
    oldest: Duration,
    /// Bytes of all pipelines on the disk.
    on_disk: Option<u64>,
    /// All of them, since the start.
    amounts: Amounts,
    inputs: [Input; 2],
}

impl Figures {
    fn of(at: Moment, look: &Look) -> Self {
        let amounts = Amounts {
            delivered: look.delivered,
            dropped: look.dropped,
            rejected: look.rejected,
            before_books: look.before_books,
            refused: look.refused,
            requests: look.clients.requests,
            turned_away: look.clients.turned_away.all(),
            turned_away_for: look.clients.turned_away,
        };
        let inputs = [look.inputs.pushed, look.inputs.collected];
        let Waiting { items, bytes, oldest, disk, .. } = look.waiting;
        let on_disk = disk.map(|disk| disk.kept_bytes);
        Self { at, accepted: look.accepted, items, bytes, oldest, on_disk, amounts, inputs }
    }

    /// Time from earlier ones to these.
    fn after(&self, earlier: &Self) -> Duration {
        self.at.since_start.saturating_sub(earlier.at.since_start)
    }

    /// What happened since earlier ones. Some counts begin again when a pipeline returns.
    fn amounts_since(&self, earlier: &Self) -> Amounts {
        let (now, before) = (self.amounts, earlier.amounts);
        Amounts {
            delivered: now.delivered.saturating_sub(before.delivered),
            dropped: now.dropped.saturating_sub(before.dropped),
            rejected: now.rejected.saturating_sub(before.rejected),
            before_books: now.before_books.since(before.before_books),
            refused: now.refused.saturating_sub(before.refused),
            requests: now.requests.saturating_sub(before.requests),
            turned_away: now.turned_away.saturating_sub(before.turned_away),
            turned_away_for: now.turned_away_for.since(before.turned_away_for),
        }
    }
}

/// A trouble that was true.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The last time that it was.
    last: Duration,
    /// How long it is told after that.
    hold: Duration,
}

impl Seen {
    /// True at `now`, and maybe `before`; `is_back`: its end was told since.
    ///
    /// What comes back soon after its end was not over. It is told then until it has stayed away for twice as long: of data
    /// that comes every minute, a share that is lost is told all the time, and not anew each minute.
    fn at(now: Duration, before: Option<Self>, is_back: bool, rhythm: Rhythm) -> Self {
        let hold = match before {
            Some(before) if before.is_told(now) => before.hold,
            Some(before) if is_back && now - before.last < rhythm.long() => {
                rhythm.long().min(2 * (now - before.last)) - rhythm.slack()
            }
            _ => rhythm.hold() - rhythm.slack(),
        };
        Self { last: now, hold }
    }

    fn is_told(self, now: Duration) -> bool {
        now - self.last < self.hold
    }
}

/// What is remembered of a pipeline.
#[derive(Debug)]
pub(crate) struct Pipeline {
    rhythm: Rhythm,
    /// The looks that count as now, and the one before them.
    recent: VecDeque<Figures>,
    /// Where the last long time began, and the one before it.
    long: [Figures; 2],
    /// When something was delivered last, or the first look.
    delivered: Figures,
    has_delivered: bool,
    /// At the last look, nothing had been delivered for a while by a backend that asks for time.
    was_put_off: bool,
    /// When a backend took something that had been asking for time since, or that takes only a part of what arrives.
    slow_at: Option<Duration>,
    /// When data came from clients last, and from an agent.
    came_at: [Option<Duration>; 2],
    /// Of each look at which the backend had been sent something, a bit: whether it had refused much of that. The last
    /// look is the lowest bit.
    refusing: u8,
    /// Looks in a row, of those at which something was delivered, at which more waited than before.
    growing: u32,
    /// Each trouble that was true, in the order of [`State::TROUBLES`].
    seen: [Option<Seen>; State::TROUBLES.len()],
    /// Where the trouble that is told began.
    began: Option<Figures>,
    /// When the backend's words were taken down, and what they were about.
    words: Option<(Duration, Discriminant<Backend>)>,
    verdict: Verdict,
}

impl Pipeline {
    /// After the first look at it.
    pub(crate) fn new(rhythm: Rhythm, at: Moment, look: &Look) -> Self {
        let figures = Figures::of(at, look);
        let roles = Roles { gateway: look.inputs.pushed != Input::Off, agent: look.inputs.collected != Input::Off };
        Self {
            rhythm,
            recent: VecDeque::from([figures]),
            long: [figures; 2],
            delivered: figures,
            has_delivered: false,
            was_put_off: false,
            slow_at: None,
            came_at: [None; 2],
            refusing: 0,
            growing: 0,
            seen: [None; State::TROUBLES.len()],
            began: None,
            words: None,
            verdict: Verdict { roles, ..Verdict::default() },
        }
    }

    pub(crate) fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Takes another look.
    pub(crate) fn look(&mut self, at: Moment, look: &Look) {
        let now = Figures::of(at, look);
        self.follow(&now, look);
        let is_true = self.troubles(&now, look);
        for (index, _) in is_true.iter().enumerate().filter(|(_, is_true)| **is_true) {
            self.seen[index] = Some(self.seen_at(at.since_start, index));
        }
        let is_told = |seen: &Option<Seen>| seen.is_some_and(|seen| seen.is_told(at.since_start));
        // Where nothing is delivered, whatever is wrong now is to be said, though worse was wrong before.
        let is_without =
            State::TROUBLES.iter().zip(is_true).any(|(state, is_true)| is_true && state.delivers_nothing());
        let with_truth = |index: usize| (State::TROUBLES[index], is_true[index] || is_without);
        self.conclude(self.seen.iter().rposition(is_told).map(with_truth), &now, look);
        if self.verdict.trouble.as_ref().is_some_and(|trouble| trouble.is_of_agent()) {
            self.verdict.roles = Roles { gateway: false, agent: true };
        }
    }

    /// A trouble that is true `now`.
    fn seen_at(&self, now: Duration, index: usize) -> Seen {
        let (state, before) = (State::TROUBLES[index], self.seen[index]);
        // It is not back where something worse was told in between, nor that nothing is delivered where something was.
        let is_milder = self.verdict.state() < state;
        let is_another = |before: Seen| state.delivers_nothing() && self.delivered.at.since_start > before.last;
        let is_back = is_milder && !before.is_some_and(is_another);
        Seen::at(now, before, is_back, self.rhythm)
    }

    /// Notes what happened since the last look.
    fn follow(&mut self, now: &Figures, look: &Look) {
        let before = self.recent.back().copied().unwrap_or_default();
        let step = now.amounts_since(&before);
        if step.delivered > 0 {
            (self.delivered, self.has_delivered) = (*now, true);
            for (seen, _) in self.seen.iter_mut().zip(State::TROUBLES).filter(|(_, state)| state.delivers_nothing()) {
                seen.iter_mut().for_each(|seen| seen.hold = self.rhythm.hold() - self.rhythm.slack());
            }
            if self.verdict.state().delivers_nothing() {
                // What was lost until now was told.
                self.recent.clear();
            }
        }
        // Where nothing was tried, nothing is known.
        match step.delivered.saturating_add(step.refused) {
            0 => {}
            tried => self.refusing = self.refusing << 1 | u8::from(is_share(step.refused, tried, REFUSED)),
        }
        let (arrived, more) = (now.accepted.saturating_sub(before.accepted), now.items.saturating_sub(before.items));
        // Where nothing is delivered, that is what is told.
        if step.delivered > 0 {
            let grows = more > 0 && is_share(more, arrived, GROWTH);
            self.growing = if grows { self.growing.saturating_add(1) } else { 0 };
            if self.was_put_off || (self.growing >= IN_A_ROW && look.backend.asks_for_time()) {
                self.slow_at = Some(now.at.since_start);
            }
        }
        self.was_put_off = look.backend.asks_for_time() && self.is_stuck(now);
        self.concern(&before, now);
        self.recent.push_back(*now);
        while self.recent.get(1).is_some_and(|second| now.after(second) + self.rhythm.slack() >= self.rhythm.recent()) {
            self.recent.pop_front();
        }
        if now.after(&self.long[1]) >= self.rhythm.long() {
            self.long = [self.long[1], *now];
        }
    }

    /// Notes whose data comes. What waits is of those whose data came last.
    fn concern(&mut self, before: &Figures, now: &Figures) {
        for (index, came_at) in self.came_at.iter_mut().enumerate() {
            if flows(before.inputs[index], now.inputs[index]) {
                *came_at = Some(now.at.since_start);
            }
        }
        // What is lost before it comes into the books was an agent's to collect.
        if now.amounts_since(before).before_books.items > 0 {
            let [_, collected] = &mut self.came_at;
            *collected = Some(now.at.since_start);
        }
        let long = self.rhythm.long() - self.rhythm.slack();
        let lately = |at: Option<Duration>| at.is_some_and(|at| now.at.since_start - at < long);
        let [gateway, agent] = self.came_at.map(lately);
        if gateway || agent {
            self.verdict.roles = Roles { gateway, agent };
        }
    }

    /// Which troubles are true now, in the order of [`State::TROUBLES`].
    fn troubles(&self, now: &Figures, look: &Look) -> [bool; State::TROUBLES.len()] {
        let recent = self.recent.front().map(|first| now.amounts_since(first)).unwrap_or_default();
        let is_loss =
            |of: Amounts| of.lost() >= LEAST && is_share(of.lost(), of.lost().saturating_add(of.delivered), LOST);
        let loses = is_loss(recent) || (recent.lost() > 0 && is_loss(now.amounts_since(&self.long[0])));
        let (is_idle, is_stuck) = (self.is_idle(now), self.is_stuck(now));
        let refuses = matches!(look.backend, Backend::Refuses(_));
        // A backend that asks for time and takes something now and then is slow, and not away.
        let is_lately = |at: Duration| now.at.since_start - at < self.rhythm.long();
        let is_slow = look.backend.asks_for_time() && self.slow_at.is_some_and(is_lately);
        let grows = self.growing >= IN_A_ROW && now.oldest >= self.rhythm.recent();
        [
            self.lacks_room(look.waiting) || grows || (is_stuck && is_slow),
            recent.turned_away >= LEAST && is_share(recent.turned_away, recent.requests, TURNED_AWAY),
            !is_idle && (loses || (self.refuses_much() && recent.refused > 0)),
            is_stuck && !refuses && !is_slow,
            (is_idle && loses) || (is_stuck && refuses),
        ]
    }

    /// Whether nothing was delivered for a while.
    fn is_idle(&self, now: &Figures) -> bool {
        now.after(&self.delivered) + self.rhythm.slack() >= self.rhythm.recent()
    }

    /// Whether nothing was delivered although data waits.
    fn is_stuck(&self, now: &Figures) -> bool {
        self.is_idle(now) && self.waits(now)
    }

    /// Whether a backend to which nothing is delivered may be slow, for all that is known: it asks for time, and took
    /// something in the last minutes. Once something else was wrong with it, that is what is told.
    fn may_be_slow(&self, now: &Figures, look: &Look) -> bool {
        let is_lately = self.has_delivered && now.after(&self.delivered) < self.rhythm.long();
        let before = self.verdict.trouble.as_deref().filter(|trouble| trouble.state == State::NothingDelivered);
        look.backend.asks_for_time() && is_lately && before.is_none_or(|trouble| trouble.may_be_slow)
    }

    /// Whether there is hardly any room left for what waits: until the pipeline's own limit, or on a disk that may be
    /// full before. All pipelines fill the disk together, and what is delivered at once needs no room there.
    fn lacks_room(&self, waiting: Waiting) -> bool {
        let room = waiting.room_bytes;
        let is_full = room > 0 && is_share(waiting.bytes, room, NEARLY_FULL);
        let is_kept = waiting.items >= LEAST && waiting.oldest >= self.rhythm.recent();
        let scarce = waiting.disk.filter(|disk| is_kept && disk.is_scarce());
        is_full || scarce.is_some_and(|disk| is_share(disk.used_bytes, disk.room_bytes(), NEARLY_FULL))
    }

    /// Whether the backend refuses much of what it is sent, again and again.
    fn refuses_much(&self) -> bool {
        let of_last = |looks: u32| (self.refusing & ((1 << looks) - 1)).count_ones();
        let is_told = self.verdict.state() == State::SomeDropped;
        let begins = of_last(IN_A_ROW) == IN_A_ROW || of_last(6) >= OFTEN;
        of_last(1) == 1 && if is_told { of_last(6) >= A_FEW } else { begins }
    }

    /// Whether data waits that should not. What waited long before the last delivery may be what the backend does not
    /// want: while other data is delivered, that is no trouble.
    fn waits(&self, now: &Figures) -> bool {
        let (recent, long) = (self.rhythm.recent(), self.rhythm.long());
        let unwanted = if self.delivered.oldest >= recent { self.delivered.items } else { 0 };
        let is_much = now.items.saturating_sub(unwanted) >= LEAST && now.oldest >= recent;
        let is_long = now.items > 0 && now.oldest >= long && now.after(&self.delivered) >= long;
        is_much || is_long
    }

    /// Tells the worst trouble, and whether it is true at this look. While it is not, what was said of it stays.
    fn conclude(&mut self, worst: Option<(State, bool)>, now: &Figures, look: &Look) {
        self.verdict.delivers = self.has_delivered && now.after(&self.delivered) < self.rhythm.recent();
        let Some((state, is_true)) = worst else {
            (self.began, self.words, self.verdict.trouble) = (None, None, None);
            return;
        };
        if let (Some(trouble), Some(began)) = (self.verdict.trouble.as_mut(), &self.began)
            && !is_true
            && trouble.state == state
        {
            trouble.kept = kept(now, began, look);
            return;
        }
        let first = self.recent.front().copied().unwrap_or(*now);
        let began = if state.delivers_nothing() { self.delivered } else { first };
        let began = *self.began.insert(match self.began {
            // Nothing is delivered since then, whatever was wrong before.
            Some(_) if state.delivers_nothing() && !self.verdict.state().delivers_nothing() => began,
            Some(before) => before,
            None => began,
        });
        let amounts = now.amounts_since(&began);
        let refuses = amounts.refused > 0 || amounts.rejected > 0;
        let words = self.words(now.at.since_start, look, refuses);
        self.verdict.trouble = Some(Box::new(Trouble {
            state,
            since: began.at.unix_seconds,
            amounts,
            kept: kept(now, &began, look),
            may_be_slow: state == State::NothingDelivered && self.may_be_slow(now, look),
            fails_here: state.delivers_nothing() && matches!(look.backend, Backend::IsNotAsked(_)),
            words,
        }));
    }

    /// The backend's words. Those of the same kind stay for a while: many have a number of their own in each answer. Who
    /// takes what is left between two refusals has said why it `refuses` the rest.
    fn words(&mut self, now: Duration, look: &Look, refuses: bool) -> String {
        let kept = Backend::Refuses(look.last_refusal.clone());
        let is_kept = refuses && look.backend.words().is_empty();
        let backend = if is_kept { &kept } else { &look.backend };
        let (kind, long) = (discriminant(backend), self.rhythm.long());
        let said =
            self.verdict.trouble.as_ref().map(|trouble| trouble.words.as_str()).filter(|words| !words.is_empty());
        let is_same = self.words.is_some_and(|(at, before)| before == kind && now - at < long);
        match said {
            // Between two refusals a backend may take something.
            Some(said) if is_same || backend.words().is_empty() => said.to_owned(),
            _ => {
                self.words = Some((now, kind));
                backend.words().to_owned()
            }
        }
    }
}

/// Whether `part` is so many percent of `whole` at least.
fn is_share(part: u64, whole: u64, percent: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

fn flows(before: Input, now: Input) -> bool {
    match (before, now) {
        (_, Input::Off) => false,
        (_, Input::Steady) => true,
        (Input::Counted(before), Input::Counted(now)) => now > before,
        (Input::Off | Input::Steady, Input::Counted(now)) => now > 0,
    }
}

/// What is kept, and when the first of its limits is reached if it goes on as it did since the trouble began.
fn kept(now: &Figures, began: &Figures, look: &Look) -> Kept {
    let waiting = look.waiting;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let passed = millis(now.after(began));
    // What has grown by `more` since then has `left` to grow.
    let seconds_until = |left: u64, more: u64| {
        let until = (u128::from(left) * u128::from(passed)).checked_div(u128::from(more))?;
        u64::try_from(until / 1000).ok().filter(|_| passed > 0)
    };
    let (more, room) = (now.bytes.saturating_sub(began.bytes), waiting.room_bytes.saturating_sub(waiting.bytes));
    let by_bytes = seconds_until(room, more);
    // As long as nothing is delivered, the oldest is the same, and gets older all the time.
    let is_the_same = now.amounts_since(began).delivered == 0;
    let older = if is_the_same { passed } else { millis(now.oldest.saturating_sub(began.oldest)) };
    let room_time = waiting.room_time.filter(|_| waiting.items > 0);
    let by_age = room_time.and_then(|time| seconds_until(millis(time.saturating_sub(now.oldest)), older));
    // All pipelines fill the disk together.
    let scarce = waiting.disk.filter(|disk| waiting.items > 0 && disk.is_scarce());
    let by_disk = scarce.and_then(|disk| match disk.free_bytes {
        0 => Some(0),
        free => seconds_until(free, disk.kept_bytes.saturating_sub(began.on_disk?)),
    });
    Kept {
        items: waiting.items,
        bytes: waiting.bytes,
        room_bytes: waiting.room_bytes,
        room_seconds: waiting.room_time.map(|time| time.as_secs()),
        disk_free_bytes: waiting.disk.map(|disk| disk.free_bytes),
        disk_is_scarce: waiting.disk.is_some_and(|disk| disk.is_scarce()),
        full_in_seconds: by_bytes.into_iter().chain(by_age).chain(by_disk).min(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So much as docs/self-monitor.md says.
    #[test]
    fn what_is_remembered_of_a_pipeline_takes_little() {
        let rhythm = Rhythm::of(Duration::from_secs(5));
        let mut pipeline = Pipeline::new(rhythm, Moment::default(), &Look::default());
        for number in 1..100 {
            let at = Moment { since_start: rhythm.every * number, unix_seconds: 0 };
            pipeline.look(at, &Look::default());
        }
        let bytes = size_of::<Pipeline>() + pipeline.recent.capacity() * size_of::<Figures>();
        assert!((2_740..2_900).contains(&bytes), "{bytes}, with {} bytes for each look", size_of::<Figures>());
        assert!(size_of::<Trouble>() < 240, "{}", size_of::<Trouble>());
    }
}
