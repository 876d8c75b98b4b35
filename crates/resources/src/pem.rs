//! Takes PEM text (RFC 7468) apart into blocks of the right kind.
//!
//! It knows form only; what the blocks contain is the matter of `certificate`. Its messages never quote the text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::PrivateKeyDer;

/// A block: its label and its bytes.
type Block<'a> = (&'a str, Vec<u8>);

/// Makes lines of `\n` written as two characters, as values often come through environment variables.
pub(crate) fn normalized(text: &str) -> String {
    text.replace("\\n", "\n")
}

/// One or more certificates (DER) and nothing else.
///
/// # Errors
/// What is wrong.
pub(crate) fn certificates(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let blocks = blocks(text)?;
    match blocks.iter().find(|(label, _)| *label != "CERTIFICATE") {
        Some((label, _)) if label.ends_with("PRIVATE KEY") => {
            Err("found a private key beside or instead of certificates".into())
        }
        Some(_) => Err("found a PEM block that is not a certificate".into()),
        None => Ok(blocks.into_iter().map(|(_, der)| der).collect()),
    }
}

/// One private key. The parameters of an EC key may stand before it.
///
/// # Errors
/// What is wrong.
pub(crate) fn private_key(text: &str) -> Result<PrivateKeyDer<'static>, String> {
    let mut found = None;
    for (label, der) in blocks(text)? {
        let key = match label {
            "PRIVATE KEY" => PrivateKeyDer::Pkcs8(der.into()),
            "RSA PRIVATE KEY" => PrivateKeyDer::Pkcs1(der.into()),
            "EC PRIVATE KEY" => PrivateKeyDer::Sec1(der.into()),
            "EC PARAMETERS" => continue,
            "ENCRYPTED PRIVATE KEY" => return Err("the private key is encrypted, which is not supported".into()),
            _ => return Err("found a PEM block that is not a private key".into()),
        };
        if found.replace(key).is_some() {
            return Err("found more than one private key".into());
        }
    }
    found.ok_or_else(|| "found no private key".into())
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
