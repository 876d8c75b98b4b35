//! Takes PEM text (RFC 7468) apart into blocks of the right kind. It knows form only.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::pem::{Error, PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const CERTIFICATE: &str = "CERTIFICATE";
/// How the labels of private keys end.
const PRIVATE_KEY: &str = "PRIVATE KEY";
/// Of an EC key, which may stand before it and says nothing that the key does not.
const EC_PARAMETERS: &str = "EC PARAMETERS";

/// Characters in a line of a block.
const LINE: usize = 64;

/// Makes lines of `\n` written as two characters, as values often come through environment variables.
pub fn normalized(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// One or more certificates and nothing else.
///
/// # Errors
/// What is wrong.
pub fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    match labels(text).find(|label| *label != CERTIFICATE) {
        Some(label) if label.ends_with(PRIVATE_KEY) => {
            Err("found a private key beside or instead of certificates".into())
        }
        Some(_) => Err("found a PEM block that is not a certificate".into()),
        None => read(text),
    }
}

/// The certificates that prove who somebody is. Their private key may stand in the same text.
///
/// # Errors
/// What is wrong.
pub fn chain(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let is_known = |label: &str| [CERTIFICATE, EC_PARAMETERS].contains(&label) || label.ends_with(PRIVATE_KEY);
    if !labels(text).all(is_known) {
        return Err("found a PEM block that is not a certificate".into());
    }
    let chain = read(text)?;
    if chain.is_empty() { Err("found a private key instead of certificates".into()) } else { Ok(chain) }
}

/// One private key. Its certificates may stand in the same text.
///
/// # Errors
/// What is wrong.
pub fn private_key(text: &str) -> Result<PrivateKeyDer<'static>, String> {
    for label in labels(text) {
        match label {
            "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" | EC_PARAMETERS | CERTIFICATE => {}
            "ENCRYPTED PRIVATE KEY" => return Err("the private key is encrypted, which is not supported".into()),
            _ => return Err("found a PEM block that is not a private key".into()),
        }
    }
    let mut keys = read(text)?;
    match (keys.pop(), keys.is_empty()) {
        (Some(key), true) => Ok(key),
        (Some(_), false) => Err("found more than one private key".into()),
        (None, _) => Err("found no private key".into()),
    }
}

/// Certificates as text, and nothing of what stood between them.
pub fn to_pem(certificates: &[CertificateDer<'_>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        let body = BASE64_STANDARD.encode(certificate);
        text += &format!("-----BEGIN {CERTIFICATE}-----\n");
        for start in (0..body.len()).step_by(LINE) {
            text += &body[start..body.len().min(start + LINE)];
            text.push('\n');
        }
        text += &format!("-----END {CERTIFICATE}-----\n");
    }
    text
}

/// All blocks of a kind, in a text with at least one block. What stands between blocks is a comment.
fn read<T: PemObject>(text: &str) -> Result<Vec<T>, String> {
    let ends = text.lines().filter(|line| line.trim().starts_with("-----END ")).count();
    match labels(text).count() {
        0 => return Err("failed to decode PEM block: found none".into()),
        // The library would take it and the next one for one block.
        begun if begun > ends => return Err("a PEM block has no END line".into()),
        _ => {}
    }
    // Whoever writes them into YAML may indent them.
    let lines: String = text.lines().flat_map(|line| [line.trim(), "\n"]).collect();
    let blocks: Result<Vec<(SectionKind, Vec<u8>)>, Error> = PemObject::pem_slice_iter(lines.as_bytes()).collect();
    match blocks {
        Ok(blocks) if blocks.iter().all(|(_, der)| !der.is_empty()) => {
            Ok(blocks.into_iter().filter_map(|(kind, der)| T::from_pem(kind, der)).collect())
        }
        Err(Error::MissingSectionEnd { .. }) => Err("a PEM block has no END line".into()),
        // The headers of the older format begin with this one.
        Err(_) if text.contains("Proc-Type:") => Err("a PEM block has headers, which are not supported".into()),
        _ => Err("a PEM block is not valid base64".into()),
    }
}

/// What the blocks say they are. The library passes over those that it does not know.
fn labels(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----"))
}
