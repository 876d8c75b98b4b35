//! What the simulated disk promises.

use super::*;

/// However many times that failed before: once the directory is synced, power loss leaves the names that readers see.
#[test]
fn a_directory_that_is_synced_is_what_readers_see() {
    for seed in 0..200 {
        let (fs, mut dice) = (SimFs::new(seed), Rng::with_seed(seed));
        fs.set_faults(Faults { sync: 2, ..Faults::default() });
        let mut synced = 0;
        while synced < 5 {
            let name = ["one", "two", "three"][dice.usize(..3)];
            match dice.u8(..4) {
                0 | 1 => drop(fs.create(name)),
                2 => drop(fs.remove(name)),
                _ if fs.sync_dir().is_ok() => {
                    synced += 1;
                    assert_eq!(fs.after_power_loss().files(), fs.files(), "seed {seed}");
                }
                _ => {}
            }
        }
    }
}
