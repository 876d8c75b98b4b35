//! The language beside its reference implementation: the same statements and items go to the OpenTelemetry Collector
//! and to this crate, and what comes out must be the same, field by field.
//!
//! The statements are those of the tables of the conformance tests, so that what these expect is what the reference
//! does, and generated ones. Every statement meets the items of all tables, and generated ones. What deliberately
//! differs stands in `cases/differences.txt`, and must differ. Left out are cases that depend on the moment, and those
//! of `cases/alone.txt`, which the reference does not survive.
//!
//! Needs the collector of `bench/peers`; `make test-ottl-differential` builds it. `OTTL_SEED=random` generates other
//! statements than usual; the seed is printed, and `OTTL_SEED=...` repeats a run.

#[cfg(test)]
mod collector;
#[cfg(test)]
mod compare;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod items;
#[cfg(test)]
#[path = "../conformance/plain.rs"]
mod plain;
#[cfg(test)]
mod runs;
#[cfg(test)]
#[path = "../conformance/subject.rs"]
mod subject;
