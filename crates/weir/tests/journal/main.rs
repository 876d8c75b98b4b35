//! `weir journal` as its users see it: journals made by the crate itself and by a running gateway, the program run on
//! them, its output and exit codes. Nothing it does changes a byte of the directory.

#[cfg(test)]
mod directory;
#[cfg(test)]
mod export;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod running;
#[cfg(test)]
#[path = "../support/support.rs"]
#[expect(dead_code, reason = "each test binary uses its part")]
mod support;
#[cfg(test)]
mod wrong;
