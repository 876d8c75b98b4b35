//! Who may use a port: TLS, client certificates and bearer tokens. Open to everybody unless asked for.

mod chains;
mod unheard;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
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
    ports: &'static Ports,
    rules: watch::Sender<Arc<PortRules>>,
}

/// What is behind a gate.
#[derive(Debug)]
pub(crate) struct Ports {
    name: &'static str,
    /// The protocols that are spoken there above TLS, the best first.
    protocols: &'static [&'static str],
    /// The flags that name the files, for whoever has to correct one.
    cert: &'static str,
    key: &'static str,
    client_ca: &'static str,
}

/// Where telemetry comes in.
pub(crate) const OTLP_PORTS: &Ports = &Ports {
    name: "the OTLP ports",
    protocols: &["h2", "http/1.1"],
    cert: "--tls-cert",
    key: "--tls-key",
    client_ca: "--tls-client-ca",
};

/// Where those look who run the gateway.
pub(crate) const ADMIN: &Ports = &Ports {
    name: "the admin port",
    protocols: &["http/1.1"],
    cert: "--admin-tls-cert",
    key: "--admin-tls-key",
    client_ca: "--admin-tls-client-ca",
};

/// Who may use a port.
#[derive(Debug)]
pub(crate) struct PortRules {
    tls: Option<Tls>,
    tokens: BTreeMap<u32, Secret>,
    knows_clients: bool,
    era: Era,
    /// How often they have been replaced.
    edition: u64,
}

/// Whose request may be taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Admitted {
    /// The line of the token, from 1, if one is needed.
    pub(crate) token: Option<u32>,
    /// That of the rules: others may have other tokens on the same lines.
    pub(crate) edition: u64,
}

/// Rules that follow each other are of one era for as long as they take everybody who could connect before. Tokens do not
/// matter: they are asked for with every request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Era(u64);

/// The server's side of TLS.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    /// Of clients; `None` takes those without a certificate.
    authorities: Option<Arc<RootCertStore>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Gate {
    pub(crate) fn new(ports: &'static Ports, security: &PortSecurity) -> Result<Self, String> {
        Ok(Self { ports, rules: watch::Sender::new(Arc::new(rules(ports, security)?)) })
    }

    /// Other rules, if they can be used.
    pub(crate) fn prepare(&self, security: &PortSecurity) -> Result<PortRules, String> {
        rules(self.ports, security)
    }

    /// These rules hold for connections and requests from now on. Whether an era ends with that.
    pub(crate) fn replace(&self, rules: PortRules) -> bool {
        let mut ends = false;
        self.rules.send_modify(|before| {
            ends = !rules.takes_all_of(before);
            let Era(era) = before.era;
            let edition = before.edition + 1;
            *before = Arc::new(PortRules { era: Era(era + u64::from(ends)), edition, ..rules });
        });
        ends
    }

    fn rules(&self) -> Arc<PortRules> {
        Arc::clone(&self.rules.borrow())
    }

    /// What holds for a connection that comes now: its era, and its handshake if it needs one.
    pub(crate) fn rules_now(&self) -> (Era, Option<Tls>) {
        let rules = self.rules();
        (rules.era, rules.tls.clone())
    }

    /// Resolves when the rules are no longer of this era: a connection of this era may be one that they would not take.
    pub(crate) async fn until_over(&self, era: Era) {
        let mut rules = self.rules.subscribe();
        // There is no error, because the sender is here.
        let _ = rules.wait_for(|rules| rules.era != era).await;
    }

    /// Whether connections begin with a TLS handshake.
    pub(crate) fn wants_tls(&self) -> bool {
        self.rules().tls.is_some()
    }

    /// Whether clients have to show a certificate or a token.
    pub(crate) fn knows_clients(&self) -> bool {
        self.rules().knows_clients
    }

    /// Whether a request with these headers may be taken, and which of the tokens it has.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<Admitted, Refusal> {
        let rules = self.rules();
        let edition = rules.edition;
        if rules.tokens.is_empty() {
            return Ok(Admitted { token: None, edition });
        }
        let given = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        let Some(given) = given else { return Err(Refusal::unauthenticated("a bearer token is needed")) };
        // All are compared, and wholly, so that time tells nothing about which is nearest.
        let same = |token: &Secret| token.reveal().as_bytes().ct_eq(given);
        let tokens = rules.tokens.iter();
        let line = tokens.fold(0, |known, (line, token)| u32::conditional_select(&known, line, same(token)));
        if line == 0 {
            return Err(Refusal::unauthenticated("the bearer token is not one of those configured"));
        }
        Ok(Admitted { token: Some(line), edition })
    }
}

impl PortRules {
    /// Whether whoever could connect under the other rules may do so under these.
    fn takes_all_of(&self, other: &Self) -> bool {
        match (&self.tls, &other.tls) {
            (None, None) => true,
            (Some(tls), Some(other)) => tls.takes_all_of(other),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

impl Tls {
    /// The server's own certificate does not matter: who trusts it is the clients' business.
    fn takes_all_of(&self, other: &Self) -> bool {
        match (&self.authorities, &other.authorities) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(authorities), Some(others)) => {
                let known: HashSet<_> = authorities.roots.iter().collect();
                others.roots.iter().all(|authority| known.contains(authority))
            }
        }
    }

    /// The server's side of the handshake; `None` when it fails, which is the client's business.
    pub(crate) async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        stream: S,
    ) -> Option<impl AsyncRead + AsyncWrite + Unpin + use<S>> {
        let unheard = Unheard::default();
        let stream = Bounded::new(stream, unheard.clone());
        let accept = self.acceptor.accept_with(stream, |session| session.set_buffer_limit(Some(UNSENT_BYTES)));
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
}

/// The token of an `authorization` header; its scheme is not case-sensitive (RFC 9110 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

fn rules(ports: &Ports, security: &PortSecurity) -> Result<PortRules, String> {
    let fail = |error: String| format!("cannot secure {}: {error}", ports.name);
    let tls = security.tls.as_ref().map(|tls| server_side(ports, tls)).transpose().map_err(fail)?;
    let (tokens, knows_clients) = (security.tokens.clone(), security.knows_clients());
    Ok(PortRules { tls, tokens, knows_clients, era: Era::default(), edition: 0 })
}

fn server_side(ports: &Ports, tls: &PortTls) -> Result<Tls, String> {
    let Ports { name: _, protocols, cert, key: private_key, client_ca } = ports;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let fail = |error: String| format!("cannot use the clients' CA of {client_ca}: {error}");
    let roots = |pem: &String| weir_tls::certificates(pem).and_then(weir_tls::roots).map_err(fail);
    let authorities = tls.client_ca_pem.as_ref().map(roots).transpose()?.map(Arc::new);
    let builder = match &authorities {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), provider);
            let verifier = verifier.build().map_err(|error| fail(error.to_string()))?;
            builder.with_client_cert_verifier(Arc::new(ShortChains(verifier)))
        }
    };
    let chain =
        weir_tls::chain(&tls.cert_pem).map_err(|error| format!("cannot read the certificate of {cert}: {error}"))?;
    let key = weir_tls::private_key(tls.key_pem.reveal())
        .map_err(|error| format!("cannot read the private key of {private_key}: {error}"))?;
    let identity = weir_tls::identity(chain, key)
        .map_err(|error| format!("cannot use the certificate of {cert} with the key of {private_key}: {error}"))?;
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    // Kept sessions hold their clients' certificates. Connections live long, so few sessions would be resumed.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), authorities })
}

#[cfg(test)]
mod tests {
    use weir_plan::Identity;
    use weir_testkit::tls::Authority;

    use super::*;

    #[test]
    fn only_a_whole_token_is_the_token() {
        let tokens = BTreeMap::from([(1, Secret::new("abc")), (3, Secret::new("other"))]);
        let security = PortSecurity { tls: None, tokens };
        let gate = Gate::new(ADMIN, &security).unwrap();
        let check = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            gate.check(&headers).ok()
        };
        for (value, line) in [("Bearer abc", 1), ("bearer abc", 1), ("BEARER other", 3), ("Bearer  abc ", 1)] {
            assert_eq!(check(value), Some(Admitted { token: Some(line), edition: 0 }), "{value}");
        }
        for value in ["abc", "Bearer", "Bearer ", "Bearer ab", "Bearer abcd", "Bearer ABC", "Basic abc", "Bearerabc"] {
            assert_eq!(check(value), None, "{value}");
        }
        assert!(gate.check(&HeaderMap::new()).is_err());
        gate.replace(gate.prepare(&PortSecurity::default()).unwrap());
        assert_eq!(gate.check(&HeaderMap::new()).ok(), Some(Admitted { token: None, edition: 1 }));
    }

    #[test]
    fn an_era_ends_when_somebody_who_could_connect_may_do_so_no_more() {
        let (servers, first, second) = (Authority::new(), Authority::new(), Authority::new());
        // Each time with another certificate of the server.
        let taking = |clients: Option<&[&Authority]>| {
            let Identity { cert_pem, key_pem } = servers.identity_of("localhost");
            let client_ca_pem = clients.map(|clients| clients.iter().map(|authority| authority.pem()).collect());
            let tls = Some(PortTls { cert_pem, key_pem, client_ca_pem });
            PortSecurity { tls, ..PortSecurity::default() }
        };
        let gate = Gate::new(OTLP_PORTS, &PortSecurity::default()).unwrap();
        let ends_with = |rules: &PortSecurity| {
            let (era, _) = gate.rules_now();
            let ends = gate.replace(gate.prepare(rules).unwrap());
            assert_eq!(ends, gate.rules_now().0 != era);
            ends
        };
        let (one, other) = (taking(Some(&[&first])), taking(Some(&[&second])));
        let tokens = PortSecurity { tokens: BTreeMap::from([(1, Secret::new("abc"))]), ..one.clone() };
        for (step, (rules, ends)) in [
            (taking(None), true),
            (taking(None), false),
            (one.clone(), true),
            (taking(Some(&[&first])), false),
            (tokens, false),
            (taking(Some(&[&second, &first])), false),
            (taking(Some(&[&first, &second])), false),
            (other.clone(), true),
            (one, true),
            (other, true),
            (taking(None), false),
            (PortSecurity::default(), true),
            (PortSecurity::default(), false),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(ends_with(&rules), ends, "step {step}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let Identity { cert_pem, .. } = Authority::new().identity_of("localhost");
        let error = |ports, cert_pem: &str, client_ca_pem: Option<&str>| {
            let (cert_pem, client_ca_pem) = (cert_pem.to_owned(), client_ca_pem.map(str::to_owned));
            let tls = Some(PortTls { cert_pem, key_pem: Secret::new("key"), client_ca_pem });
            Gate::new(ports, &PortSecurity { tls, ..PortSecurity::default() }).unwrap_err()
        };
        let [of_cert, of_key, of_ca] =
            [error(ADMIN, "x", None), error(OTLP_PORTS, &cert_pem, None), error(ADMIN, "x", Some("y"))];
        let expected = "cannot secure the admin port: cannot read the certificate of --admin-tls-cert: failed to decode PEM \
                        block: found none";
        assert_eq!(of_cert, expected);
        let expected = "cannot secure the OTLP ports: cannot read the private key of --tls-key: ";
        assert!(of_key.starts_with(expected), "{of_key}");
        let expected = "cannot secure the admin port: cannot use the clients' CA of --admin-tls-client-ca: ";
        assert!(of_ca.starts_with(expected), "{of_ca}");
    }
}
