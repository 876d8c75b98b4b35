//! Sources of telemetry that run in the same process as the engine. Each is a client of the engine's inlet: it reserves
//! memory, makes a request, offers it, and goes on only when the engine answers that the data is safe.
//!
//! This crate must not know exporters, the journal, or custom resources.
//!
//! Invariants, cited in code and tests:
//! - **TAIL-1** a position moves only when the engine has secured every request that was made of what is before it.
//! - **TAIL-2** a turn reads nothing before it has the memory for it.
//! - **TAIL-3** every byte that was seen becomes part of a record, or is counted as lost with a reason, or is read
//!   again.
//! - **TAIL-4** the core of `tail` has no I/O, no clock and no async code. It is: names of files (`path`), which file is
//!   which (`identity`, `chain`), lines (`scan`, `line`), joined parts (`join`), stack traces (`multiline`, `traces`), log
//!   records (`record`, `requests`), and positions as text (`checkpoint`).
//! - **SCRAPE-1** a page that is refused changes nothing that is known of the last one.
//! - **SCRAPE-2** of a page, and of what is made of it, nothing is kept before memory is reserved for it. What a
//!   connection buffers has a limit.
//! - **SCRAPE-3** data points that some pipeline does not take before the next scrape, or before runtime metrics are made
//!   anew, are counted as lost with a reason.
//! - **SCRAPE-4** the core of `scrape` has no I/O, no clock and no async code. It is: what is scraped (`discovery`,
//!   `target`) and when (`schedule`), lines (`text`, `number`, `sample`, `series`), what they mean (`family`, `rules`,
//!   `relabel`, `home`, `unit`), comparison (`known`, `packed`, `page`), reading anew (`reader`, `previous`, `draft`,
//!   `own_times`, `start_time`, `stale`, `exemplars`), pages in protobuf (`protobuf`), and requests (`request`, `inputs`).

#![forbid(unsafe_code)]

mod board;
mod download;
mod encoding;
mod inlet;
pub mod runtime;
pub mod scrape;
pub mod tail;
mod time;
