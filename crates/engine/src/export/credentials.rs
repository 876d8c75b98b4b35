//! Since when a backend is sent the credentials that it is sent now, and which certificate of the client is among them.
//!
//! Nothing that is shown is made of a secret: a short one can be guessed from its hash, too. To tell credentials from those
//! before, a hash with a key of its own is enough, and neither is shown to anybody.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::time::UNIX_EPOCH;

use weir_plan::{Identity, Output};

/// The credentials of a backend: headers, OAuth2, the client's certificate with its key, and the CA that it is checked by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialFigures {
    /// When they were taken up, in milliseconds since the Unix epoch: others were used before, or none.
    pub taken_up_unix_ms: u64,
    /// The client's own.
    pub certificate: Option<ClientCertificate>,
}

/// A certificate that the client shows. A backend sees all of it, so it is no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its serial number in hexadecimal digits, as `openssl x509 -serial` prints it. `None` if it cannot be read.
    pub serial: Option<String>,
    /// When it ends, in seconds since the Unix epoch. The same.
    pub ends_unix_seconds: Option<u64>,
}

/// What the last exporter of a pipeline had.
#[derive(Default)]
pub(super) struct LastCredentials {
    key: RandomState,
    /// A hash of them, and when they were taken up, in milliseconds since the Unix epoch.
    last: Option<(u64, u64)>,
}

impl fmt::Debug for LastCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastCredentials(***)")
    }
}

impl LastCredentials {
    /// Takes up those of an output; `None` if it has none.
    pub(super) fn take_up(&mut self, output: &Output, now_ms: u64) -> Option<CredentialFigures> {
        let Output { headers, oauth2, tls, .. } = output;
        let (ca, identity) = tls.as_ref().map_or((None, None), |tls| (tls.ca_pem.as_ref(), tls.identity.as_ref()));
        if headers.is_empty() && oauth2.is_none() && ca.is_none() && identity.is_none() {
            self.last = None;
            return None;
        }
        let hash = self.key.hash_one((headers, oauth2, ca, identity));
        let same = self.last.filter(|(last, _)| *last == hash);
        let taken_up_unix_ms = same.map_or(now_ms, |(_, taken_up)| taken_up);
        self.last = Some((hash, taken_up_unix_ms));
        Some(CredentialFigures { taken_up_unix_ms, certificate: identity.map(certificate) })
    }
}

/// One that is sent may be one that cannot be read here.
fn certificate(identity: &Identity) -> ClientCertificate {
    let chain = weir_tls::chain(&identity.cert_pem).unwrap_or_default();
    let own = chain.first();
    let end = own.and_then(weir_tls::validity).map(|(_, end)| end.duration_since(UNIX_EPOCH).unwrap_or_default());
    ClientCertificate { serial: own.and_then(weir_tls::serial), ends_unix_seconds: end.map(|end| end.as_secs()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_plan::{Body, Compression, Endpoint, Header, OAuth2, Protocol, Secret, Tls};
    use weir_testkit::tls::Authority;

    use super::*;

    fn output(password: &str, port: u16) -> Output {
        Output {
            protocol: Protocol::Grpc,
            body: Body::Otlp,
            endpoint: Endpoint { host: "localhost".into(), port, path: String::new() },
            compression: Compression::None,
            headers: vec![Header { name: "authorization".into(), value: Secret::new(password) }],
            oauth2: None,
            tls: None,
        }
    }

    fn taken_up(last: &mut LastCredentials, output: &Output, now_ms: u64) -> Option<u64> {
        last.take_up(output, now_ms).map(|of| of.taken_up_unix_ms)
    }

    #[test]
    fn only_other_credentials_are_new() {
        let mut last = LastCredentials::default();
        assert_eq!(taken_up(&mut last, &output("old", 1), 10), Some(10));
        assert_eq!(taken_up(&mut last, &output("old", 2), 20), Some(10), "another endpoint");
        assert_eq!(taken_up(&mut last, &output("new", 2), 30), Some(30));
        assert_eq!(taken_up(&mut last, &Output { headers: Vec::new(), ..output("", 2) }, 40), None);
        assert_eq!(taken_up(&mut last, &output("new", 2), 50), Some(50), "they were not used meanwhile");
    }

    #[test]
    fn every_kind_of_credentials_counts() {
        let authority = Authority::new();
        let oauth2 = |secret: &str| OAuth2 {
            token_url: "https://localhost/".into(),
            client_id: Secret::new("weir"),
            client_secret: Secret::new(secret),
            scopes: Vec::new(),
            params: Vec::new(),
            ca_pem: None,
        };
        let tls = |ca: &str, identity: Identity| Tls {
            insecure_skip_verify: false,
            ca_pem: Some(Arc::from(ca)),
            identity: Some(identity),
        };
        let of = |client_secret: &str, tls: Tls| Output {
            oauth2: Some(oauth2(client_secret)),
            tls: Some(tls),
            ..output("password", 1)
        };
        let [client, renewed] = [authority.identity(), authority.identity()];
        let mut last = LastCredentials::default();
        for (now_ms, output) in [
            (10, of("a", tls("ca", client.clone()))),
            (20, of("b", tls("ca", client.clone()))),
            (30, of("b", tls("other", client.clone()))),
            (40, of("b", tls("other", renewed))),
        ] {
            assert_eq!(taken_up(&mut last, &output, now_ms), Some(now_ms));
            assert_eq!(taken_up(&mut last, &output, now_ms + 1), Some(now_ms));
        }
    }

    #[test]
    fn a_certificate_of_the_client_has_its_serial_number() {
        let [one, other] = [Authority::new().identity(), Authority::new().identity()].map(|of| certificate(&of));
        assert!(one.ends_unix_seconds.is_some());
        let [one, other] = [one, other].map(|of| of.serial.unwrap());
        assert!(one != other && one.bytes().all(|digit| digit.is_ascii_hexdigit()), "{one}");
        let garbage = Identity { cert_pem: "garbage".into(), key_pem: Secret::new("garbage") };
        assert_eq!(
            certificate(&garbage),
            ClientCertificate { serial: None, ends_unix_seconds: None },
            "but there is one"
        );
    }
}
