//! Certificates made for one test, and servers that use them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use weir_plan::{Identity, Secret};

fn identity((certificate, key): (rcgen::Certificate, KeyPair)) -> Identity {
    Identity { cert_pem: certificate.pem(), key_pem: Secret::new(key.serialize_pem()) }
}

/// Whole seconds, as certificates have them.
fn ending(mut params: CertificateParams, end: SystemTime) -> CertificateParams {
    let since_1970 = Duration::from_secs(end.duration_since(UNIX_EPOCH).unwrap().as_secs());
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_1970;
    params
}

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// One that is as good as any.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        Self::signed(CertificateParams::new(Vec::new()).unwrap())
    }

    /// One whose certificate ends at a time.
    pub fn until(end: SystemTime) -> Self {
        Self::signed(ending(CertificateParams::new(Vec::new()).unwrap(), end))
    }

    fn signed(mut params: CertificateParams) -> Self {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    fn certify(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        self.sign(&CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    fn sign(&self, params: &CertificateParams) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A client's certificate that ends at a time, and its key.
    pub fn identity_until(&self, end: SystemTime) -> Identity {
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        identity(self.sign(&ending(params, end)))
    }

    /// A client's certificate and key.
    pub fn identity(&self) -> Identity {
        self.identity_of("client")
    }

    /// The certificate and key of somebody with this name or address.
    pub fn identity_of(&self, name: &str) -> Identity {
        identity(self.certify(name))
    }

    /// A client that trusts it. It has an identity, which it sends with `more` certificates.
    pub fn client(
        &self,
        provider: CryptoProvider,
        identity: &Identity,
        more: &[CertificateDer<'static>],
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let mut chain = vec![CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).unwrap()];
        chain.extend_from_slice(more);
        let key = PrivateKeyDer::from_pem_slice(identity.key_pem.reveal().as_bytes()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider)).with_safe_default_protocol_versions();
        builder.unwrap().with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap()
    }

    /// A server for `127.0.0.1`; with `clients`, one that wants certificates of theirs.
    pub fn server(&self, clients: Option<&Self>) -> TlsAcceptor {
        acceptor(&self.certify("127.0.0.1"), clients)
    }

    /// A server with another name or address, or with a certificate that ends at another time.
    pub fn server_as(&self, name: &str, end: SystemTime) -> TlsAcceptor {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        acceptor(&self.sign(&ending(params, end)), None)
    }

    /// A server for `127.0.0.1` that has signed its certificate itself.
    pub fn self_signed_server() -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        acceptor(&(params.self_signed(&key).unwrap(), key), None)
    }
}

/// A connection to a server whose certificate is for `127.0.0.1`. With TLS 1.3, a server that does not trust the client may
/// say so only afterwards.
pub async fn connect(address: SocketAddr, config: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let connector = TlsConnector::from(Arc::new(config));
    super::in_time("handshake", connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream)).await
}

fn acceptor((certificate, key): &(rcgen::Certificate, KeyPair), clients: Option<&Authority>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}
