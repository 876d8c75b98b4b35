//! Which certificate of its issuer one is.

use std::fmt::Write as _;

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// The serial number in upper-case hexadecimal digits, as `openssl x509 -serial` prints it; 43 characters at most. `None` if
/// the certificate cannot be read, as one with a longer number.
pub fn serial(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(digits(certificate.tbs_certificate().serial_number().as_bytes()))
}

/// A number in two's complement, its first byte first.
fn digits(number: &[u8]) -> String {
    let is_negative = number.first().is_some_and(|first| *first >= 0x80);
    let magnitude = if is_negative { negated(number) } else { number.to_vec() };
    let bytes = match magnitude.as_slice() {
        // It says nothing but the sign.
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    let mut digits = if is_negative { "-".to_owned() } else { String::new() };
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(digits, "{byte:02X}");
    }
    digits
}

fn negated(number: &[u8]) -> Vec<u8> {
    let (mut negated, mut carry) = (number.to_vec(), true);
    for byte in negated.iter_mut().rev() {
        (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
    }
    negated
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some CAs write negative ones, though they must not.
    #[test]
    fn numbers_have_their_signs() {
        let numbers: [(&[u8], &str); 10] = [
            (&[0], "00"),
            (&[0x7F], "7F"),
            (&[0, 0x80], "80"),
            (&[1, 0], "0100"),
            (&[0xFF], "-01"),
            (&[0x80], "-80"),
            (&[0xFF, 0x7F], "-81"),
            (&[0xFF, 0x01], "-FF"),
            (&[0xFF, 0x00], "-0100"),
            (&[0xED, 0xCB, 0xAA], "-123456"),
        ];
        for (number, shown) in numbers {
            assert_eq!(digits(number), shown, "{number:x?}");
        }
    }
}
