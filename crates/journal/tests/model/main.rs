//! Random use of the journal against a plain model, with a crash at every operation that changes the disk.
//!
//! Every scenario is run once to the end and then again and again, each time with a crash at another operation; what is
//! there afterwards must be what the model says, and so it goes on for two more lives. The seed is printed:
//! `WEIR_JOURNAL_SEED=<seed>` runs that scenario alone, and `WEIR_JOURNAL_CRASH=<operation>` with that crash alone.
//! `WEIR_JOURNAL_POINTS=<number>` changes how many crashes there are.

#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

mod book;
mod world;

use fastrand::Rng;
use world::{Style, World};

/// Crash points of a run, over all styles.
const CRASH_POINTS: u64 = 12_000;
const STYLES: u64 = 6;

#[test]
fn no_faults_and_synced() {
    explore(Style { written: false, faults: false, full: false });
}

#[test]
fn no_faults_and_synced_now_and_then() {
    explore(Style { written: true, faults: false, full: false });
}

#[test]
fn failing_disk_and_synced() {
    explore(Style { written: false, faults: true, full: false });
}

#[test]
fn failing_disk_and_synced_now_and_then() {
    explore(Style { written: true, faults: true, full: false });
}

#[test]
fn full_disk() {
    explore(Style { written: false, faults: false, full: true });
}

#[test]
fn full_and_failing_disk() {
    explore(Style { written: true, faults: true, full: true });
}

#[expect(clippy::print_stdout, reason = "shown when a test fails, or when asked for")]
fn explore(style: Style) {
    if let Some(seed) = number("WEIR_JOURNAL_SEED") {
        let crashes = number("WEIR_JOURNAL_CRASH").map(|crash| crash..=crash);
        run_scenario(style, seed, crashes);
        return;
    }
    // Always the same lives, so that a change is what makes the test fail; `WEIR_JOURNAL_LIVES` begins elsewhere.
    let mut seeds = Rng::with_seed(number("WEIR_JOURNAL_LIVES").unwrap_or(1));
    let mut points = 0;
    while points < number("WEIR_JOURNAL_POINTS").unwrap_or(CRASH_POINTS) / STYLES {
        points += run_scenario(style, seeds.u64(..), None);
    }
    println!("{points} crash points");
}

/// Runs one scenario with a crash at each of its operations; how many these were.
fn run_scenario(style: Style, seed: u64, crashes: Option<std::ops::RangeInclusive<u64>>) -> u64 {
    let operations = run(style, seed, None);
    for crash in crashes.unwrap_or(1..=operations) {
        run(style, seed, Some(crash));
    }
    operations
}

/// Three lives; the first ends with the crash.
fn run(style: Style, seed: u64, crash: Option<u64>) -> u64 {
    let _told = Told { seed, crash };
    let mut world = World::new(style, seed);
    world.live(crash);
    let operations = world.operations();
    let later = Rng::with_seed(seed ^ crash.unwrap_or(0)).u64(1..60);
    world.reopen();
    world.live(Some(later));
    world.reopen();
    world.live(None);
    world.reopen();
    world.finish();
    operations
}

/// Tells how to replay what failed.
struct Told {
    seed: u64,
    crash: Option<u64>,
}

#[expect(clippy::print_stderr, reason = "where the panic is reported, too")]
impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let crash = self.crash.map(|crash| format!("WEIR_JOURNAL_CRASH={crash} ")).unwrap_or_default();
            eprintln!("to replay: WEIR_JOURNAL_SEED={} {crash}cargo test -p weir-journal --test model", self.seed);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test has no command line of its own")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}
