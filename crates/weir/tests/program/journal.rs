//! `weir journal` as its users see it: journals made by the crate itself and by a running gateway, the program run on
//! them, its output and exit codes. Nothing it does changes a byte of the directory.

mod directory;
mod export;
mod inspect;
mod running;
mod wrong;
