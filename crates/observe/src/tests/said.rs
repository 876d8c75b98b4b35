//! What is said of a trouble: words, amounts and times.

use std::time::Duration;

use super::Does::{Delivers, Grows, Loses, Refuses, TurnsAway, Waits};
use super::{Case, TOLD};
use crate::{Amounts, BeforeBooks, Disk, EarlyLoss, Kept, State, Trouble, TurnedAway, amount, message};

#[test]
fn what_is_said() {
    let mut case = Case::new();
    case.again(Delivers(1000), 10);
    case.again(Waits(1000), 24);
    let said = message(&case.trouble(), "spans");
    let expected = "No spans were delivered since 2026-09-21T14:14:10Z. Nothing is lost. At least 20,000 spans (20 MiB) are kept \
                    until they are 1 GiB or 24 h old, at this rate in about an hour, if the disk has room. The backend: connection refused. Mend the backend, or the way to it: what is kept is delivered \
                    then.";
    assert_eq!(said, expected);
    let of = |state, amounts| message(&Trouble { state, amounts, ..Trouble::default() }, "spans");
    let amounts = Amounts { delivered: 900, dropped: 60, rejected: 40, ..Amounts::default() };
    let said = of(State::SomeDropped, amounts);
    let expected = "At least 10 % of the spans were lost since 1970-01-01T00:00:00Z. At least 50 spans were given up here, and \
                    at least 20 were refused for good. Look for the reason with `weir why`; where the backlog was full, mend the backend, send it less, or give the pipeline a larger backlog.";
    assert_eq!(said, expected);
    let said = of(State::SomeDropped, Amounts { delivered: 700, refused: 300, ..Amounts::default() });
    assert!(said.starts_with("The backend refuses at least 20 % of the spans that it is sent since"), "{said}");
    let said = of(State::Throttling, Amounts { requests: 100, turned_away: 7, ..Amounts::default() });
    assert!(said.starts_with("At least 5 % of the requests of clients were asked to come again"), "{said}");
}

/// What was lost before it came into any books is told beside what was lost of them, with why and what helps.
#[test]
fn what_is_said_of_what_was_lost_early() {
    let of = |state, amounts| message(&Trouble { state, amounts, ..Trouble::default() }, "log records");
    let early = |items, last| BeforeBooks { items, last };
    let before_books = early(120, EarlyLoss::Removed);
    let said = of(State::SomeDropped, Amounts { delivered: 900, before_books, ..Amounts::default() });
    let expected = "At least 10 % of the log records were lost since 1970-01-01T00:00:00Z. At least 100 log records by \
                    estimate were lost before they came into any books, the last of them because files were deleted unread. \
                    Mend the backend, give the pipeline a larger backlog, or let the kubelet keep more \
                    (containerLogMaxSize, containerLogMaxFiles).";
    assert_eq!(said, expected);
    let said = of(State::SomeDropped, Amounts { dropped: 500, before_books, ..Amounts::default() });
    let expected =
        "At least 500 log records were given up here. At least 100 log records by estimate were lost before they";
    assert!(said.contains(expected) && said.contains("`weir why`"), "{said}: most of it was in the books");
    let said = of(State::AllDropped, Amounts { before_books: early(5, EarlyLoss::NoMemory), ..Amounts::default() });
    assert!(said.starts_with("No log records were delivered") && said.contains("Give weir more --memory"), "{said}");
    assert!(!said.contains("Nothing is lost"), "{said}");
    let refused =
        Amounts { delivered: 100, refused: 900, before_books: early(5, EarlyLoss::NoCpu), ..Amounts::default() };
    let said = of(State::SomeDropped, refused);
    assert!(said.starts_with("The backend refuses") && said.contains("At least 5 log records by estimate"), "{said}");
    let both = early(3, EarlyLoss::NoRoom).and(early(40, EarlyLoss::TooLarge));
    assert_eq!(both, early(43, EarlyLoss::TooLarge));
    let later: BeforeBooks = serde_json::from_str(r#"{"items": 7, "last": "eaten_by_a_later_version"}"#).unwrap();
    assert_eq!(later, early(7, EarlyLoss::Other));
}

/// Memory helps where there is too little of it, and nowhere else.
#[test]
fn what_is_said_of_clients_that_are_turned_away() {
    let mut case = Case::new();
    case.look.clients.turned_away.disk = 1_000_000;
    assert_eq!(case.again(Delivers(1000), 20), State::Healthy);
    assert_eq!(case.again(TurnsAway(100, 20), TOLD), State::Throttling);
    assert_eq!(case.trouble().amounts.turned_away_for.disk, 0, "that was long ago");
    let said = message(&case.trouble(), "spans");
    let expected = "Nothing is lost as long as clients send again. Give more memory, or make the backends faster.";
    assert!(said.contains(", for lack of memory. ") && said.ends_with(expected), "{said}");

    let of = |turned_away_for: TurnedAway| {
        let turned_away = turned_away_for.all().max(20);
        let amounts = Amounts { requests: 100, turned_away, turned_away_for, ..Amounts::default() };
        message(&Trouble { state: State::Throttling, amounts, ..Trouble::default() }, "spans")
    };
    let none = TurnedAway::default();
    let cases = [
        (none, ", for lack of room. ", "Give more memory"),
        (TurnedAway { no_memory: 9, pipelines_full: 9, ..none }, ", for lack of memory. ", "Give more memory"),
        (TurnedAway { no_memory: 3, pipelines_full: 9, ..none }, ", because a pipeline has no room", "more room."),
        (TurnedAway { no_memory: 3, disk: 9, ..none }, ", because the disk is full", "Make room on the disk"),
        (TurnedAway { disk: 3, busy: 9, ..none }, ", because many large requests", "smaller requests"),
    ];
    for (turned_away_for, why, advice) in cases {
        let said = of(turned_away_for);
        assert!(said.contains(why) && said.contains(advice), "{turned_away_for:?}: {said}");
        assert_eq!(said.contains("memory"), advice.contains("memory"), "{said}");
    }
    let both = TurnedAway { disk: 3, ..none }.and(TurnedAway { disk: 1, busy: 2, ..none });
    assert_eq!(both, TurnedAway { disk: 4, busy: 2, ..none });
}

/// What waits is given up when the first of its limits is reached. Nothing is known of the disk.
#[test]
fn what_is_said_of_limits() {
    const HOUR: Duration = Duration::from_secs(3600);
    let full_in = |case: &Case| case.trouble().kept.full_in_seconds.unwrap();
    let mut case = Case::new();
    case.again(Delivers(1000), 10);
    case.again(Waits(3), 24);
    assert_eq!(full_in(&case), 86_400 - 119, "its bytes would have room for weeks");
    case.look.waiting.oldest = 20 * HOUR;
    case.see();
    let said = message(&case.trouble(), "spans");
    let expected = "are kept until they are 1 GiB or 24 h old, at this rate in about 2 hours, if the disk has room.";
    assert!(full_in(&case) == 4 * 3600 && said.contains(expected), "{said}");
    case.look.waiting.oldest = 25 * HOUR;
    case.see();
    assert_eq!(full_in(&case), 0, "it is given up now");

    let mut case = Case::new();
    case.look.waiting.room_bytes = 1 << 50;
    assert_eq!(case.again(Grows(1000, 900), 20), State::BufferFilling);
    assert!(full_in(&case) < 86_400, "the oldest gets older all the time");
    case.look.waiting.oldest = Duration::ZERO;
    case.see();
    assert!(full_in(&case) > 7 * 86_400, "the oldest is delivered again and again");

    let mut case = Case::new();
    assert_eq!(case.again(Loses(1000, 1000), TOLD), State::AllDropped);
    assert_eq!(case.trouble().kept.full_in_seconds, None, "nothing is kept");

    let of = |room_seconds| {
        let kept = Kept { items: 5, bytes: 10, room_bytes: 1 << 30, room_seconds, ..Kept::default() };
        message(&Trouble { state: State::NothingDelivered, kept, ..Trouble::default() }, "spans")
    };
    for (seconds, age) in [(7 * 86_400, "168 h"), (5400, "90 min"), (30, "30 s")] {
        let expected = format!("(10 B) are kept until they are 1 GiB or {age} old, if the disk has room.");
        assert!(of(Some(seconds)).contains(&expected), "{}", of(Some(seconds)));
    }
    assert!(of(None).contains("(10 B) are kept until they are 1 GiB. "), "{}: there is no disk", of(None));
}

/// All pipelines fill the disk, so it may be full before a pipeline has reached its limits.
#[test]
fn what_is_said_of_the_disk() {
    const MIB: u64 = 1 << 20;
    let mut case = Case::new();
    let (free_bytes, kept_bytes) = (500 * MIB, 300 * MIB);
    let mut disk = Disk { free_bytes, used_bytes: kept_bytes, kept_bytes, left_bytes: 4096 * MIB };
    case.look.waiting.disk = Some(disk);
    case.again(Delivers(1000), 10);
    for _ in 0..24 {
        // This pipeline keeps half of what comes.
        (disk.free_bytes, disk.kept_bytes) = (disk.free_bytes - 2_000_000, disk.kept_bytes + 2_000_000);
        case.look.waiting.disk = Some(disk);
        case.after(Waits(1000));
    }
    let said = |case: &Case| (case.trouble().kept.full_in_seconds.unwrap(), message(&case.trouble(), "spans"));
    let (full_in, text) = said(&case);
    assert!((1150..1250).contains(&full_in), "476 MB at 0.4 MB/s: {full_in}");
    let expected = "are kept until they are 1 GiB or 24 h old, or the disk is full (at least 200 MiB free), at this \
                    rate in about 10 minutes. The backend";
    assert!(text.contains(expected), "{text}");

    case.look.waiting.disk = Some(Disk { left_bytes: disk.free_bytes, ..disk });
    case.see();
    let (full_in, text) = said(&case);
    assert!(full_in > 5000, "its own limit is reached first: {full_in}");
    assert!(text.contains("are kept until they are 1 GiB or 24 h old, at this rate in about an hour. The"), "{text}");

    case.look.waiting.disk = Some(Disk { free_bytes: 0, ..disk });
    case.see();
    let (full_in, text) = said(&case);
    let expected = "24 h old, or the disk is full (no room left), at this rate in less than a minute. The backend";
    assert!(full_in == 0 && text.contains(expected), "{text}");
}

/// A message is about the disks of all nodes. That with the least room counts, and with one that is not known, none is.
#[test]
fn disks_of_nodes_are_put_together() {
    let of = |disk_free_bytes, disk_is_scarce| Kept { disk_free_bytes, disk_is_scarce, ..Kept::default() };
    assert_eq!(of(Some(7), true).and(of(Some(9), false)), of(Some(7), true));
    assert_eq!(of(Some(9), false).and(of(Some(7), false)), of(Some(7), false));
    assert_eq!(of(Some(7), true).and(of(None, false)).disk_free_bytes, None);
}

/// What lacks little of a span is said as that span, and not as the one before it, which may be half as long.
#[test]
fn what_is_said_of_a_time() {
    let of = |full_in_seconds| {
        let kept = Kept { items: 5, bytes: 10, full_in_seconds: Some(full_in_seconds), ..Kept::default() };
        message(&Trouble { state: State::NothingDelivered, kept, ..Trouble::default() }, "spans")
    };
    let cases = [
        (53, "less than a minute"),
        (54, "about a minute"),
        (86_399, "about a day"),
        (77_760, "about a day"),
        (77_759, "about 12 hours"),
        (16_200, "about 5 hours"),
        (16_199, "about 2 hours"),
        (604_799, "about a week"),
    ];
    for (seconds, expected) in cases {
        assert!(of(seconds).contains(&format!("at this rate in {expected}. ")), "{seconds}: {}", of(seconds));
    }
}

/// A backend that refuses a part of the data has taken something since, and lost is only what it refuses alone.
#[test]
fn what_is_said_of_a_part() {
    let mut case = Case::new();
    case.look.last_refusal = "400: not like this".into();
    assert_eq!(case.again(Refuses(1000, 430), TOLD), State::SomeDropped);
    assert_eq!(case.trouble().words, "400: not like this");
    let mut case = Case::new();
    case.look.last_refusal = "400: an hour ago".into();
    assert_eq!(case.again(Grows(1000, 900), 20), State::BufferFilling);
    assert_eq!(case.trouble().words, "", "it is not why data waits");
    let amounts = Amounts { delivered: 11_000, rejected: 7, refused: 4947, ..Amounts::default() };
    let said = message(&Trouble { state: State::SomeDropped, amounts, ..Trouble::default() }, "spans");
    let expected = "The backend refuses at least 20 % of the spans that it is sent since 1970-01-01T00:00:00Z. At least 5 spans \
                    were refused for good. What the backend refuses, and why, is at /rejected on the admin port (55679 by default; of \
                    a pod: `kubectl port-forward --namespace NAMESPACE POD 55679`).";
    assert_eq!(said, expected);
}

/// Numbers come from the pages of nodes, which may say anything.
#[test]
fn what_is_said_of_the_largest_numbers() {
    assert_eq!(amount(u64::MAX), "at least 10,000,000,000,000,000,000");
    assert_eq!(amount(9_999_999_999_999_999_999), "at least 5,000,000,000,000,000,000");
    let most = u64::MAX;
    let amounts = Amounts {
        delivered: most,
        dropped: most,
        rejected: most,
        before_books: BeforeBooks { items: most, last: EarlyLoss::Other },
        refused: most,
        requests: most,
        turned_away: most,
        turned_away_for: TurnedAway { no_memory: most, pipelines_full: most, disk: most, busy: most },
    };
    let kept = Kept {
        items: most,
        bytes: most,
        room_bytes: most,
        room_seconds: Some(most),
        disk_free_bytes: Some(most),
        disk_is_scarce: true,
        full_in_seconds: Some(most),
    };
    for state in State::TROUBLES {
        // What several nodes say is put together.
        let (amounts, kept) = (amounts.and(amounts), kept.and(kept));
        let trouble = Trouble { state, since: most, amounts, kept, ..Trouble::default() };
        let said = message(&trouble, "spans");
        assert!(said.contains("at least 10,000,000,000,000,000,000 were refused for good"), "{state:?}: {said}");
        assert!(said.contains("spans (10000000000 GiB) are kept until they are about 17179869183 GiB"), "{said}");
    }
}
