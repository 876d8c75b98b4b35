//! What was acknowledged is safe (promise P1), seen from outside: the gateway with a data directory, real disks, real
//! processes, `kill -9`.
//!
//! Each case ends with three questions: did everything arrive that a client got OK for, do the books balance, and is
//! the data directory empty when nothing is owed any more? How the journal works is not known here.
//!
//! Some need the right to mount: see `disk.rs`. `WEIR_KILL_CYCLES=1000` makes the loop of `kill_loop.rs` that long; it
//! has 100 cycles otherwise.

#[cfg(test)]
mod clients;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod data_dir;
#[cfg(test)]
mod directories;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod early;
#[cfg(test)]
mod faulty;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod hanging_disk;
#[cfg(test)]
mod inlet;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod kill_loop;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod names;
#[cfg(test)]
mod poison;
#[cfg(test)]
mod read_only;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod secured;
#[cfg(test)]
mod sick_backends;
#[cfg(test)]
#[path = "../support/support.rs"]
#[expect(dead_code, reason = "each test binary uses its part")]
mod support;
#[cfg(test)]
mod temporality;
