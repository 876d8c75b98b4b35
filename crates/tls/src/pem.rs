//! Takes PEM text (RFC 7468) apart into blocks of the right kind. It knows form only.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const CERTIFICATE: &str = "CERTIFICATE";
/// How the labels of private keys end.
const PRIVATE_KEY: &str = "PRIVATE KEY";
/// Of an EC key, which may stand before it and says nothing that the key does not.
const EC_PARAMETERS: &str = "EC PARAMETERS";

/// Characters in a line of a block.
const LINE: usize = 64;

/// A block: its label and its bytes.
type Block<'a> = (&'a str, Vec<u8>);

/// Makes lines of `\n` written as two characters, as values often come through environment variables.
pub fn normalized(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// One or more certificates and nothing else.
///
/// # Errors
/// What is wrong.
pub fn certificates(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let blocks = blocks(text)?;
    match blocks.iter().find(|(label, _)| *label != CERTIFICATE) {
        Some((label, _)) if label.ends_with(PRIVATE_KEY) => {
            Err("found a private key beside or instead of certificates".into())
        }
        Some(_) => Err("found a PEM block that is not a certificate".into()),
        None => Ok(blocks.into_iter().map(|(_, der)| der.into()).collect()),
    }
}

/// The certificates that prove who somebody is. Their private key may stand in the same text.
///
/// # Errors
/// What is wrong.
pub fn chain(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut chain = Vec::new();
    for (label, der) in blocks(text)? {
        match label {
            CERTIFICATE => chain.push(der.into()),
            EC_PARAMETERS => {}
            key if key.ends_with(PRIVATE_KEY) => {}
            _ => return Err("found a PEM block that is not a certificate".into()),
        }
    }
    if chain.is_empty() { Err("found a private key instead of certificates".into()) } else { Ok(chain) }
}

/// One private key. Its certificates may stand in the same text.
///
/// # Errors
/// What is wrong.
pub fn private_key(text: &str) -> Result<PrivateKeyDer<'static>, String> {
    let mut found = None;
    for (label, der) in blocks(text)? {
        let key = match label {
            "PRIVATE KEY" => PrivateKeyDer::Pkcs8(der.into()),
            "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(der.into()),
            "EC PRIVATE KEY" => PrivateKeyDer::Sec1(der.into()),
            EC_PARAMETERS | CERTIFICATE => continue,
            "ENCRYPTED PRIVATE KEY" => return Err("the private key is encrypted, which is not supported".into()),
            _ => return Err("found a PEM block that is not a private key".into()),
        };
        if found.replace(key).is_some() {
            return Err("found more than one private key".into());
        }
    }
    found.ok_or_else(|| "found no private key".into())
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

/// All blocks, at least one. Text between blocks is a comment.
fn blocks(text: &str) -> Result<Vec<Block<'_>>, String> {
    let mut blocks = Vec::new();
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
        match BASE64_STANDARD.decode(&body) {
            Ok(der) if !der.is_empty() => blocks.push((label, der)),
            _ => return Err("a PEM block is not valid base64".into()),
        }
    }
    if blocks.is_empty() { Err("failed to decode PEM block: found none".into()) } else { Ok(blocks) }
}
