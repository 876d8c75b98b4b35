//! Certificates and keys: PEM text to what TLS takes, or what is wrong with it.
//!
//! Whoever checks a configuration and whoever connects with it both ask here, so that what one finds right the other can
//! use. It must not know pipelines, plans, connections, the file system or the clock.
//!
//! Invariants:
//! - **TLS-1** No message quotes the text or the bytes, which may be a key.
//! - **TLS-2** Whether a certificate convinces anybody is decided by who is shown it: our own is only asked whether it
//!   belongs to the key.

#![forbid(unsafe_code)]

mod identity;
mod key;
mod pem;
mod roots;

pub use identity::{IdentityError, identity};
pub use pem::{certificates, chain, normalized, private_key, to_pem};
pub use roots::roots;
