//! A backend that does what the script says.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use super::payload;
use crate::export::{About, Backend, Outcome, RetryKind};

/// Every span whose id is a multiple of this is refused as invalid, by every backend, always.
const POISON: u64 = 97;

pub(super) fn is_poison(id: u64) -> bool {
    id.is_multiple_of(POISON)
}

/// How a backend behaves for a while.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mood {
    Well,
    /// Answers after this long.
    Slow(Duration),
    /// Asks to try again, this often in a hundred, sometimes with a hint.
    Moody(u8),
    /// Takes the data, and the answer is lost, this often in a hundred.
    Forgetful(u8),
    /// No connection.
    Gone,
    /// Never answers.
    Silent,
    /// Takes only requests up to this size.
    Narrow(usize),
    /// Refuses everything, and says that it is about this.
    Closed(About),
    /// Fails without saying why, this often in a hundred.
    Broken(u8),
}

/// A backend, as it outlives the processes that send to it.
#[derive(Debug, Clone)]
pub(super) struct Scripted {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    mood: Mood,
    dice: fastrand::Rng,
    arrived: HashMap<u64, u32>,
}

impl Scripted {
    pub(super) fn new(seed: u64) -> Self {
        let state = State { mood: Mood::Well, dice: fastrand::Rng::with_seed(seed), arrived: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn become_(&self, mood: Mood) {
        self.lock().mood = mood;
    }

    pub(super) fn change_mood(&self) {
        let mut state = self.lock();
        let dice = &mut state.dice;
        let mood = match dice.u8(..15) {
            0..4 => Mood::Well,
            4 => Mood::Slow(Duration::from_millis(dice.u64(10..8_000))),
            5 | 6 => Mood::Moody(dice.u8(10..95)),
            7 => Mood::Moody(100),
            8 => Mood::Forgetful(dice.u8(10..60)),
            9 => Mood::Gone,
            10 => Mood::Silent,
            11 => Mood::Closed([About::Data, About::Size, About::Unclear, About::Access][dice.usize(..4)]),
            12 => Mood::Broken(dice.u8(5..90)),
            _ => Mood::Narrow(dice.usize(15_000..60_000)),
        };
        state.mood = mood;
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.lock().arrived.contains_key(&id)
    }

    /// Deliveries beyond the first of each span.
    pub(super) fn duplicates(&self) -> u64 {
        self.lock().arrived.values().map(|count| u64::from(count - 1)).sum()
    }

    async fn answer(&self, bodies: Vec<Bytes>) -> Outcome {
        let (mood, percent, latency) = {
            let mut state = self.lock();
            (state.mood, state.dice.u8(..100), Duration::from_micros(state.dice.u64(100..20_000)))
        };
        match mood {
            Mood::Gone => return retry(RetryKind::Unreachable, None),
            Mood::Silent => {
                tokio::time::sleep(Duration::from_secs(30)).await;
                return retry(RetryKind::Silent, None);
            }
            Mood::Slow(latency) => tokio::time::sleep(latency).await,
            _ => tokio::time::sleep(latency).await,
        }
        match mood {
            Mood::Moody(share) if percent < share => {
                let hint = percent.is_multiple_of(5).then(|| Duration::from_secs(u64::from(percent) / 10));
                retry(RetryKind::Answered, hint)
            }
            Mood::Closed(about) => Outcome::refused(about, "401", "scripted"),
            Mood::Broken(share) if percent < share => Outcome::refused(About::Unclear, "500", "scripted"),
            Mood::Narrow(limit) if bodies.iter().map(Bytes::len).sum::<usize>() > limit => {
                Outcome::refused(About::Size, "too_large", "too large")
            }
            _ => {
                let outcome = self.take(&bodies);
                let forgotten = matches!(mood, Mood::Forgetful(share) if percent < share);
                if forgotten { retry(RetryKind::Answered, None) } else { outcome }
            }
        }
    }

    fn take(&self, bodies: &[Bytes]) -> Outcome {
        let ids = payload::decode(bodies);
        if ids.iter().any(|id| is_poison(*id)) {
            return Outcome::refused(About::Data, "INVALID_ARGUMENT", "poison");
        }
        let mut state = self.lock();
        for id in ids {
            *state.arrived.entry(id).or_default() += 1;
        }
        Outcome::Delivered { rejected: 0, message: String::new() }
    }
}

fn retry(kind: RetryKind, hint: Option<Duration>) -> Outcome {
    Outcome::Retry { kind, hint, message: "scripted".into() }
}

impl Backend for Scripted {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(self.answer(bodies))
    }
}
