//! What TLS keeps of its clients is bounded: handshakes, certificates, and messages that are never complete.

use std::io;

use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{OutboundChunks, OutboundPlainMessage};
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ConnectionTrafficSecrets, ContentType, ProtocolVersion, SupportedCipherSuite};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weir_engine::Settings;
use weir_engine::settings::PortSecurity;
use weir_loadtest::sink::Sink;
use weir_testkit::http::{PROTOBUF, head, read_answer};
use weir_testkit::sink::{arrived, sink};
use weir_testkit::tls::{self, Authority};
use weir_testkit::{eventually, in_time, payload};

use crate::support::{Gateway, ingest, pipeline, settings};

/// A gateway whose clients need certificates, and who certifies them.
struct Guarded {
    sink: Sink,
    gateway: Gateway,
    servers: Authority,
    clients: Authority,
}

impl Guarded {
    async fn new() -> Self {
        let (servers, clients) = (Authority::new(), Authority::new());
        let security = PortSecurity { tls: Some(ingest(&servers, Some(&clients))), ..PortSecurity::default() };
        let sink = sink("{}").await;
        let settings = Settings { security, ..settings() };
        let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
        Self { sink, gateway, servers, clients }
    }

    /// A client that is trusted, with `more` certificates than it needs.
    fn client(&self, suite: SupportedCipherSuite, more: &[CertificateDer<'static>]) -> ClientConfig {
        let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
        self.servers.client(provider, &self.clients.identity(), more)
    }

    async fn connect(&self, config: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
        tls::connect(self.gateway.at.http, config).await
    }

    /// Whether the gateway takes a request of this client.
    async fn serves(&self, config: ClientConfig, id: u64) -> bool {
        let Ok(mut stream) = self.connect(config).await else { return false };
        post(&mut stream, &payload::encoded(100 * id, 20, 4000)).await.is_ok_and(|status| status == 200)
    }
}

const TLS13: SupportedCipherSuite = cipher_suite::TLS13_AES_256_GCM_SHA384;

const TLS12: SupportedCipherSuite = cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;

/// The status of the answer.
async fn post(stream: &mut TlsStream<TcpStream>, body: &[u8]) -> io::Result<u16> {
    let head = head("POST", "/v1/traces", PROTOBUF, &format!("content-length: {}\r\n", body.len()));
    stream.write_all(&[&head, body].concat()).await?;
    stream.flush().await?;
    Ok(in_time("HTTP answer", read_answer(stream)).await?.status)
}

/// Most of a message of 64,000 bytes, in the records of a client that comes to its `first` one now.
fn unfinished(secrets: ConnectionTrafficSecrets, first: u64) -> Vec<u8> {
    const KEY_UPDATE: u8 = 24;
    let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = secrets else { panic!("another cipher") };
    let mut encrypter = TLS13.tls13().unwrap().aead_alg.encrypter(key, iv);
    let [.., high, middle, low] = 64_000_u32.to_be_bytes();
    let message = [&[KEY_UPDATE, high, middle, low][..], &[0; 60_000]].concat();
    let records = message.chunks(16_000).zip(first..).map(|(piece, number)| {
        let payload = OutboundChunks::Single(piece);
        let (typ, version) = (ContentType::Handshake, ProtocolVersion::TLSv1_2);
        encrypter.encrypt(OutboundPlainMessage { typ, version, payload }, number).unwrap().encode()
    });
    records.collect::<Vec<_>>().concat()
}

/// So large that it is read in ever larger pieces, of many records each.
#[tokio::test]
async fn a_large_request_is_no_large_handshake() {
    let guarded = Guarded::new().await;
    for (suite, first) in [(TLS12, 1), (TLS13, 10_000)] {
        let mut stream = guarded.connect(guarded.client(suite, &[])).await.unwrap();
        for number in 0..3 {
            let body = payload::encoded(first + 1000 * number, 1000, 14_000);
            assert_eq!(post(&mut stream, &body).await.unwrap(), 200);
        }
    }
    eventually("all of it arrives", async || arrived(&guarded.sink).len() == 6000).await;
}

/// Its names of protocols are up to it.
#[tokio::test]
async fn a_handshake_is_no_larger_than_it_has_a_reason_to_be() {
    let guarded = Guarded::new().await;
    for (id, (suite, names, is_served)) in
        [(TLS12, 40, true), (TLS12, 120, false), (TLS13, 40, true), (TLS13, 120, false)].into_iter().enumerate()
    {
        let mut config = guarded.client(suite, &[]);
        config.alpn_protocols = vec![vec![b'x'; 255]; names];
        config.alpn_protocols.push(b"http/1.1".to_vec());
        assert_eq!(guarded.serves(config, 1 + id as u64).await, is_served, "{suite:?}, {names} names");
    }
}

#[tokio::test]
async fn a_chain_of_certificates_is_no_longer_than_it_has_a_reason_to_be() {
    let guarded = Guarded::new().await;
    let other = |bytes| CertificateDer::from(vec![0; bytes]);
    let mut id = 0;
    for suite in [TLS12, TLS13] {
        for (others, is_served) in [
            (vec![other(2000); 4], true),
            (vec![other(0); 9], true),
            (vec![other(0); 10], false),
            (vec![other(8000); 3], false),
        ] {
            id += 1;
            let (number, bytes) = (others.len(), others[0].len());
            let served = guarded.serves(guarded.client(suite, &others), id).await;
            assert_eq!(served, is_served, "{suite:?}, {number} of {bytes} bytes");
        }
    }
}

#[tokio::test]
async fn a_message_of_tls_that_does_not_end_closes_the_connection() {
    let guarded = Guarded::new().await;
    let mut config = guarded.client(TLS13, &[]);
    config.enable_secret_extraction = true;
    let mut stream = guarded.connect(config).await.unwrap();
    assert_eq!(post(&mut stream, &payload::encoded(1, 1, 10)).await.unwrap(), 200);
    let (mut stream, session) = stream.into_inner();
    let (first, secrets) = session.dangerous_extract_secrets().unwrap().tx;
    // It may be closed before all is written.
    let _ = stream.write_all(&unfinished(secrets, first)).await;
    let _ = in_time("end of the connection", stream.read_to_end(&mut Vec::new())).await;
    guarded.gateway.settle().await;
}
