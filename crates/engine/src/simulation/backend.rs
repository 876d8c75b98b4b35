//! A backend that does what the script says.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use super::payload;
use crate::export::{About, Backend, Outcome, RetryKind};

/// Every span whose id is a multiple of this is marked as bad.
const BAD: u64 = 97;
/// Every span whose id is a multiple of this is marked in a way that takes long to find out.
const OBSCURE: u64 = 997;

/// What every backend makes of a marked span, whatever its mood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Refuses requests with it, and says that it is about this.
    Refused(About),
    /// Asks to send requests with it again.
    Later,
    /// Takes the request without it.
    Left,
}

/// By turns.
const BAD_MARKS: [Mark; 4] =
    [Mark::Refused(About::Data), Mark::Left, Mark::Refused(About::Data), Mark::Refused(About::Size)];
const OBSCURE_MARKS: [Mark; 3] = [Mark::Refused(About::Access), Mark::Refused(About::Unclear), Mark::Later];

impl Mark {
    /// Of the span with this id.
    pub(super) fn of(id: u64) -> Option<Self> {
        let turn = |every: u64, marks: &[Self]| {
            let turn = usize::try_from(id / every).unwrap() % marks.len();
            (id > 0 && id.is_multiple_of(every)).then(|| marks[turn])
        };
        turn(OBSCURE, &OBSCURE_MARKS).or_else(|| turn(BAD, &BAD_MARKS))
    }

    /// Of the first so many spans, at most this many are marked so that they must not be given up.
    pub(super) fn kept_among(spans: u64) -> u64 {
        spans / OBSCURE
    }

    /// Whether the span may be given up for what the backend says of it.
    pub(super) fn may_be_rejected(self) -> bool {
        !matches!(self, Self::Later | Self::Refused(About::Access))
    }

    fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Refused(about) => Some(refused(about)),
            Self::Later => Some(retry(RetryKind::Answered, None)),
            Self::Left => None,
        }
    }
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
    /// Refuses this often in a hundred, with words that do not blame the data.
    Broken(About, u8),
}

/// The addresses at which a backend can be reached, each with a mood of its own.
const ADDRESSES: usize = 2;

/// A backend, as it outlives the processes that send to it, at one of its addresses.
#[derive(Debug, Clone)]
pub(super) struct Scripted {
    state: Arc<Mutex<State>>,
    address: usize,
}

#[derive(Debug)]
struct State {
    moods: [Mood; ADDRESSES],
    dice: fastrand::Rng,
    /// How often each id has arrived.
    arrived: Vec<u64>,
    /// It takes marked spans as well that must not be given up.
    relents: bool,
}

impl State {
    fn arrive(&mut self, id: u64) {
        let place = place(id);
        if place >= self.arrived.len() {
            self.arrived.resize(place + 1, 0);
        }
        self.arrived[place] += 1;
    }
}

/// Ids are drawn one after the other, from 0.
fn place(id: u64) -> usize {
    usize::try_from(id).unwrap()
}

impl Scripted {
    pub(super) fn new(seed: u64) -> Self {
        let (moods, dice) = ([Mood::Well; ADDRESSES], fastrand::Rng::with_seed(seed));
        let state = State { moods, dice, arrived: Vec::new(), relents: false };
        Self { state: Arc::new(Mutex::new(state)), address: 0 }
    }

    /// The same at some address.
    pub(super) fn moved(&self) -> Self {
        Self { address: self.lock().dice.usize(..ADDRESSES), ..self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// At all addresses.
    pub(super) fn recover(&self) {
        self.lock().moods = [Mood::Well; ADDRESSES];
    }

    /// From now on it refuses only what is bad.
    pub(super) fn relent(&self) {
        self.lock().relents = true;
    }

    pub(super) fn change_mood(&self) {
        let mut state = self.lock();
        let dice = &mut state.dice;
        let mood = match dice.u8(..16) {
            0..4 => Mood::Well,
            4 => Mood::Slow(Duration::from_millis(dice.u64(10..8_000))),
            5 | 6 => Mood::Moody(dice.u8(10..95)),
            7 => Mood::Moody(100),
            8 => Mood::Forgetful(dice.u8(10..60)),
            9 => Mood::Gone,
            10 => Mood::Silent,
            11 => Mood::Closed([About::Data, About::Size, About::Unclear, About::Access][dice.usize(..4)]),
            12 => Mood::Broken(About::Unclear, dice.u8(5..90)),
            13 => Mood::Broken(About::Access, dice.u8(5..90)),
            _ => Mood::Narrow(dice.usize(15_000..60_000)),
        };
        let address = dice.usize(..ADDRESSES);
        state.moods[address] = mood;
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.lock().arrived.get(place(id)).is_some_and(|times| *times > 0)
    }

    /// Deliveries of spans, those beyond the first included.
    pub(super) fn deliveries(&self) -> u64 {
        self.lock().arrived.iter().sum()
    }

    /// Deliveries beyond the first of each span.
    pub(super) fn duplicates(&self) -> u64 {
        self.lock().arrived.iter().map(|times| times.saturating_sub(1)).sum()
    }

    async fn answer(&self, bodies: Vec<Bytes>) -> Outcome {
        let (mood, percent, latency) = {
            let mut state = self.lock();
            let latency = Duration::from_micros(state.dice.u64(100..20_000));
            (state.moods[self.address], state.dice.u8(..100), latency)
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
            Mood::Closed(about) => refused(about),
            Mood::Broken(about, share) if percent < share => refused(about),
            Mood::Narrow(limit) if bodies.iter().map(Bytes::len).sum::<usize>() > limit => refused(About::Size),
            _ => {
                let outcome = self.take(&bodies);
                let forgotten = matches!(mood, Mood::Forgetful(share) if percent < share);
                if forgotten { retry(RetryKind::Answered, None) } else { outcome }
            }
        }
    }

    fn take(&self, bodies: &[Bytes]) -> Outcome {
        let ids = payload::decode(bodies);
        let mut state = self.lock();
        let stands = |mark: &Mark| !state.relents || mark.may_be_rejected();
        let marks = || ids.iter().filter_map(|id| Mark::of(*id)).filter(stands);
        if let Some(outcome) = marks().find_map(Mark::outcome) {
            return outcome;
        }
        let left = marks().count() as u64;
        for id in ids.into_iter().filter(|id| Mark::of(*id) != Some(Mark::Left)) {
            state.arrive(id);
        }
        Outcome::Delivered { rejected: left, message: String::new() }
    }
}

fn refused(about: About) -> Outcome {
    let code = match about {
        About::Data => "INVALID_ARGUMENT",
        About::Size => "too_large",
        About::Unclear => "500",
        About::Access => "not_otlp",
    };
    Outcome::refused(about, code, "scripted")
}

fn retry(kind: RetryKind, hint: Option<Duration>) -> Outcome {
    Outcome::Retry { kind, hint, message: "scripted".into() }
}

impl Backend for Scripted {
    fn send(&self, bodies: Vec<Bytes>) -> Pin<Box<dyn Future<Output = Outcome> + Send + '_>> {
        Box::pin(self.answer(bodies))
    }
}
