//! Private keys: one that can be used, or what kind it is that cannot.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use x509_cert::der::asn1::{AnyRef, ContextSpecific, ObjectIdentifier, OctetStringRef, UintRef};
use x509_cert::der::{self, Reader as _, SliceReader, TagNumber};

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// Kinds of keys that are known by name and not supported.
const OTHERS: [(&str, &str); 5] = [
    ("1.3.101.113", "Ed448"),
    ("1.2.840.113549.1.1.10", "RSASSA-PSS"),
    ("1.2.840.10040.4.1", "DSA"),
    ("1.3.101.110", "X25519"),
    ("1.3.101.111", "X448"),
];

/// Curves by their names, and whether they are supported.
const CURVES: [(&str, &str, bool); 6] = [
    ("1.2.840.10045.3.1.7", "P-256", true),
    ("1.3.132.0.34", "P-384", true),
    ("1.3.132.0.35", "P-521", false),
    ("1.3.132.0.33", "P-224", false),
    ("1.3.132.0.10", "secp256k1", false),
    ("1.3.36.3.3.2.8.1.1.7", "brainpoolP256r1", false),
];

const ED25519: &str = "1.3.101.112";

/// Bits of an RSA key.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// The least public exponent of an RSA key, 65537.
const RSA_EXPONENT: &[u8] = &[1, 0, 1];

const SUPPORTED: &str = "RSA with 2048 to 4096 bits, ECDSA with P-256 or P-384, and Ed25519";

/// Makes a key ready to sign with.
pub(crate) fn load(key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, String> {
    let kind = unsupported(&key);
    ring::default_provider().key_provider.load_private_key(key).map_err(|_| match kind {
        Some(kind) => format!("the private key is not supported: it is {kind}; supported are {SUPPORTED}"),
        None => "failed to parse private key".to_owned(),
    })
}

/// What kind of key it is, if it is sound as far as one can see and of a kind that is not supported.
fn unsupported(key: &PrivateKeyDer<'_>) -> Option<String> {
    let kind = match key {
        PrivateKeyDer::Pkcs1(key) => rsa(key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(key) => sec1(key.secret_sec1_der()),
        PrivateKeyDer::Pkcs8(key) => pkcs8(key.secret_pkcs8_der()),
        _ => return None,
    };
    kind.ok().flatten()
}

/// RFC 5958: version, algorithm, key, and more.
fn pkcs8(der: &[u8]) -> der::Result<Option<String>> {
    let (algorithm, parameters, key) = SliceReader::new(der)?.sequence(|reader| {
        let _version: UintRef<'_> = reader.decode()?;
        let (algorithm, parameters) = reader.sequence(|reader| {
            let algorithm: ObjectIdentifier = reader.decode()?;
            let parameters: Option<AnyRef<'_>> = if reader.is_finished() { None } else { Some(reader.decode()?) };
            Ok::<_, der::Error>((algorithm, parameters))
        })?;
        let key: &OctetStringRef = reader.decode()?;
        skip_rest(reader)?;
        Ok::<_, der::Error>((algorithm, parameters, key))
    })?;
    match algorithm {
        RSA => rsa(key.as_bytes()),
        EC => Ok(curve(parameters.and_then(|parameters| parameters.try_into().ok()))),
        other => Ok(other_kind(&other.to_string())),
    }
}

/// RFC 8017, A.1.2: version, modulus, public exponent, and what is secret.
fn rsa(der: &[u8]) -> der::Result<Option<String>> {
    SliceReader::new(der)?.sequence(|reader| {
        let _version: UintRef<'_> = reader.decode()?;
        let modulus: UintRef<'_> = reader.decode()?;
        let exponent: UintRef<'_> = reader.decode()?;
        skip_rest(reader)?;
        let bits = bits(modulus.as_bytes());
        let exponent = exponent.as_bytes();
        let small = exponent.len() < RSA_EXPONENT.len() || (exponent.len() == 3 && exponent < RSA_EXPONENT);
        Ok(match RSA_BITS.contains(&bits) {
            false => Some(format!("RSA with {bits} bits")),
            true if small => Some("RSA with a public exponent below 65537".to_owned()),
            true => None,
        })
    })
}

/// RFC 5915: version, key, and the curve unless it is known otherwise.
fn sec1(der: &[u8]) -> der::Result<Option<String>> {
    SliceReader::new(der)?.sequence(|reader| {
        let _version: UintRef<'_> = reader.decode()?;
        let _key: &OctetStringRef = reader.decode()?;
        let named = ContextSpecific::<ObjectIdentifier>::decode_explicit(reader, TagNumber(0))?;
        skip_rest(reader)?;
        Ok(named.and_then(|named| curve(Some(named.value))))
    })
}

fn curve(named: Option<ObjectIdentifier>) -> Option<String> {
    let Some(named) = named.map(|named| named.to_string()) else {
        return Some("ECDSA with a curve that has no name".to_owned());
    };
    match CURVES.iter().find(|(id, ..)| *id == named) {
        Some((.., true)) => None,
        Some((_, name, false)) => Some(format!("ECDSA with {name}")),
        None => Some(format!("ECDSA with the curve {named}")),
    }
}

fn other_kind(algorithm: &str) -> Option<String> {
    if algorithm == ED25519 {
        return None;
    }
    let known = OTHERS.iter().find(|(id, _)| *id == algorithm);
    Some(known.map_or_else(|| format!("a key of the algorithm {algorithm}"), |(_, name)| (*name).to_owned()))
}

/// Bits of a number without leading zero bytes.
fn bits(number: &[u8]) -> usize {
    let leading = number.first().map_or(0, |first| first.leading_zeros() as usize);
    number.len() * 8 - leading
}

fn skip_rest(reader: &mut SliceReader<'_>) -> der::Result<()> {
    reader.read_slice(reader.remaining_len())?;
    Ok(())
}
