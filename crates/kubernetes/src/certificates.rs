//! Certificates of the webhooks: what is held, what is due at a time, and how it is renewed.
//!
//! An authority signs for a year and a server's certificate is good for a week. A new authority begins to sign only
//! with the next server's certificate, when those who verify have long heard of it: until then they trust both. Nothing
//! here asks what time it is, or knows where certificates are kept.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use weir_tls::validity;
use x509_cert::der::Decode as _;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const AUTHORITY_LASTS: Duration = DAY.saturating_mul(365);
const AUTHORITY_IS_RENEWED: Duration = DAY.saturating_mul(30);
const SERVER_LASTS: Duration = DAY.saturating_mul(7);
const SERVER_IS_RENEWED: Duration = DAY;
/// Whoever has less left was not renewed when that was due. It is looked every hour, and an operator may be away then.
pub(crate) const AUTHORITY_LATE_BELOW: Duration = AUTHORITY_IS_RENEWED.saturating_sub(LATE);
pub(crate) const SERVER_LATE_BELOW: Duration = SERVER_IS_RENEWED.saturating_sub(LATE);
const LATE: Duration = Duration::from_secs(2 * 60 * 60);
/// Clocks of machines differ.
const BACKDATED: Duration = Duration::from_secs(60 * 60);
/// What authorities are called, with a number behind it: each has another name.
const AUTHORITY: &str = "telemetry-webhook-ca";
/// Authorities that are trusted at once.
const MAX_AUTHORITIES: usize = 4;

/// Certificates and their keys, as PEM text.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificates {
    /// Whom clients trust: the authority that signs now, and before it ends its predecessor.
    pub authorities: String,
    /// The key of the first authority.
    pub authority_key: String,
    /// The server's certificate.
    pub server: String,
    /// Its key.
    pub server_key: String,
}

/// Keys are secret.
impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

/// Why certificates cannot be made or used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// They cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// A name of the server is none.
    #[error("cannot make a certificate for {0:?}: it is no name of a server")]
    Name(String),
    /// They cannot be used. The cause is not shown, because it may quote a key.
    #[error("cannot use the certificate of the server")]
    Use,
}

/// What is held, renewed where that is due; `None` if it is good as it is. What cannot be read counts as not there.
///
/// # Errors
/// When certificates cannot be made, for example for a name that is none.
pub fn renewed(
    held: Option<&Certificates>,
    names: &[String],
    now: SystemTime,
) -> Result<Option<Certificates>, CertificateError> {
    let names = Names::new(names)?;
    let mut trusted = held.map(|held| valid(&held.authorities, now)).unwrap_or_default();
    let authority = held.and_then(|held| Authority::read(held, &names, now));
    let (is_kept, authority) = match authority {
        Some(authority) => (true, authority),
        None => (false, Authority::new(now)?),
    };
    if !is_kept {
        trusted.insert(0, authority.certificate.clone());
        trusted.truncate(MAX_AUTHORITIES);
    }
    let authorities: String = trusted.iter().map(|der| weir_tls::to_pem(std::slice::from_ref(der))).collect();
    let server = held.filter(|held| is_good(&held.server, &held.server_key, &trusted, &names, now));
    let (server, server_key) = match server {
        Some(held) => (held.server.clone(), held.server_key.clone()),
        None => authority.certify(&names, now)?,
    };
    let renewed = Certificates { authorities, authority_key: authority.key.serialize_pem(), server, server_key };
    let is_same =
        is_kept && held.is_some_and(|held| held.authorities == renewed.authorities && held.server == renewed.server);
    Ok((!is_same).then_some(renewed))
}

/// When something will be due.
pub fn due(held: &Certificates) -> SystemTime {
    let end = |pem: &str, before: Duration| certificates(pem).first().and_then(|der| Some(validity(der)?.1 - before));
    let ends = [end(&held.authorities, AUTHORITY_IS_RENEWED), end(&held.server, SERVER_IS_RENEWED)];
    ends.into_iter().map(|end| end.unwrap_or(UNIX_EPOCH)).min().unwrap_or(UNIX_EPOCH)
}

/// For a TLS server.
///
/// # Errors
/// When they do not belong together, or cannot be read.
pub fn certified(held: &Certificates) -> Result<Arc<CertifiedKey>, CertificateError> {
    let key = PrivateKeyDer::from_pem_slice(held.server_key.as_bytes()).map_err(|_| CertificateError::Use)?;
    let certified = weir_tls::identity(certificates(&held.server), key).map_err(|_| CertificateError::Use)?;
    Ok(Arc::new(certified))
}

/// The names that a server's certificate is for.
struct Names {
    texts: Vec<String>,
    names: Vec<ServerName<'static>>,
}

impl Names {
    fn new(texts: &[String]) -> Result<Self, CertificateError> {
        let name = |text: &String| ServerName::try_from(text.clone()).map_err(|_| CertificateError::Name(text.clone()));
        Ok(Self { texts: texts.to_vec(), names: texts.iter().map(name).collect::<Result<_, _>>()? })
    }
}

/// An authority that can sign.
struct Authority {
    certificate: CertificateDer<'static>,
    name: String,
    key: KeyPair,
}

impl Authority {
    fn new(now: SystemTime) -> Result<Self, CertificateError> {
        let name = format!("{AUTHORITY}-{:016x}", fastrand::u64(..));
        let key = KeyPair::generate()?;
        let certificate = Self::params(&name, now)?.self_signed(&key)?.der().clone();
        Ok(Self { certificate, name, key })
    }

    /// What such an authority is made of; what it is called is all that signing needs of it.
    fn params(name: &str, now: SystemTime) -> Result<CertificateParams, rcgen::Error> {
        let mut params = lasting(CertificateParams::new(Vec::new())?, now, AUTHORITY_LASTS);
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(params)
    }

    /// The one that is held, if it can sign for a while. One of another make may be read and still not sign well, so it
    /// is tried.
    fn read(held: &Certificates, names: &Names, now: SystemTime) -> Option<Self> {
        let certificate = certificates(&held.authorities).into_iter().next()?;
        let (begin, end) = validity(&certificate)?;
        if begin > now || end <= now + AUTHORITY_IS_RENEWED {
            return None;
        }
        let name = common_name(&certificate)?;
        let key = KeyPair::from_pem(&held.authority_key).ok()?;
        let authority = Self { certificate, name, key };
        let (server, key) = authority.certify(names, now).ok()?;
        is_good(&server, &key, std::slice::from_ref(&authority.certificate), names, now).then_some(authority)
    }

    /// A certificate for a server with these names, and its key.
    fn certify(&self, names: &Names, now: SystemTime) -> Result<(String, String), CertificateError> {
        let issuer = Issuer::new(Self::params(&self.name, now)?, &self.key);
        let mut params = lasting(CertificateParams::new(names.texts.clone())?, now, SERVER_LASTS);
        let name = names.texts.first().map_or("telemetry-webhook", String::as_str);
        // A common name has at most 64 characters; nobody looks at it.
        params.distinguished_name.push(DnType::CommonName, name.chars().take(64).collect::<String>());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

/// Whole seconds, as certificates have them.
fn lasting(mut params: CertificateParams, now: SystemTime, lasts: Duration) -> CertificateParams {
    let at = |time: SystemTime| {
        let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(since_1970)
    };
    params.not_before = at(now - BACKDATED);
    params.not_after = at(now - BACKDATED + lasts);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}

/// Whether a client that trusts these authorities takes a server's certificate, and will until it is to be renewed.
fn is_good(server: &str, key: &str, trusted: &[CertificateDer<'static>], names: &Names, now: SystemTime) -> bool {
    let chain = certificates(server);
    let Some((leaf, others)) = chain.split_first() else { return false };
    let Ok(key) = PrivateKeyDer::from_pem_slice(key.as_bytes()) else { return false };
    if weir_tls::identity(chain.clone(), key).is_err() {
        return false;
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let Ok(verifier) = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build() else {
        return false;
    };
    let times = [now, now + SERVER_IS_RENEWED].map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
    let verified = |name: &ServerName<'_>| {
        times.iter().all(|time| {
            let time = UnixTime::since_unix_epoch(*time);
            verifier.verify_server_cert(leaf, others, name, &[], time).is_ok()
        })
    };
    names.names.iter().all(verified)
}

/// The certificates of a text, as far as they can be read.
fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map_while(Result::ok).collect()
}

/// Those of a text that have not ended.
fn valid(pem: &str, now: SystemTime) -> Vec<CertificateDer<'static>> {
    certificates(pem).into_iter().filter(|der| validity(der).is_some_and(|(_, end)| end > now)).collect()
}

/// Whom each certificate of a text certifies, and until when.
pub(crate) fn subjects(pem: &str) -> Vec<(String, SystemTime)> {
    let subject = |der: &CertificateDer<'_>| {
        let certificate = x509_cert::Certificate::from_der(der).ok()?;
        Some((certificate.tbs_certificate().subject().to_string(), validity(der)?.1))
    };
    certificates(pem).iter().filter_map(subject).collect()
}

/// What an authority is called, if it has one of our names.
fn common_name(der: &CertificateDer<'_>) -> Option<String> {
    let certificate = x509_cert::Certificate::from_der(der).ok()?;
    let name = certificate.tbs_certificate().subject().to_string();
    name.strip_prefix("CN=").filter(|name| name.starts_with(AUTHORITY)).map(str::to_owned)
}

#[cfg(test)]
mod tests;
