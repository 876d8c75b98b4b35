//! `weir loadtest` as its users see it, as short as it can be: every signal and every kind of processing goes through the
//! gateway, and the judge finds nothing to complain about.

#[cfg(test)]
mod scenarios;
#[cfg(test)]
#[path = "../support/support.rs"]
#[expect(dead_code, reason = "each test binary uses its part")]
mod support;
