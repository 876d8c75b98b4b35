//! The engine from outside: gateways in this process, with real sockets on both sides and real disks.
//!
//! Each case checks three things: the answer that is documented, that another client's data is delivered all the
//! same, and that the books balance. Where there is a data directory: that everything arrives that a client got OK for
//! (promise P1), and that the directory is empty when nothing is owed any more. How the journal works is not known here.
//! Speed is not judged here.
//!
//! What has to be seen of the program itself is in the tests of `weir`.

#[cfg(test)]
mod admin;
#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod bad_rules;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod delivery;
#[cfg(test)]
mod early;
#[cfg(test)]
mod encodings;
#[cfg(test)]
mod facts;
#[cfg(test)]
mod faulty;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod hanging_disk;
#[cfg(test)]
mod ingest_security;
#[cfg(test)]
mod inlet;
#[cfg(test)]
mod isolation;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod oauth2;
#[cfg(test)]
mod odd_values;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod poison;
#[cfg(test)]
mod processing;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod reload;
#[cfg(test)]
mod secured;
#[cfg(test)]
mod sick_backends;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls_bounds;
#[cfg(test)]
mod view;
#[cfg(test)]
mod wrong_types;
