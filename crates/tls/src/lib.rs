//! Certificates and keys: PEM text to what TLS takes, or what is wrong with it.
//!
//! The code that checks a configuration and the code that connects with it both ask here. So what the one finds right
//! the other can use. This crate must not know pipelines, plans, connections, the file system or the clock.
//!
//! Invariants:
//! - **TLS-1** No message quotes the text or the bytes, which may be a key.
//! - **TLS-2** Whoever is shown a certificate decides whether to trust it: of our own certificate, only whether it
//!   belongs to the key is checked here.

#![forbid(unsafe_code)]

mod identity;
mod key;
mod pem;
mod roots;
mod serial;
mod validity;

pub use identity::{IdentityError, identity};
pub use pem::{certificates, chain, normalized, private_key, to_pem};
pub use roots::roots;
pub use serial::serial;
pub use validity::validity;
