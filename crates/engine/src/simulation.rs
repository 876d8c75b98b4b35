//! The whole engine without sockets, threads or real time: journal, pipelines, scripted backends, clients, restarts and
//! disk faults under one seed.
//!
//! Each run draws a world from its seed: how many pipelines, which of them have rules, what their backends do and for how
//! long, what the disk refuses and how long it takes, when a pipeline is taken away and returns, when the process is killed, loses
//! power or is told to end. At the end everything is well again and the
//! run waits. Then each item that a client was told OK for must have arrived at each backend (but for the items that
//! backends refuse by design or rules remove), and the books of the last process must balance with nothing pending.
//!
//! The seeds are always the same, so that a change is what makes the test fail. `WEIR_SIMULATION_SEED=n` begins with
//! another one, `WEIR_SIMULATION_RUNS=n` runs that many: new worlds are explored by whoever changes something here.

mod backend;
mod payload;
mod rules;
mod sluggish;
mod world;

use world::World;

/// The first of the seeds that follow each other.
const FIRST_SEED: u64 = 1;
/// Enough to meet every combination of faults often, few enough for every run of the tests.
const RUNS: u64 = 40;
/// How many of them are lived through twice.
const REPEATED: u64 = 8;

#[expect(clippy::disallowed_methods, reason = "a test is told by its environment what to repeat")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn obligations_are_met_whatever_happens() {
    let start = number("WEIR_SIMULATION_SEED").unwrap_or(FIRST_SEED);
    let runs = number("WEIR_SIMULATION_RUNS").unwrap_or(RUNS);
    let mut totals = world::Totals::default();
    for seed in start..start + runs {
        let run = std::panic::AssertUnwindSafe(|| World::new(seed).run());
        match std::panic::catch_unwind(run) {
            Ok(outcome) => totals.add(&outcome),
            Err(cause) => {
                eprintln!("replay with WEIR_SIMULATION_SEED={seed} WEIR_SIMULATION_RUNS=1");
                std::panic::resume_unwind(cause);
            }
        }
    }
    println!("seeds {start}..{}: {totals:?}", start + runs);
    if runs >= RUNS {
        totals.assert_everything_happened();
    }
}

/// Otherwise no failure could be repeated.
#[test]
fn a_world_follows_from_its_seed_alone() {
    for seed in FIRST_SEED..FIRST_SEED + REPEATED {
        let [first, second] = [(); 2].map(|()| format!("{:?}", World::new(seed).run()));
        assert_eq!(first, second, "seed {seed}");
    }
}
