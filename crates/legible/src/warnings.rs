//! How much the log says of many things: thousands of containers or targets may fail at once, for one reason.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many messages of a reason are written in a [`PERIOD`]; the others are counted.
const MOST: u32 = 50;

const PERIOD: Duration = Duration::from_secs(60);

/// Counts messages about things of one kind, for each reason apart, so that none hides another.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<BTreeMap<&'static str, Tally>>);

/// Messages of one reason.
#[derive(Debug)]
struct Tally {
    /// When the first message of this period was written.
    began: Instant,
    said: u32,
    left_out: u64,
    amount: u64,
}

/// Messages of one reason that were not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// What they have in common.
    pub reason: &'static str,
    /// How many they are.
    pub messages: u64,
    /// What they are about, all together, in the unit of whoever counts.
    pub amount: u64,
}

impl Warnings {
    /// Whether a message about so much may be written. If not, it is counted.
    pub fn may_say(&self, reason: &'static str, amount: u64, now: impl Into<Instant>) -> bool {
        self.takes(reason, (1, amount), now.into())
    }

    /// The same of a message that says how many of its own kind had none before it, as [`Seldom`](crate::Seldom) and
    /// [`Unsteady`](crate::Unsteady) hand it out. If it may not be written, these are counted with it.
    pub fn may_say_with(&self, reason: &'static str, left_out: u64, now: impl Into<Instant>) -> bool {
        self.takes(reason, (1 + left_out, 0), now.into())
    }

    /// Counts what is no news, and so has no message, but whose amount the log has to have.
    pub fn leave_out(&self, reason: &'static str, amount: u64, now: impl Into<Instant>) {
        Tally::at(&mut self.lock(), reason, now.into()).leave_out((1, amount));
    }

    /// What was not written in the periods that are over. Says it once.
    pub fn left_out(&self, now: impl Into<Instant>) -> Vec<LeftOut> {
        let now = now.into();
        self.take(|tally| tally.is_over(now))
    }

    /// What was not written so far: nothing follows.
    pub fn all_left_out(&self) -> Vec<LeftOut> {
        self.take(|_| true)
    }

    fn takes(&self, reason: &'static str, left_out: (u64, u64), now: Instant) -> bool {
        let mut tallies = self.lock();
        let tally = Tally::at(&mut tallies, reason, now);
        if tally.said < MOST {
            tally.said += 1;
            return true;
        }
        tally.leave_out(left_out);
        false
    }

    fn take(&self, is_due: impl Fn(&Tally) -> bool) -> Vec<LeftOut> {
        let mut tallies = self.lock();
        let due = tallies.iter_mut().filter(|(_, tally)| tally.left_out > 0 && is_due(tally));
        let left_out = |(reason, tally): (&&'static str, &mut Tally)| LeftOut {
            reason,
            messages: mem::take(&mut tally.left_out),
            amount: mem::take(&mut tally.amount),
        };
        due.map(left_out).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Tally>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    /// That of a reason, in the period that it is now.
    fn at<'a>(tallies: &'a mut BTreeMap<&'static str, Self>, reason: &'static str, now: Instant) -> &'a mut Self {
        let tally = tallies.entry(reason).or_insert(Self { began: now, said: 0, left_out: 0, amount: 0 });
        if tally.is_over(now) {
            (tally.began, tally.said) = (now, 0);
        }
        tally
    }

    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.began) >= PERIOD
    }

    fn leave_out(&mut self, (messages, amount): (u64, u64)) {
        self.left_out += messages;
        self.amount += amount;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LEGIBLE-4, LEGIBLE-5.
    #[test]
    fn what_is_too_much_is_counted_and_said_once() {
        let (warnings, now) = (Warnings::default(), Instant::now());
        assert_eq!((0..1000).filter(|_| warnings.may_say("removed", 7, now)).count(), 50);
        assert_eq!(warnings.left_out(now + PERIOD / 2), [], "there may be more");
        let left_out = LeftOut { reason: "removed", messages: 950, amount: 6650 };
        assert_eq!(warnings.left_out(now + PERIOD), [left_out]);
        assert_eq!(warnings.left_out(now + PERIOD), []);
        assert!(warnings.may_say("removed", 7, now + PERIOD));
    }

    /// LEGIBLE-4: one reason hides no other one.
    #[test]
    fn reasons_are_told_apart() {
        let (warnings, now) = (Warnings::default(), Instant::now());
        assert_eq!((0..51).filter(|_| warnings.may_say("removed", 1, now)).count(), 50);
        assert!(warnings.may_say("unreadable", 1, now));
        warnings.leave_out("stuck", 3, now);
        let left_out = |reason, amount| LeftOut { reason, messages: 1, amount };
        assert_eq!(warnings.all_left_out(), [left_out("removed", 1), left_out("stuck", 3)]);
        assert_eq!(warnings.all_left_out(), []);
    }

    /// LEGIBLE-5: what a message would have said is not lost with it, and what it has said is not said again.
    #[test]
    fn what_was_left_out_before_a_message_is_counted_with_it() {
        let (warnings, now) = (Warnings::default(), Instant::now());
        let (mut seldom, later) = (crate::Seldom::default(), now + PERIOD);
        let says = |left_out: Option<u64>, now: Instant| {
            left_out.filter(|left_out| warnings.may_say_with("silent", *left_out, now))
        };
        let due = [0, 1, 2].map(|second| seldom.due(now + Duration::from_secs(second)));
        assert_eq!(due.map(|left_out| says(left_out, now)), [Some(0), None, None]);
        assert_eq!((1..50).filter(|_| warnings.may_say("silent", 0, later)).count(), 49);
        assert_eq!(says(Some(7), later), Some(7));
        assert_eq!(says(seldom.due(later), later), None);
        assert_eq!(warnings.all_left_out(), [LeftOut { reason: "silent", messages: 3, amount: 0 }]);
        assert_eq!(seldom.due(later + PERIOD), Some(0));
    }

    /// LEGIBLE-5: what goes on for long is told once in a period, not each time that somebody looks.
    #[test]
    fn what_is_no_news_waits_for_the_end_of_its_period() {
        let (warnings, now) = (Warnings::default(), Instant::now());
        for minute in 0..3_u32 {
            let began = now + PERIOD * (2 * minute);
            warnings.leave_out("lost", 5, began);
            assert_eq!(warnings.left_out(began), []);
            assert_eq!(warnings.left_out(began + PERIOD), [LeftOut { reason: "lost", messages: 1, amount: 5 }]);
        }
    }
}
