//! What is said of a trouble. It is short of digits on purpose: a status that says it is written when it changes, and
//! nobody acts on the third digit.

use weir_legible::rfc3339_seconds;

use crate::look::{BeforeBooks, EarlyLoss, TurnedAway};
use crate::verdict::{Amounts, Kept, State, Trouble};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Times that are said, in seconds.
const SPANS: [(u64, &str); 12] = [
    (MINUTE, "a minute"),
    (2 * MINUTE, "2 minutes"),
    (5 * MINUTE, "5 minutes"),
    (10 * MINUTE, "10 minutes"),
    (30 * MINUTE, "30 minutes"),
    (HOUR, "an hour"),
    (2 * HOUR, "2 hours"),
    (5 * HOUR, "5 hours"),
    (12 * HOUR, "12 hours"),
    (DAY, "a day"),
    (2 * DAY, "2 days"),
    (7 * DAY, "a week"),
];

/// Shares that are said, in percent.
const SHARES: [u64; 7] = [1, 5, 10, 20, 50, 80, 95];

/// What is wrong with a pipeline whose data is called `items`, how much is affected, and what to do, in sentences.
pub fn message(trouble: &Trouble, items: &str) -> String {
    let Trouble { state, since, amounts, kept, words, .. } = trouble;
    let begin = beginning(*state, *amounts, &rfc3339_seconds(*since), items);
    let words = if words.is_empty() { String::new() } else { format!("The backend: {words}") };
    let advice = advice(trouble).to_owned();
    let parts = [begin, losses(*state, *amounts, items), waiting(*kept, items), words, advice];
    let said: Vec<_> = parts.iter().filter(|part| !part.is_empty()).map(|part| sentence(part)).collect();
    said.join(" ")
}

fn sentence(text: &str) -> String {
    let mut rest = text.trim_end_matches('.').chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    first.chain(rest).chain(['.']).collect()
}

fn beginning(state: State, amounts: Amounts, since: &str, items: &str) -> String {
    let Amounts { delivered, refused, requests, turned_away, turned_away_for, .. } = amounts;
    let lost = amounts.lost();
    match state {
        State::Healthy => String::new(),
        State::AllDropped | State::NothingDelivered => format!("No {items} were delivered since {since}"),
        // Where the backend refuses more than was lost, that is what is wrong.
        State::SomeDropped if lost > 0 && lost >= refused => {
            let share = share(lost, lost.saturating_add(delivered));
            format!("{share} of the {items} were lost since {since}")
        }
        State::SomeDropped => {
            let share = share(refused, refused.saturating_add(delivered));
            format!("The backend refuses {share} of the {items} that it is sent since {since}")
        }
        State::Throttling => {
            let share = share(turned_away, requests);
            let (why, _) = lack(turned_away_for);
            format!("{share} of the requests of clients were asked to come again since {since}, {why}")
        }
        State::BufferFilling => {
            format!("The backend takes less than arrives, or there is hardly any room left, since {since}")
        }
    }
}

fn losses(state: State, amounts: Amounts, items: &str) -> String {
    let Amounts { dropped, rejected, before_books, refused, .. } = amounts;
    match (dropped, rejected) {
        (0, 0) if before_books.items > 0 => before(before_books, items),
        (0, 0) if state == State::Throttling => "Nothing is lost as long as clients send again".to_owned(),
        (0, 0) if refused > 0 => format!("Nothing is lost: {items} that are refused are sent again"),
        (0, 0) => "Nothing is lost".to_owned(),
        _ if before_books.items > 0 => {
            let of_books = losses(state, Amounts { before_books: BeforeBooks::default(), ..amounts }, items);
            format!("{of_books}. {}", sentence(&before(before_books, items)))
        }
        (dropped, 0) => format!("{} {items} were given up here", amount(dropped)),
        (0, rejected) => format!("{} {items} were refused for good", amount(rejected)),
        (dropped, rejected) => {
            let (dropped, rejected) = (amount(dropped), amount(rejected));
            format!("{dropped} {items} were given up here, and {rejected} were refused for good")
        }
    }
}

/// What was lost before it came into any books. Some of it nobody has counted.
fn before(of: BeforeBooks, items: &str) -> String {
    let (why, _) = early(of.last);
    let lost = amount(of.items);
    format!("{lost} {items} by estimate were lost before they came into any books, the last of them because {why}")
}

fn waiting(kept: Kept, items: &str) -> String {
    let Kept { items: count, bytes, room_bytes, room_seconds, disk_free_bytes, disk_is_scarce, full_in_seconds } = kept;
    if count == 0 {
        return String::new();
    }
    let mut said = format!("{} {items} ({}) are kept", amount(count), size(bytes));
    if room_bytes > 0 {
        said = format!("{said} until they are {}", limit(room_bytes));
    }
    if let Some(seconds) = room_seconds {
        said = format!("{said} or {} old", age(seconds));
    }
    if let Some(free) = disk_free_bytes.filter(|_| disk_is_scarce) {
        said = format!("{said}, or the disk is full ({})", room(free));
    }
    if let Some(seconds) = full_in_seconds.filter(|seconds| *seconds < 7 * DAY) {
        said = format!("{said}, at this rate in {}", about(seconds));
    }
    // What has a limit of age is on a disk.
    let is_unsure = room_seconds.is_some() && disk_free_bytes.is_none();
    if is_unsure { format!("{said}, if the disk has room") } else { said }
}

fn advice(trouble: &Trouble) -> &'static str {
    let Trouble { state, amounts, kept, may_be_slow, fails_here, .. } = trouble;
    match state {
        State::Healthy => "",
        State::AllDropped | State::NothingDelivered if *fails_here => {
            "Look at that cause, which is not the backend: the token server, the credentials, or \
             the memory here. What is kept is delivered then"
        }
        State::AllDropped if amounts.lost() == 0 => {
            "Correct the pipeline's credentials, address or data, or the backend: what is kept is delivered then"
        }
        State::NothingDelivered if *may_be_slow => {
            "Look at the backend: it answers, and is overloaded or not ready. What is kept is delivered then"
        }
        State::NothingDelivered => "Mend the backend, or the way to it: what is kept is delivered then",
        State::AllDropped | State::SomeDropped if amounts.is_early() => early(amounts.before_books.last).1,
        State::AllDropped | State::SomeDropped if amounts.dropped > 0 => {
            "Look for the reason with `weir why`; where the backlog was full, mend the backend, send it less, or give the pipeline a larger backlog"
        }
        State::AllDropped | State::SomeDropped => {
            "What the backend refuses, and why, is at /rejected on the admin port (55679 by default; of a pod: `kubectl port-forward --namespace NAMESPACE POD 55679`)"
        }
        State::Throttling => lack(amounts.turned_away_for).1,
        State::BufferFilling if kept.disk_is_scarce => {
            "Make the backend faster, send it less, or make room on the disk"
        }
        State::BufferFilling => "Make the backend faster, or send it less",
    }
}

/// Why something was lost before it came into any books, and what helps.
fn early(loss: EarlyLoss) -> (&'static str, &'static str) {
    match loss {
        EarlyLoss::Removed => (
            "files were deleted unread",
            "Mend the backend, give the pipeline a larger backlog, or let the kubelet keep more (containerLogMaxSize, \
             containerLogMaxFiles)",
        ),
        EarlyLoss::Overwritten => (
            "files were cut off or overwritten before they were read",
            "Rotate log files by renaming them, not by copying and cutting",
        ),
        EarlyLoss::Unreadable => ("files could not be read", "Look at the disk, and at the kernel's log"),
        EarlyLoss::OverLimit => (
            "files that were deleted took too much of the disk",
            "Mend the backend, give the pipeline a larger backlog, or raise --max-removed-logs",
        ),
        EarlyLoss::NoMemory => {
            ("there was no room in --memory", "Give weir more --memory, or let targets expose fewer series")
        }
        EarlyLoss::NoCpu => {
            ("no processor had time for a page before the next one", "Give weir more CPU, or scrape less often")
        }
        EarlyLoss::NoRoom => (
            "the pipeline had no room for them in time, or its disk fails",
            "Mend the backend, send it less, or give the pipeline a larger backlog",
        ),
        EarlyLoss::TooLarge => (
            "a page or a request is larger than it may be",
            "Look at `weir targets`, which says what is too large; let it expose fewer series",
        ),
        EarlyLoss::Other => ("of what the log says", "Look for the reason in the log, and with `weir why`"),
    }
}

/// Why most of those were turned away that were, and what helps.
fn lack(of: TurnedAway) -> (&'static str, &'static str) {
    let TurnedAway { no_memory, pipelines_full, disk, busy } = of;
    let all = [
        (no_memory, "for lack of memory", "Give more memory, or make the backends faster"),
        (
            pipelines_full,
            "because a pipeline has no room for more",
            "Mend or speed up the backend that takes too little, or give its pipeline more room",
        ),
        (
            disk,
            "because the disk is full, or does not take what backends did not take in time",
            "Make room on the disk, or look why it fails; what backends take in time needs none",
        ),
        (
            busy,
            "because many large requests are processed at once",
            "Have clients send smaller requests, or give more processors",
        ),
    ];
    // Of several, the first.
    let most = all.into_iter().rev().max_by_key(|(requests, ..)| *requests).filter(|(requests, ..)| *requests > 0);
    most.map_or(("for lack of room", "Give more memory, or make the backends faster"), |(_, why, advice)| (why, advice))
}

/// Rounds down to 1, 2 or 5 times a power of ten. A node of another version may say any number.
fn round(number: u64) -> u64 {
    let mut unit: u64 = 1;
    while number / 10 >= unit {
        unit = unit.saturating_mul(10);
    }
    [5, 2, 1].into_iter().filter_map(|digit| unit.checked_mul(digit)).find(|round| *round <= number).unwrap_or_default()
}

/// A number as people say it: `at least 2,000`.
pub fn amount(number: u64) -> String {
    let digits: Vec<char> = round(number).to_string().chars().collect();
    let groups: Vec<String> = digits.rchunks(3).rev().map(|group| group.iter().collect()).collect();
    let grouped = groups.join(",");
    if number == 1 { grouped } else { format!("at least {grouped}") }
}

fn share(part: u64, whole: u64) -> String {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    match SHARES.iter().rfind(|share| u128::from(**share) <= percent) {
        Some(share) => format!("at least {share} %"),
        None => "less than 1 %".to_owned(),
    }
}

const UNITS: [(u64, &str); 4] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];

fn size(bytes: u64) -> String {
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1, "B"));
    format!("{} {name}", round(bytes / unit))
}

/// What a disk has room for.
fn room(free: u64) -> String {
    if free == 0 { "no room left".to_owned() } else { format!("at least {} free", size(free)) }
}

/// A size that somebody has set, as it is if it is a whole number of units.
fn limit(bytes: u64) -> String {
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1, "B"));
    let about = if bytes.is_multiple_of(unit) { "" } else { "about " };
    format!("{about}{} {name}", bytes / unit)
}

/// An age that somebody has set, as it is.
fn age(seconds: u64) -> String {
    let units = [(HOUR, "h"), (MINUTE, "min")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds.is_multiple_of(*unit)).unwrap_or((1, "s"));
    format!("{} {name}", seconds / unit)
}

/// The longest span of which it is nine tenths at least: what lacks a minute of a day is about a day.
fn about(seconds: u64) -> String {
    match SPANS.iter().rfind(|(span, _)| *span / 10 * 9 <= seconds) {
        Some((_, name)) => format!("about {name}"),
        None => "less than a minute".to_owned(),
    }
}
