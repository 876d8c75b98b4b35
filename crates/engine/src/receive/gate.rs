//! Who may use a port: TLS, client certificates and bearer tokens. Open to everybody unless asked for.

mod chains;
mod unheard;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use subtle::{Choice, ConstantTimeEq as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use weir_plan::Secret;

use self::chains::ShortChains;
use self::unheard::{Bounded, Heard, Unheard};
use super::Refusal;
use crate::settings::{PortSecurity, PortTls};

/// For a TLS handshake. A client that takes longer has nothing to send.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// What is kept of answers that a client does not read.
const UNSENT_BYTES: usize = 16 * 1024;

/// The rules as they are now. They can be replaced while connections are served.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The protocols that its port speaks above TLS, the best first.
    protocols: &'static [&'static str],
    rules: RwLock<Arc<Admission>>,
}

/// Of the OTLP ports.
pub(crate) const HTTP2_AND_1: &[&str] = &["h2", "http/1.1"];
/// Of the admin port.
pub(crate) const HTTP1: &[&str] = &["http/1.1"];

#[derive(Debug)]
pub(crate) struct Admission {
    tls: Option<Tls>,
    tokens: Vec<Secret>,
    knows_clients: bool,
}

#[derive(Clone)]
struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Gate {
    pub(crate) fn new(protocols: &'static [&'static str], security: &PortSecurity) -> Result<Self, String> {
        Ok(Self { protocols, rules: RwLock::new(Arc::new(rules(protocols, security)?)) })
    }

    /// Other rules, if they can be used.
    pub(crate) fn prepare(&self, security: &PortSecurity) -> Result<Admission, String> {
        rules(self.protocols, security)
    }

    /// These rules hold for connections and requests from now on.
    pub(crate) fn replace(&self, rules: Admission) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    fn rules(&self) -> Arc<Admission> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether connections begin with a TLS handshake.
    pub(crate) fn wants_tls(&self) -> bool {
        self.rules().tls.is_some()
    }

    /// The server's side of the handshake; `None` when it fails, which is the client's business.
    pub(crate) async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> Option<impl AsyncRead + AsyncWrite + Unpin + use<S>> {
        let Tls(acceptor) = self.rules().tls.clone()?;
        let unheard = Unheard::default();
        let stream = Bounded::new(stream, unheard.clone());
        let accept = acceptor.accept_with(stream, |session| session.set_buffer_limit(Some(UNSENT_BYTES)));
        let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, accept).await;
        match shaken {
            Ok(Ok(mut stream)) => {
                stream.get_mut().0.is_shaken();
                Some(Heard::new(stream, unheard))
            }
            Ok(Err(error)) => {
                tracing::debug!(%error, "a client's TLS handshake failed");
                None
            }
            Err(_) => None,
        }
    }

    /// Whether clients have to show a certificate or a token.
    pub(crate) fn knows_clients(&self) -> bool {
        self.rules().knows_clients
    }

    /// Whether a request with these headers may be taken.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let rules = self.rules();
        if rules.tokens.is_empty() {
            return Ok(());
        }
        let given = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        let Some(given) = given else { return Err(Refusal::unauthenticated("a bearer token is needed")) };
        // All are compared, and wholly, so that time tells nothing about which is nearest.
        let same = |token: &Secret| token.reveal().as_bytes().ct_eq(given);
        let known = rules.tokens.iter().fold(Choice::from(0), |known, token| known | same(token));
        if known.into() {
            Ok(())
        } else {
            Err(Refusal::unauthenticated("the bearer token is not one of those configured"))
        }
    }
}

/// The token of an `authorization` header; its scheme is not case-sensitive (RFC 9110 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

fn rules(protocols: &[&str], security: &PortSecurity) -> Result<Admission, String> {
    let tls = security.tls.as_ref().map(|tls| acceptor(protocols, tls)).transpose()?.map(Tls);
    Ok(Admission { tls, tokens: security.tokens.clone(), knows_clients: security.knows_clients() })
}

fn acceptor(protocols: &[&str], tls: &PortTls) -> Result<TlsAcceptor, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &tls.client_ca_pem {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let fail = |error: String| format!("cannot use the clients' CA: {error}");
            let roots = weir_tls::certificates(pem).and_then(weir_tls::roots).map_err(fail)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|error| fail(error.to_string()))?;
            builder.with_client_cert_verifier(Arc::new(ShortChains(verifier)))
        }
    };
    let chain = weir_tls::chain(&tls.cert_pem).map_err(|error| format!("cannot read the certificate: {error}"))?;
    let key =
        weir_tls::private_key(tls.key_pem.reveal()).map_err(|error| format!("cannot read the private key: {error}"))?;
    let identity = weir_tls::identity(chain, key)
        .map_err(|error| format!("cannot use the certificate with the private key: {error}"))?;
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    // Kept sessions hold their clients' certificates. Connections live long, so few sessions would be resumed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_token_is_the_token() {
        let security = PortSecurity { tls: None, tokens: vec![Secret::new("abc"), Secret::new("other")] };
        let gate = Gate::new(HTTP1, &security).unwrap();
        let check = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            gate.check(&headers).is_ok()
        };
        for value in ["Bearer abc", "bearer abc", "BEARER other", "Bearer  abc "] {
            assert!(check(value), "{value}");
        }
        for value in ["abc", "Bearer", "Bearer ", "Bearer ab", "Bearer abcd", "Bearer ABC", "Basic abc", "Bearerabc"] {
            assert!(!check(value), "{value}");
        }
        assert!(gate.check(&HeaderMap::new()).is_err());
        gate.replace(gate.prepare(&PortSecurity::default()).unwrap());
        assert!(gate.check(&HeaderMap::new()).is_ok());
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let tls = |cert_pem: &str, client_ca_pem: Option<&str>| {
            let (cert_pem, client_ca_pem) = (cert_pem.to_owned(), client_ca_pem.map(str::to_owned));
            let tls = Some(PortTls { cert_pem, key_pem: Secret::new("key"), client_ca_pem });
            Gate::new(HTTP1, &PortSecurity { tls, tokens: Vec::new() }).unwrap_err()
        };
        assert_eq!(tls("x", None), "cannot read the certificate: failed to decode PEM block: found none");
        assert!(tls("x", Some("y")).starts_with("cannot use the clients' CA"));
    }
}
