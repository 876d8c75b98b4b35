//! Certificates and keys as `openssl` writes them.

use rustls::pki_types::PrivateKeyDer;
use weir_tls::{IdentityError, certificates, chain, identity, private_key, roots, serial, to_pem};

/// X.509 v1: what `openssl x509 -req` makes when it is told nothing of extensions.
const V1_CERTIFICATE: &str = include_str!("pems/v1.crt");
const V1_KEY: &str = include_str!("pems/v1.key");
const OTHER_KEY: &str = include_str!("pems/other.key");

fn identity_error(key: PrivateKeyDer<'static>) -> Option<IdentityError> {
    identity(chain(V1_CERTIFICATE).unwrap_or_default(), key).err()
}

#[test]
fn a_certificate_of_version_1_is_used_with_its_key_and_no_other() {
    let usable = identity(chain(V1_CERTIFICATE).unwrap(), private_key(V1_KEY).unwrap()).unwrap();
    assert_eq!(usable.cert, chain(V1_CERTIFICATE).unwrap());
    assert_eq!(identity_error(private_key(OTHER_KEY).unwrap()), Some(IdentityError::Mismatch));
}

/// The first bit of one is set, and one is negative.
#[test]
fn serial_numbers_are_written_as_openssl_does() {
    let of = |pem: &str| serial(&chain(pem).unwrap()[0]).unwrap();
    assert_eq!(of(V1_CERTIFICATE), "0238B8F654834DE99B8F018B7D9B9C794A64226A");
    assert_eq!(of(include_str!("pems/large-serial.crt")), "FF00000000000000000000000000000000001A");
    assert_eq!(of(include_str!("pems/negative-serial.crt")), "-81");
}

#[test]
fn certificate_and_key_may_share_a_text_in_any_order() {
    for both in [[V1_CERTIFICATE, V1_KEY].concat(), [V1_KEY, V1_CERTIFICATE].concat()] {
        let certificates = chain(&both).unwrap();
        assert_eq!(to_pem(&certificates), V1_CERTIFICATE, "nothing of the key is left in it");
        identity(certificates, private_key(&both).unwrap()).unwrap();
    }
    assert_eq!(
        certificates(&[V1_CERTIFICATE, V1_KEY].concat()).unwrap_err(),
        "found a private key beside or instead of certificates"
    );
    assert_eq!(chain(V1_KEY).unwrap_err(), "found a private key instead of certificates");
    assert_eq!(private_key(V1_CERTIFICATE).unwrap_err(), "found no private key");
}

#[test]
fn a_key_that_cannot_be_used_is_called_what_it_is() {
    for (key, kind) in [
        (include_str!("pems/p521.key"), "ECDSA with P-521"),
        (include_str!("pems/p521-sec1.key"), "ECDSA with P-521"),
        (include_str!("pems/rsa1024-pkcs1.key"), "RSA with 1024 bits"),
        (include_str!("pems/rsa8192.key"), "RSA with 8192 bits"),
        (include_str!("pems/rsa2048-exponent3.key"), "RSA with a public exponent below 65537"),
        (include_str!("pems/ed448.key"), "Ed448"),
    ] {
        let message = identity_error(private_key(key).unwrap()).unwrap().to_string();
        let start = format!("the private key is not supported: it is {kind}; supported are RSA with 2048");
        assert!(message.starts_with(&start), "{message}");
    }
}

#[test]
fn a_key_that_is_damaged_is_called_that() {
    let PrivateKeyDer::Pkcs8(sound) = private_key(V1_KEY).unwrap() else { panic!("it is of PKCS #8") };
    for end in 0..sound.secret_pkcs8_der().len() {
        let cut = PrivateKeyDer::Pkcs8(sound.secret_pkcs8_der()[..end].to_vec().into());
        let damaged = IdentityError::Key("failed to parse private key".into());
        assert_eq!(identity_error(cut), Some(damaged), "{end} bytes");
    }
}

#[test]
fn what_is_no_certificate_is_no_authority() {
    let garbage = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----";
    roots(certificates(garbage).unwrap()).unwrap_err();
    let error = identity(chain(garbage).unwrap(), private_key(V1_KEY).unwrap()).unwrap_err();
    assert_eq!(error, IdentityError::Certificate);
}

#[test]
fn a_text_is_read_as_a_whole_or_not_at_all() {
    let read = |text: &str| certificates(text).map(|certificates| certificates.len());
    let indented = V1_CERTIFICATE.replace('\n', "\r\n\r\n  ");
    assert_eq!(read(&format!("Issuer: somebody\n{V1_CERTIFICATE}  subject=other\n{indented}")), Ok(2));
    let open = V1_CERTIFICATE.replace("-----END CERTIFICATE-----\n", "");
    let unpadded = "-----BEGIN CERTIFICATE-----\nYWJj\n";
    for text in [&open, &[&open, V1_CERTIFICATE].concat(), &[unpadded, V1_CERTIFICATE].concat()] {
        assert_eq!(read(text), Err("a PEM block has no END line".into()), "{text}");
    }
    let other = V1_CERTIFICATE.replace("END CERTIFICATE", "END PRIVATE KEY");
    assert_eq!(read(&other), Err("a PEM block has no END line".into()));
    let trusted = V1_CERTIFICATE.replace("CERTIFICATE", "TRUSTED CERTIFICATE");
    assert_eq!(read(&[V1_CERTIFICATE, &trusted].concat()), Err("found a PEM block that is not a certificate".into()));
    let headers = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\nYWJj\n-----END RSA PRIVATE KEY-----";
    assert_eq!(private_key(headers).unwrap_err(), "a PEM block has headers, which are not supported");
}
