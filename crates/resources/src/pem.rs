//! Checks that a text is PEM (RFC 7468) with blocks of the right kind.
//!
//! It checks form only: whether a certificate is valid, or fits its key, is found out where TLS is set up. Its
//! messages never quote the text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

/// Labels of keys that can be used. The parameters of an EC key may stand before it.
const KEY_LABELS: &[&str] = &["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

/// Makes lines of `\n` written as two characters, as values often come through environment variables.
pub(crate) fn normalized(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// Checks for one or more certificates and nothing else.
///
/// # Errors
/// What is wrong.
pub(crate) fn check_certificates(text: &str) -> Result<(), String> {
    let labels = blocks(text)?;
    match labels.iter().find(|label| **label != "CERTIFICATE") {
        Some(label) if label.ends_with("PRIVATE KEY") => {
            Err("found a private key beside or instead of certificates".into())
        }
        Some(_) => Err("found a PEM block that is not a certificate".into()),
        None => Ok(()),
    }
}

/// Checks for one private key.
///
/// # Errors
/// What is wrong.
pub(crate) fn check_key(text: &str) -> Result<(), String> {
    let labels = blocks(text)?;
    if labels.contains(&"ENCRYPTED PRIVATE KEY") {
        return Err("the private key is encrypted, which is not supported".into());
    }
    if labels.iter().any(|label| !KEY_LABELS.contains(label) && *label != "EC PARAMETERS") {
        return Err("found a PEM block that is not a private key".into());
    }
    match labels.iter().filter(|label| KEY_LABELS.contains(label)).count() {
        0 => Err("found no private key".into()),
        1 => Ok(()),
        _ => Err("found more than one private key".into()),
    }
}

/// The labels of all blocks, at least one. Text between blocks is a comment.
fn blocks(text: &str) -> Result<Vec<&str>, String> {
    let mut labels = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {label}-----");
        let mut body = String::new();
        loop {
            match lines.next() {
                None => return Err("a PEM block has no END line".into()),
                Some(line) if line == end => break,
                // Headers of the older format ("Proc-Type: 4,ENCRYPTED").
                Some(line) if line.contains(':') => {
                    return Err("a PEM block has headers, which are not supported".into());
                }
                Some(line) => body.push_str(line),
            }
        }
        if body.is_empty() || BASE64_STANDARD.decode(&body).is_err() {
            return Err("a PEM block is not valid base64".into());
        }
        labels.push(label);
    }
    if labels.is_empty() { Err("failed to decode PEM block: found none".into()) } else { Ok(labels) }
}
