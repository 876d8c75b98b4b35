//! The TLS side of a backend connection.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use weir_plan::{Identity, Tls};

/// The client configuration for a plan's TLS settings. For plain text, it is one that trusts nobody.
///
/// # Errors
/// When certificates or keys cannot be used, or the system has no root certificates and the settings name none.
pub fn client_config(tls: Option<&Tls>) -> Result<ClientConfig, String> {
    let mut config = config(tls)?;
    // Sessions that are kept have tickets of up to 64 KiB, and certificates. Connections live long: few would be resumed.
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn config(tls: Option<&Tls>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let Some(tls) = tls else {
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    };
    let builder = if tls.insecure_skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
    } else {
        builder.with_root_certificates(roots(tls.ca_pem.as_deref())?)
    };
    match &tls.identity {
        None => Ok(builder.with_no_client_auth()),
        Some(identity) => {
            let resolver = SingleCertAndKey::from(certified_key(identity)?);
            Ok(builder.with_client_cert_resolver(Arc::new(resolver)))
        }
    }
}

fn roots(ca_pem: Option<&str>) -> Result<Arc<RootCertStore>, String> {
    let Some(pem) = ca_pem else { return system_roots() };
    let roots = weir_tls::certificates(pem).and_then(weir_tls::roots);
    roots.map(|store| shared(store, &IN_USE)).map_err(|error| format!("cannot use tls.ca: {error}"))
}

/// The system's root certificates as they are now.
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    let mut store = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    store.add_parsable_certificates(native.certs);
    if store.is_empty() {
        let errors = native.errors.iter().map(|error| format!(" ({error})")).collect::<String>();
        return Err(format!("cannot find the system's root certificates{errors}; set tls.ca"));
    }
    Ok(shared(store, &IN_USE))
}

/// The roots that pipelines trust, each once.
type Roots = Mutex<Vec<Weak<RootCertStore>>>;

static IN_USE: Roots = Mutex::new(Vec::new());

/// `store`, or one in use with the same certificates: they take some 100 KiB, and most pipelines trust the same.
fn shared(store: RootCertStore, in_use: &Roots) -> Arc<RootCertStore> {
    let mut in_use = in_use.lock().unwrap_or_else(PoisonError::into_inner);
    in_use.retain(|roots| roots.strong_count() > 0);
    let same = in_use.iter().filter_map(Weak::upgrade).find(|roots| roots.roots == store.roots);
    same.unwrap_or_else(|| {
        let store = Arc::new(store);
        in_use.push(Arc::downgrade(&store));
        store
    })
}

fn certified_key(identity: &Identity) -> Result<CertifiedKey, String> {
    let chain = weir_tls::chain(&identity.cert_pem).map_err(|error| format!("cannot read tls.cert: {error}"))?;
    let key =
        weir_tls::private_key(identity.key_pem.reveal()).map_err(|error| format!("cannot read tls.key: {error}"))?;
    weir_tls::identity(chain, key).map_err(|error| format!("cannot use tls.cert with tls.key: {error}"))
}

/// `insecureSkipVerify`: any certificate will do. Signatures are still checked, so the peer does own its key.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::tls::Authority;

    use super::*;

    fn store() -> RootCertStore {
        weir_tls::certificates(&Authority::new().pem()).and_then(weir_tls::roots).unwrap()
    }

    #[test]
    fn the_same_roots_are_kept_once() {
        let (in_use, one, other) = (Mutex::default(), store(), store());
        let first = shared(one.clone(), &in_use);
        let second = shared(other.clone(), &in_use);
        assert_eq!(second.roots, other.roots);
        assert!(Arc::ptr_eq(&first, &shared(one, &in_use)));
        assert!(Arc::ptr_eq(&second, &shared(other.clone(), &in_use)));
        drop((first, second));
        assert_eq!(shared(other.clone(), &in_use).roots, other.roots);
        assert_eq!(in_use.into_inner().unwrap().len(), 1, "only those in use");
    }
}
