//! Pipelines that are looked at every 5 s, by tables and by chance. No clock is read.

mod said;

use std::time::Duration;

use proptest::prelude::*;
use weir_plan::{PipelineId, Signal};

use crate::{
    Backend, BeforeBooks, Change, Disk, EarlyLoss, Input, Look, Moment, Monitor, Rhythm, Roles, State, Trouble, message,
};

const EVERY: Duration = Duration::from_secs(5);
/// A trouble that lasts is told after so many looks.
const TOLD: usize = 6;
/// And its end.
const OVER: usize = 9;
/// And that of one that came back soon after an end.
const OVER_FOR_GOOD: usize = 63;
/// The first second of all cases.
const UNIX: u64 = 1_790_000_000;

/// What happens between two looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// All of so many items are delivered.
    Delivers(u64),
    /// Of so many items, so many are lost, and the others are delivered.
    Loses(u64, u64),
    /// So many items are delivered, and so many more are lost before they come into the books.
    LosesEarly(u64, u64),
    /// Of so many items, the backend refuses so many at first.
    Refuses(u64, u64),
    /// So many wait for a backend that is away.
    Waits(u64),
    /// So many wait for a backend that is not asked.
    IsNotAsked(u64),
    /// So many wait for a backend that refuses everything.
    IsRefused(u64),
    /// So many wait for a backend that asks for time.
    IsAskedForTime(u64),
    /// Of so many, so many wait, and the others are delivered.
    Grows(u64, u64),
    /// The same with a backend that asks for time in between.
    TakesLittle(u64, u64),
    /// All of so many requests are answered, but so many of them with no.
    TurnsAway(u64, u64),
    Nothing,
}

use Does::{
    Delivers, Grows, IsAskedForTime, IsNotAsked, IsRefused, Loses, LosesEarly, Nothing, Refuses, TakesLittle,
    TurnsAway, Waits,
};

/// A pipeline, and who looks at it.
struct Case {
    monitor: Monitor,
    id: PipelineId,
    looks: u32,
    look: Look,
    /// Looks since the oldest arrived.
    waited: u32,
    changes: Vec<Change>,
}

impl Case {
    fn new() -> Self {
        let id = PipelineId::new(Signal::Traces, "shop");
        let mut look = Look::default();
        (look.waiting.room_bytes, look.waiting.room_time) = (1 << 30, Some(Duration::from_secs(86_400)));
        look.inputs.pushed = Input::Counted(0);
        let (monitor, changes) = (Monitor::new(Rhythm::of(EVERY)), Vec::new());
        let mut case = Self { monitor, id, looks: 0, look, waited: 0, changes };
        case.see();
        case
    }

    /// What is seen after something happened.
    fn after(&mut self, does: Does) -> State {
        let look = &mut self.look;
        let (mut arrives, mut delivers) = (0, 0);
        look.backend = Backend::Takes;
        match does {
            Nothing => {}
            Delivers(items) => (arrives, delivers) = (items, items + look.waiting.items),
            Loses(items, lost) => {
                (arrives, delivers) = (items, items - lost);
                look.rejected += lost;
            }
            LosesEarly(items, lost) => {
                (arrives, delivers) = (items, items);
                let items = look.before_books.items + lost;
                look.before_books = BeforeBooks { items, last: EarlyLoss::Removed };
            }
            Refuses(items, refused) => {
                (arrives, delivers) = (items, items);
                look.refused += refused;
            }
            Waits(items) => (arrives, look.backend) = (items, Backend::IsAway("connection refused".into())),
            IsNotAsked(items) => (arrives, look.backend) = (items, Backend::IsNotAsked("not asked: no token".into())),
            IsAskedForTime(items) => (arrives, look.backend) = (items, Backend::AsksForTime("503".into())),
            IsRefused(items) => {
                (arrives, look.backend) = (items, Backend::Refuses("401: no".into()));
                look.refused += 64;
            }
            Grows(items, wait) => (arrives, delivers) = (items, items - wait),
            TakesLittle(items, wait) => {
                (arrives, delivers) = (items, items - wait);
                look.backend = Backend::AsksForTime("503".into());
            }
            TurnsAway(requests, turned_away) => {
                (arrives, delivers) = (requests, requests);
                look.clients.requests += requests;
                look.clients.turned_away.no_memory += turned_away;
            }
        }
        let lost = if let Loses(_, lost) = does { lost } else { 0 };
        let before = look.waiting.items;
        look.accepted += arrives;
        look.delivered += delivers;
        look.waiting.items = (before + arrives).saturating_sub(delivers + lost);
        look.waiting.bytes = 1000 * look.waiting.items;
        // What begins to wait does so a moment after the last look.
        self.waited = if look.waiting.items == 0 { 0 } else { self.waited + 1 };
        look.waiting.oldest = (EVERY * self.waited).saturating_sub(Duration::from_secs(1));
        look.inputs.pushed = Input::Counted(look.accepted);
        self.see()
    }

    fn see(&mut self) -> State {
        // No two looks are exactly as far apart as two others.
        let late = Duration::from_millis(u64::from(self.looks * 7919 % 90));
        let at = Moment { since_start: EVERY * self.looks + late, unix_seconds: UNIX + 5 * u64::from(self.looks) };
        self.looks += 1;
        self.changes.extend(self.monitor.look(at, &[(self.id.clone(), self.look.clone())]));
        self.state()
    }

    fn again(&mut self, does: Does, times: usize) -> State {
        (0..times).fold(self.state(), |_, _| self.after(does))
    }

    fn state(&self) -> State {
        self.monitor.verdicts().next().unwrap().1.state()
    }

    fn trouble(&self) -> Trouble {
        self.monitor.verdicts().next().unwrap().1.trouble.as_deref().unwrap().clone()
    }

    fn states(&self) -> Vec<State> {
        self.changes.iter().map(|change| change.trouble.as_ref().map_or(State::Healthy, |of| of.state)).collect()
    }
}

/// Nothing is delivered all the time, at first for one reason and then for another.
#[test]
fn the_words_of_a_trouble_are_those_of_now() {
    let mut case = Case::new();
    case.again(Delivers(1000), 10);
    assert_eq!(case.again(IsRefused(1000), TOLD), State::AllDropped);
    let before = case.trouble();
    assert_eq!((before.words.as_str(), case.after(Waits(1000))), ("401: no", State::AllDropped));
    let now = case.trouble();
    assert_eq!((now.words.as_str(), now.since), ("connection refused", before.since));
    assert_eq!(now.kept.items, before.kept.items + 1000);
    assert_eq!(case.again(Waits(1000), OVER), State::NothingDelivered);
}

/// Each trouble after good times, and from the first moment; and its end, after so many looks: what was lost or turned
/// away is of now for two looks more.
#[test]
fn a_trouble_is_told_in_time_and_so_is_its_end() {
    let cases = [
        (Loses(1000, 300), State::SomeDropped, 7),
        (Loses(1000, 1000), State::AllDropped, 5),
        (Loses(20, 5), State::SomeDropped, 7),
        (LosesEarly(1000, 300), State::SomeDropped, 7),
        (LosesEarly(0, 1000), State::AllDropped, 5),
        (Refuses(1000, 430), State::SomeDropped, 5),
        (Waits(1000), State::NothingDelivered, 5),
        (IsNotAsked(1000), State::NothingDelivered, 5),
        (IsAskedForTime(1000), State::NothingDelivered, 5),
        (IsRefused(1000), State::AllDropped, 5),
        (Grows(1000, 900), State::BufferFilling, 5),
        (TurnsAway(100, 20), State::Throttling, 7),
    ];
    for (does, expected, over) in cases {
        for good in [0, 100] {
            let mut case = Case::new();
            assert_eq!(case.again(Delivers(1000), good), State::Healthy);
            assert_eq!(case.again(does, TOLD), expected, "{does:?} after {good}");
            assert_eq!(case.again(does, 500), expected, "{does:?}");
            let (since, began) = (case.trouble().since, UNIX + 5 * good as u64);
            assert!(since.abs_diff(began) <= 15, "{does:?}: {since} and {began}");
            assert_ne!(case.again(Delivers(1000), over - 1), State::Healthy, "{does:?} after {good}: too soon");
            assert_eq!(case.after(Delivers(1000)), State::Healthy, "{does:?} after {good}");
            assert!(case.states().len() <= 3, "{does:?}: {:?}", case.states());
            assert_eq!(case.states().last(), Some(&State::Healthy));
        }
    }
}

/// Where nothing comes after it, what was lost or refused last is of now for as long as that.
#[test]
fn what_nothing_follows_is_over_as_soon_as_what_is_lost() {
    let all = [Loses(1000, 300), Loses(1000, 1000), LosesEarly(1000, 300), Refuses(1000, 430), TurnsAway(100, 20)];
    for does in all {
        let mut case = Case::new();
        case.again(Delivers(1000), 10);
        case.again(does, 10);
        assert_ne!(case.again(Nothing, 6), State::Healthy, "{does:?}: too soon");
        assert_eq!(case.after(Nothing), State::Healthy, "{does:?}");
    }
}

/// What lasts a moment, or is little, is no trouble.
#[test]
fn what_is_no_trouble() {
    let cases: [(&str, &[(Does, usize)]); 12] = [
        ("all is well", &[(Delivers(1000), 1000)]),
        ("nothing comes", &[(Delivers(10), 5), (Nothing, 1000)]),
        ("one item of a million", &[(Delivers(1_000_000), 20), (Loses(1_000_000, 1), 1), (Delivers(1_000_000), 20)]),
        ("one item of few", &[(Delivers(10), 20), (Loses(10, 1), 1), (Delivers(10), 20)]),
        ("one in a million again and again", &[(Loses(1_000_000, 1), 500)]),
        ("two items before the books", &[(Delivers(10), 20), (LosesEarly(10, 2), 1), (Delivers(10), 20)]),
        ("a few of a million before the books", &[(LosesEarly(1_000_000, 100), 500)]),
        ("bad items that are found", &[(Delivers(1000), 20), (Refuses(1000, 900), 2), (Delivers(1000), 20)]),
        ("a backend that starts again", &[(Delivers(1000), 20), (Waits(1000), 2), (Delivers(1000), 20)]),
        ("a backend that is slow for a moment", &[(Delivers(1000), 20), (Grows(1000, 900), 2), (Delivers(1000), 20)]),
        ("a client that is turned away", &[(TurnsAway(1000, 2), 100)]),
        ("two items that wait a while", &[(Delivers(1000), 20), (Waits(1), 2), (Nothing, 20), (Delivers(1), 5)]),
    ];
    for (name, steps) in cases {
        let mut case = Case::new();
        for (does, times) in steps {
            case.again(*does, *times);
        }
        assert_eq!(case.states(), [], "{name}");
    }
}

/// Of few requests the share that is refused differs from look to look. Neither is that told anew each time, nor is a
/// backend in trouble that refuses one of fifty.
#[test]
fn a_share_by_chance_is_told_steadily() {
    const HOUR: usize = 720;
    let mut dice: u64 = 1;
    let mut is_refused = |percent: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % 100 < percent
    };
    for requests in [3, 5, 10, 100] {
        for (percent, most_changes) in [(30, 5), (2, 4)] {
            let mut case = Case::new();
            case.again(Delivers(10 * requests), 20);
            let mut told = 0;
            for _ in 0..HOUR {
                let refused = (0..requests).filter(|_| is_refused(percent)).count() as u64;
                told += usize::from(case.after(Refuses(10 * requests, 10 * refused)) != State::Healthy);
            }
            let changes = case.states().len();
            assert!(changes <= most_changes, "{requests} requests a look, {percent} %: {changes} changes");
            let is_told = if percent == 30 { told * 10 > HOUR * 9 } else { told * 50 < HOUR };
            assert!(is_told, "{requests} requests a look, {percent} %: told at {told} of {HOUR} looks");
        }
    }
}

/// Of what comes every half a minute, or every minute, nobody knows that it cannot be delivered before it comes. From then
/// on it is told as soon as anything is.
#[test]
fn what_comes_seldom_counts_from_its_first_item() {
    for every in [6, 12] {
        for (does, still, expected) in
            [(Waits(1000), Waits(0), State::NothingDelivered), (IsRefused(1000), IsRefused(0), State::AllDropped)]
        {
            let mut case = Case::new();
            for _ in 0..20 {
                case.after(Delivers(1000));
                assert_eq!(case.again(Nothing, every - 1), State::Healthy);
            }
            case.after(does);
            assert_eq!(case.again(still, 2), State::Healthy, "{does:?} every {every} looks: for less than 15 s");
            assert_eq!(case.after(still), expected, "{does:?} every {every} looks: within 20 s");
            for _ in 0..20 {
                case.after(does);
                case.again(still, every - 1);
            }
            assert_eq!(case.states(), [expected], "{does:?} every {every} looks");
        }
    }
}

/// A share that is refused is told at the third time, and one that is lost at the first.
#[test]
fn a_share_of_what_comes_seldom() {
    const EVERY_HALF_MINUTE: usize = 6;
    for (does, told_at) in [(Loses(1000, 300), 1), (Refuses(1000, 430), 3)] {
        let mut case = Case::new();
        for time in 1..50 {
            let expected = if time < told_at { State::Healthy } else { State::SomeDropped };
            assert_eq!(case.after(does), expected, "{does:?}, time {time}");
            assert_eq!(case.again(Nothing, EVERY_HALF_MINUTE - 1), expected, "{does:?}, after time {time}");
        }
    }
}

/// What comes back soon after its end was not over: it is told all the time from then on, and its end is told once.
#[test]
fn a_share_of_what_comes_every_minute_is_told_steadily() {
    const EVERY_MINUTE: usize = 12;
    for does in [Loses(1000, 300), Refuses(1000, 430), TurnsAway(100, 20)] {
        let mut case = Case::new();
        for _ in 0..60 {
            case.after(does);
            case.again(Nothing, EVERY_MINUTE - 1);
        }
        let told = *case.states().first().unwrap();
        assert_eq!(case.states(), [told, State::Healthy, told], "{does:?}: told, over once, and told for good");
        // It was away for 50 s each time, since it was true for the last 15 s.
        let looks = (EVERY_MINUTE..).find(|_| case.after(Nothing) != told).unwrap();
        assert_eq!(looks, 22, "{does:?}: over after 110 s");
        case.again(Delivers(1000), 60);
        case.again(does, TOLD);
        assert_eq!(case.again(Delivers(1000), OVER), State::Healthy, "{does:?}: after a good time all is as at first");
    }
}

/// Where something milder lasts, what comes back is not told anew each time either.
#[test]
fn what_comes_back_beside_a_milder_trouble_is_told_steadily() {
    let mut case = Case::new();
    case.look.waiting.room_bytes = 1;
    for _ in 0..60 {
        case.after(Loses(1000, 300));
        case.again(Grows(1000, 1), 11);
    }
    let told = [State::SomeDropped, State::BufferFilling, State::SomeDropped];
    assert_eq!(case.states(), told);
}

/// The same where all of it is lost, until something is delivered.
#[test]
fn a_loss_of_all_that_comes_every_minute_is_told_steadily() {
    let mut case = Case::new();
    case.again(Delivers(1000), 5);
    for _ in 0..5 {
        case.after(Loses(1000, 1000));
        case.again(Nothing, 11);
    }
    let told = [State::SomeDropped, State::AllDropped, State::Healthy, State::AllDropped];
    assert_eq!(case.states(), told);
    assert_eq!(case.again(Delivers(1000), OVER), State::Healthy);
}

/// A share that is refused before an outage and after it did not come back after its end: it had none.
#[test]
fn what_an_outage_interrupts_ends_as_soon_as_ever() {
    let mut case = Case::new();
    case.again(Refuses(1000, 430), TOLD);
    case.again(IsRefused(1000), 3 * TOLD);
    case.again(Loses(1000, 300), 1);
    assert_eq!(case.again(Delivers(1000), OVER), State::Healthy);
    assert!(!case.states()[..case.states().len() - 1].contains(&State::Healthy));
}

#[test]
fn a_pipeline_with_little_to_do_is_told_of_what_it_loses() {
    let mut case = Case::new();
    for _ in 0..3 {
        case.after(Loses(1, 1));
        case.again(Nothing, 12);
    }
    assert_eq!(case.states().first(), Some(&State::AllDropped));
    let mut case = Case::new();
    case.after(Waits(1));
    assert_eq!(case.again(Nothing, 59), State::Healthy);
    assert_eq!(case.again(Waits(0), 3), State::NothingDelivered, "one item that waits for five minutes");
}

/// What a backend does not want waits, and the rest of what little there is passes.
#[test]
fn data_that_nobody_wants_is_no_outage() {
    let mut case = Case::new();
    case.again(Waits(2), 1);
    for _ in 0..100 {
        (case.look.accepted, case.look.delivered) = (case.look.accepted + 1, case.look.delivered + 1);
        case.again(Nothing, 12);
    }
    assert_eq!(case.states(), []);
    case.again(Waits(10), TOLD);
    assert_eq!(case.state(), State::NothingDelivered);
}

/// One that asks for time and takes nothing is told as one that is away. Once it takes something after that, it is
/// slow, until it has taken nothing for minutes.
#[test]
fn a_backend_that_asks_for_time_is_slow_if_it_takes_something() {
    let mut case = Case::new();
    case.again(Delivers(1000), 10);
    assert_eq!(case.again(IsAskedForTime(1000), TOLD), State::NothingDelivered);
    let said = message(&case.trouble(), "spans");
    assert!(said.starts_with("No spans were delivered since 2026-09-21T14:14:10Z. Nothing is lost."), "{said}");
    let expected = "The backend: 503. Look at the backend: it answers, and is overloaded or not ready. What is kept is \
                    delivered then.";
    assert!(case.trouble().may_be_slow && said.ends_with(expected), "{said}");
    for _ in 0..20 {
        case.after(Grows(1000, 900));
        assert_eq!(case.again(IsAskedForTime(1000), 10), State::BufferFilling);
    }
    assert_eq!(case.states(), [State::NothingDelivered, State::BufferFilling], "nothing flaps");
    assert_eq!(case.again(IsAskedForTime(1000), 66), State::NothingDelivered);
    assert!(!case.trouble().may_be_slow, "it took nothing for minutes");
    let mut case = Case::new();
    assert_eq!(case.again(IsAskedForTime(1000), TOLD), State::NothingDelivered);
    assert!(!case.trouble().may_be_slow, "it never took anything");
}

/// One that is overloaded, and takes nothing then, was slow before. One that takes its time and does not ask for any
/// was not: when it takes nothing any more, that is an outage.
#[test]
fn a_backend_that_is_slow_has_some_time() {
    let mut case = Case::new();
    assert_eq!(case.again(TakesLittle(1000, 900), 20), State::BufferFilling);
    assert_eq!(case.again(IsAskedForTime(1000), 50), State::BufferFilling);
    assert_eq!(case.again(IsAskedForTime(1000), 16), State::NothingDelivered);
    let mut case = Case::new();
    assert_eq!(case.again(Grows(1000, 900), 20), State::BufferFilling);
    assert_eq!(case.again(IsAskedForTime(1000), TOLD), State::NothingDelivered);
}

/// One that throttles for a while, again and again, is told of once as if it was away, and steadily as slow from then
/// on.
#[test]
fn a_backend_that_throttles_now_and_then_is_told_steadily() {
    let mut case = Case::new();
    case.again(Delivers(1000), 20);
    for _ in 0..20 {
        case.again(IsAskedForTime(1000), 5);
        case.again(Delivers(1000), 12);
    }
    let [away, slow, well] = [State::NothingDelivered, State::BufferFilling, State::Healthy];
    assert_eq!(case.states(), [away, well, slow, well, slow]);
    let mut case = Case::new();
    for _ in 0..20 {
        case.again(Delivers(1000), 20);
        case.again(IsAskedForTime(1000), 2);
    }
    assert_eq!(case.states(), [], "for 10 s it is no trouble");
}

/// Whether one that takes nothing may be slow is not told anew with each answer.
#[test]
fn a_backend_with_which_more_is_wrong_is_not_slow() {
    let mut case = Case::new();
    case.again(Delivers(1000), 10);
    case.again(IsAskedForTime(1000), TOLD);
    assert!(case.trouble().may_be_slow);
    for does in [Waits(1000), IsAskedForTime(1000), Waits(1000), IsAskedForTime(1000)] {
        assert_eq!((case.after(does), case.trouble().may_be_slow), (State::NothingDelivered, false), "{does:?}");
    }
}

#[test]
fn a_backlog_that_is_nearly_full() {
    let mut case = Case::new();
    case.again(Delivers(1000), 10);
    case.look.waiting.items = 900_000;
    assert_eq!(case.after(Grows(1000, 0)), State::BufferFilling);
    case.look.waiting.items = 500_000;
    assert_eq!(case.again(Grows(1000, 0), OVER), State::Healthy);
}

/// A disk that may be full before backlogs are is filled by all pipelines, so this one has hardly anything on it.
#[test]
fn a_disk_that_is_nearly_full() {
    const MIB: u64 = 1 << 20;
    let nearly = Disk { free_bytes: 200 * MIB, used_bytes: 800 * MIB, kept_bytes: 900 * MIB, left_bytes: 4096 * MIB };
    let waits = |disk: Disk, items: u64| {
        let mut case = Case::new();
        case.look.waiting.disk = Some(disk);
        case.again(Delivers(1000), 10);
        case.look.waiting.items = items;
        case.again(Grows(1000, 0), 3);
        case
    };
    let mut case = waits(nearly, 10);
    assert_eq!(case.state(), State::Healthy, "what waits for less than 15 s needs no disk");
    assert_eq!(case.after(Grows(1000, 0)), State::BufferFilling);
    let said = message(&case.trouble(), "spans");
    let expected = "The backend takes less than arrives, or there is hardly any room left, since";
    assert!(said.starts_with(expected) && said.contains("or the disk is full (at least 200 MiB free)"), "{said}");
    assert!(said.ends_with(" Make the backend faster, send it less, or make room on the disk."), "{said}");
    case.look.waiting.disk = Some(Disk { free_bytes: 201 * MIB, ..nearly });
    assert_eq!(case.again(Grows(1000, 0), OVER), State::Healthy, "there is a little more room again");

    let full = Disk { free_bytes: 0, ..nearly };
    let told = |disk: Disk, items: u64| waits(disk, items).again(Grows(1000, 0), 20);
    assert_eq!(told(full, 10), State::BufferFilling);
    assert_eq!(told(Disk { used_bytes: 0, ..full }, 10), State::BufferFilling, "others have filled it");
    assert_eq!(told(full, 2), State::Healthy, "fewer items are no trouble");
    assert_eq!(told(full, 0), State::Healthy, "nothing waits");
    assert_eq!(told(Disk { left_bytes: nearly.free_bytes, ..nearly }, 10), State::Healthy, "backlogs are full before");
}

/// While data is lost, it is told that it is; the worst counts.
#[test]
fn the_worst_trouble_is_told() {
    let mut case = Case::new();
    case.again(Grows(1000, 900), 20);
    case.again(Loses(1000, 500), TOLD);
    case.again(Loses(1000, 1000), TOLD);
    case.again(Delivers(1000), OVER);
    let expected = [State::BufferFilling, State::SomeDropped, State::AllDropped, State::Healthy];
    assert_eq!(case.states(), expected);
}

#[test]
fn it_is_about_those_whose_data_comes() {
    let mut case = Case::new();
    case.look.inputs.collected = Input::Steady;
    let roles = |case: &Case| case.monitor.verdicts().next().unwrap().1.roles;
    case.after(Delivers(10));
    assert_eq!(roles(&case), Roles { gateway: true, agent: true });
    case.again(Nothing, 59);
    assert_eq!(roles(&case), Roles { gateway: true, agent: true }, "five minutes ago");
    case.after(Nothing);
    assert_eq!(roles(&case), Roles { gateway: false, agent: true });
    case.look.inputs.collected = Input::Counted(7);
    case.again(Nothing, 100);
    assert_eq!(roles(&case), Roles { gateway: false, agent: true }, "those that came last");
    case.after(Delivers(1));
    assert_eq!(roles(&case), Roles { gateway: true, agent: false });
}

/// What is lost before it comes into any books was for an agent to collect, also while clients push.
#[test]
fn what_is_lost_early_is_of_the_agent() {
    let mut case = Case::new();
    case.look.inputs.collected = Input::Counted(7);
    case.again(Delivers(1000), 100);
    let roles = |case: &Case| case.monitor.verdicts().next().unwrap().1.roles;
    assert_eq!(roles(&case), Roles { gateway: true, agent: false });
    assert_eq!(case.again(LosesEarly(1000, 300), TOLD), State::SomeDropped);
    assert_eq!(roles(&case), Roles { gateway: false, agent: true });
    let amounts = case.trouble().amounts;
    assert_eq!((amounts.dropped, amounts.rejected, amounts.before_books.last), (0, 0, EarlyLoss::Removed));
    assert!(amounts.before_books.items >= 600, "{amounts:?}");
    case.look.rejected += 5000;
    case.see();
    assert_eq!(roles(&case), Roles { gateway: true, agent: true }, "a backend takes from both");
    assert_eq!(case.again(Delivers(1000), OVER), State::Healthy);
    assert_eq!(roles(&case), Roles { gateway: true, agent: true }, "both came in the last five minutes");
}

#[test]
fn a_pipeline_that_leaves_is_forgotten_and_one_that_returns_is_new() {
    let mut case = Case::new();
    case.again(Waits(1000), TOLD);
    let at = Moment { since_start: EVERY * case.looks, unix_seconds: 0 };
    assert_eq!(case.monitor.look(at, &[]), []);
    assert_eq!(case.monitor.verdicts().count(), 0);
    assert_eq!(case.see(), State::Healthy);
}

/// Words that differ in each answer are no news.
#[test]
fn the_words_of_a_backend_stay_for_a_while() {
    let mut case = Case::new();
    case.again(IsRefused(1000), TOLD);
    let first = case.trouble();
    case.look.refused += 64;
    case.look.waiting.items += 10;
    case.look.backend = Backend::Refuses("401: no, request 7".into());
    case.see();
    assert_eq!(case.trouble().words, first.words);
    assert_eq!(case.again(Waits(1000), TOLD), State::NothingDelivered);
    assert_eq!(case.trouble().words, "connection refused", "another kind of trouble");
}

/// What fails here is not told as the backend's fault, not even for a while.
#[test]
fn a_backend_that_is_not_asked_any_more_is_not_away() {
    let mut case = Case::new();
    case.again(Delivers(1000), 10);
    case.again(Waits(1000), TOLD);
    let away = case.trouble();
    assert_eq!((away.words.as_str(), away.fails_here), ("connection refused", false));
    assert_eq!(case.after(IsNotAsked(1000)), State::NothingDelivered);
    let (said, now) = (message(&case.trouble(), "spans"), case.trouble());
    assert_eq!((now.words.as_str(), now.fails_here, now.since), ("not asked: no token", true, away.since));
    let expected = "The backend: not asked: no token. Look at that cause, which is not the backend: the token server, \
                    the credentials, or the memory here. What is kept is delivered then.";
    assert!(said.ends_with(expected), "{said}");
    assert_eq!(case.after(Waits(1000)), State::NothingDelivered);
    assert_eq!((case.trouble().words, case.trouble().fails_here), (away.words, false));
}

fn any_step() -> impl Strategy<Value = (Does, usize)> {
    let items = 1_u64..100_000;
    let share = (items, 0_u64..=100).prop_map(|(items, percent)| (items, items * percent / 100));
    let does = prop_oneof![
        share.clone().prop_map(|(items, _)| Delivers(items)),
        share.clone().prop_map(|(items, part)| Loses(items, part)),
        share.clone().prop_map(|(items, part)| LosesEarly(items, part)),
        share.clone().prop_map(|(items, part)| Refuses(items, part)),
        share.clone().prop_map(|(items, part)| Grows(items, part)),
        share.clone().prop_map(|(items, part)| TakesLittle(items, part)),
        share.clone().prop_map(|(items, part)| TurnsAway(items, part)),
        share.clone().prop_map(|(items, _)| Waits(items)),
        share.clone().prop_map(|(items, _)| IsRefused(items)),
        share.prop_map(|(items, _)| IsAskedForTime(items)),
        Just(Nothing),
    ];
    (does, 1_usize..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// OBSERVE-1, OBSERVE-2, OBSERVE-4: whatever happens.
    #[test]
    fn nothing_flaps_and_amounts_are_those_of_the_books(steps in prop::collection::vec(any_step(), 1..20)) {
        let (mut case, mut seen) = (Case::new(), Vec::new());
        seen.push((UNIX, case.look.clone()));
        let mut told_at: Option<usize> = None;
        for (does, times) in steps {
            for _ in 0..times {
                let before = case.state();
                let now = case.after(does);
                seen.push((UNIX + 5 * u64::from(case.looks - 1), case.look.clone()));
                match (before, now) {
                    (State::Healthy, State::Healthy) => {}
                    (State::Healthy, _) => told_at = Some(seen.len()),
                    (_, State::Healthy) => prop_assert!(seen.len() - told_at.unwrap() >= 5, "it was told for a moment only"),
                    _ => {}
                }
                if now != State::Healthy {
                    let Trouble { since, amounts, kept, .. } = case.trouble();
                    let (_, began) = seen.iter().find(|(at, _)| *at == since).expect("since a look");
                    // What is told may be as of the last look at which it was true.
                    let is_of = |look: &Look| {
                        amounts.lost_of_books() == look.rejected - began.rejected
                            && amounts.before_books.items == look.before_books.items - began.before_books.items
                            && amounts.delivered == look.delivered - began.delivered
                            && amounts.turned_away == look.clients.turned_away.all() - began.clients.turned_away.all()
                    };
                    prop_assert_eq!(kept.items, case.look.waiting.items);
                    prop_assert!(seen.iter().rev().take(OVER_FOR_GOOD).any(|(_, look)| is_of(look)), "{amounts:?} {began:?}");
                }
            }
        }
        prop_assert_eq!(case.again(Delivers(1000), OVER_FOR_GOOD), State::Healthy);
    }

    /// OBSERVE-1: a real share of a real amount is told, whatever was before and however much it is.
    #[test]
    fn what_lasts_is_told(before in prop::collection::vec(any_step(), 0..5), items in 5_u64..1_000_000, percent in 10_u64..=100) {
        let part = (items * percent / 100).max(1);
        for does in [Loses(items, part), LosesEarly(items - part, part), Waits(items), IsRefused(items), IsAskedForTime(items), Refuses(items, items)] {
            let mut case = Case::new();
            for (does, times) in &before {
                case.again(*does, *times);
            }
            case.again(Delivers(1000), OVER);
            prop_assert_ne!(case.again(does, TOLD), State::Healthy, "{:?}", does);
        }
    }
}
