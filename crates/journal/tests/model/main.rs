//! Random use of the journal against a plain model, with a crash at every operation that changes the disk.
//!
//! Every scenario is run once to the end, and then again and again, each time with a crash at another operation. What is
//! there afterwards must be what the model says. Two more lives follow in the same way. Between two lives, recovery
//! itself meets crashes, a full disk or a failing one.
//!
//! Except for one fresh scenario per style, the lives are always the same, so that only a change makes the test fail. The
//! seed of a failure is printed: `WEIR_JOURNAL_SEED=<seed>` runs that scenario alone, and
//! `WEIR_JOURNAL_CRASH=<operation>` with that crash alone. `WEIR_JOURNAL_POINTS=<number>` changes how many crashes there
//! are, not counting those of recovery, and `WEIR_JOURNAL_LIVES=<seed>` where the seeds begin.

#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

mod book;
mod world;

use std::ops::RangeInclusive;

use fastrand::Rng;
use world::{Style, World};

/// Crash points of a run, over all styles.
const CRASH_POINTS: u64 = 10_200;
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

/// How many crashes there were.
#[derive(Debug, Default)]
struct Points {
    life: u64,
    recovery: u64,
}

#[expect(clippy::print_stdout, reason = "shown when a test fails, or when asked for")]
fn explore(style: Style) {
    let mut points = Points::default();
    if let Some(seed) = number("WEIR_JOURNAL_SEED") {
        let crashes = number("WEIR_JOURNAL_CRASH").map(|crash| crash..=crash);
        return run_scenario(style, seed, crashes, &mut points);
    }
    let mut seeds = Rng::with_seed(number("WEIR_JOURNAL_LIVES").unwrap_or(1));
    while points.life < number("WEIR_JOURNAL_POINTS").unwrap_or(CRASH_POINTS) / STYLES {
        run_scenario(style, seeds.u64(..), None, &mut points);
    }
    println!("{points:?}");
    let fresh = fastrand::u64(..);
    println!("fresh: WEIR_JOURNAL_SEED={fresh}");
    run_scenario(style, fresh, None, &mut points);
}

/// Runs one scenario to its end and then with a crash at each of its operations.
fn run_scenario(style: Style, seed: u64, crashes: Option<RangeInclusive<u64>>, points: &mut Points) {
    let operations = run(style, seed, None, points);
    for crash in crashes.unwrap_or(1..=operations) {
        run(style, seed, Some(crash), points);
        points.life += 1;
    }
}

/// Three lives; the first ends with the crash. How many operations it had.
fn run(style: Style, seed: u64, crash: Option<u64>, points: &mut Points) -> u64 {
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
    points.recovery += world.recovery_crashes;
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
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default();
            let Self { seed, .. } = self;
            eprintln!(
                "to replay: WEIR_JOURNAL_SEED={seed} {crash}cargo test -p weir-journal --test model {test} -- --exact"
            );
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a test has no command line of its own")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}
