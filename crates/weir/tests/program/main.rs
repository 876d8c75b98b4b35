//! The program as its users see it: processes with real sockets and real disks, what they print and log, the memory they
//! take, signals and `kill -9`.
//!
//! Where there is a data directory, each case ends with three questions: did everything arrive that a client got OK for
//! (promise P1), do the books balance, and is the directory empty when nothing is owed any more? How the journal works
//! is not known here.
//!
//! Some need the right to mount: see `disk.rs`. `WEIR_KILL_CYCLES=1000` makes the loop of `kill_loop.rs` that long; it
//! has 100 cycles otherwise.
//!
//! What needs no process of its own is in the tests of the engine.

#[cfg(test)]
mod admin;
#[cfg(test)]
mod advice;
#[cfg(test)]
mod bad_rules;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod configuration;
#[cfg(test)]
mod container_logs;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod costly_backends;
#[cfg(test)]
mod credentials;
#[cfg(test)]
mod crowds;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod debug_lines;
#[cfg(test)]
mod delivery;
#[cfg(test)]
mod destinations;
#[cfg(test)]
mod directories;
#[cfg(test)]
mod discovery;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod encodings;
#[cfg(test)]
mod facts;
#[cfg(test)]
mod faulty;
#[cfg(test)]
mod fluent_bit;
mod fluent_bit_text;
#[cfg(test)]
mod full_disk;
#[cfg(test)]
mod health;
#[cfg(test)]
mod ingest_security;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod kill_loop;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod loadtest;
#[cfg(test)]
mod loadtest_reports;
#[cfg(test)]
mod losses;
#[cfg(test)]
mod names;
#[cfg(test)]
mod node;
#[cfg(test)]
mod oauth2;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod poison;
#[cfg(test)]
mod process;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod read_only;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod roles;
#[cfg(test)]
mod runtime_metrics;
#[cfg(test)]
mod scraping;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod sick_backends;
#[cfg(test)]
mod taps;
#[cfg(test)]
mod target_pages;
mod temporality;
#[cfg(test)]
mod trailers;
#[cfg(test)]
mod try_rules;
