//! The gateway from outside: real sockets on both sides, an engine in this process or the program itself.
//!
//! Each case checks three things: the answer that is documented, that another client's data is delivered all the
//! same, and that the books balance. Speed is not judged here.

#[cfg(test)]
mod admin;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod bad_rules;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod configuration;
#[cfg(test)]
mod costly_backends;
#[cfg(test)]
mod crowds;
#[cfg(test)]
mod delivery;
#[cfg(test)]
mod encodings;
#[cfg(test)]
mod facts;
#[cfg(test)]
mod ingest_security;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod losses;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod oauth2;
#[cfg(test)]
mod odd_values;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod preview;
#[cfg(test)]
mod processing;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod shutdown;
#[cfg(test)]
mod signals;
#[cfg(test)]
#[path = "../support/support.rs"]
#[expect(dead_code, reason = "each test binary uses its part")]
mod support;
#[cfg(test)]
mod tls_bounds;
#[cfg(test)]
mod trailers;
#[cfg(test)]
mod view;
#[cfg(test)]
mod wrong_types;
