//! Patterns beside Go: generated ones, and texts, go to Go's `regexp` and to this crate. Both must take or refuse the
//! pattern, and find the same matches, groups and replacements (RE2-1).
//!
//! Needs `goregexp` of `bench/peers`; `make test-ottl-differential` builds it. `OTTL_SEED=random` generates other
//! patterns than usual; the seed is printed, and `OTTL_SEED=...` repeats a run.

#[cfg(test)]
mod generate;
#[cfg(test)]
mod go;
#[cfg(test)]
mod runs;
