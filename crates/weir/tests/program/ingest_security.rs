//! OTLP ports that not everybody may send to. The client is another gateway: it speaks TLS, has a certificate, and sends
//! the headers it is told.

use serde_json::json;
use weir_loadtest::sink::Sink;
use weir_plan::{Identity, Signal};
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::manifests::{self, secured, with};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{arrived, sink};
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, payload};

use crate::process::{Weir, command, manifest};

const RENEWED: &str = "certificates and tokens are read again";

const NOT_RENEWED: &str = "cannot use the files with certificates and tokens; the old ones stay in use";

/// A gateway that sends to another one; whether ten spans come through before it gives up for good.
async fn comes_through(manifest: &str, first: u64, sink: &Sink) -> bool {
    let client = Weir::start(manifest, &[]).await;
    let answer = Grpc::connect(client.grpc).await.export(&payload::encoded(first, 10, 10)).await;
    assert_eq!(answer.code, OK, "{answer:?}");
    let mut came = false;
    eventually("it is taken or refused", async || {
        let scrape = Scrape::of(client.metrics).await;
        let books = scrape.books("client");
        came = books.delivered == 10;
        books.delivered + books.rejected == 10 || scrape.figure("weir_pipeline_retries_total", "client") > 0.0
    })
    .await;
    assert_eq!(arrived(sink).contains(&first), came);
    came
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (pipelines, empty) = (file("p.yaml", &manifest("backend", ([127, 0, 0, 1], 1).into())), file("empty", "\n"));
    let (key, spaced) = (file("key.pem", "no key"), file("spaced", "good\nnot good\n"));
    let cases: [(&[&str], &str); 9] = [
        (&["--admin-listen", "0.0.0.0"], "name a file of tokens with --admin-token-file"),
        (&["--admin-token-file", &spaced], "(--admin-token-file): line 2 has characters that no token has"),
        (&["--admin-tls-client-ca", &key], "--admin-tls-cert"),
        (
            &["--admin-tls-cert", &key, "--admin-tls-key", &key],
            "cannot secure the admin port: cannot read the certificate",
        ),
        (&["--bearer-token-file", "/nowhere/tokens"], "cannot read /nowhere/tokens (--bearer-token-file)"),
        (&["--bearer-token-file", &empty], "there is no token in it"),
        (&["--bearer-token-file", &spaced], "line 2 has characters that no token has"),
        (&["--tls-cert", &key], "--tls-key"),
        (&["--tls-cert", &key, "--tls-key", &key], "cannot read the certificate"),
    ];
    for (arguments, complaint) in cases {
        let data = directory.path().join("data");
        let run = ["run", &pipelines, "--data-dir", data.to_str().unwrap()];
        let output = command(&run).args(arguments).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(complaint), "{arguments:?}: {text}");
        assert!(!data.exists(), "{arguments:?}");
    }
}

/// Of the running program: certificates and tokens that are renewed on disk, and files that are no use.
#[tokio::test]
async fn renewed_files_are_taken_up_by_a_running_gateway() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let write = |authority: &Authority, token: &str| {
        let Identity { cert_pem, key_pem } = authority.identity_of("127.0.0.1");
        std::fs::write(path("cert"), cert_pem).unwrap();
        std::fs::write(path("key"), key_pem.reveal()).unwrap();
        std::fs::write(path("tokens"), token).unwrap();
    };
    let (first, second) = (Authority::new(), Authority::new());
    write(&first, "first");
    let sink = sink("{}").await;
    let (cert, key, tokens) = (path("cert"), path("key"), path("tokens"));
    let arguments = ["--tls-cert", &cert, "--tls-key", &key, "--bearer-token-file", &tokens];
    let weir = Weir::start(&manifest("backend", sink.grpc), &arguments).await;
    let over = |protocol, port, authority: &Authority, token: &str| {
        let output = secured(protocol, port, &json!({"ca": {"value": authority.pem()}}));
        let headers = json!([{"name": "authorization", "value": token, "prefix": "Bearer"}]);
        manifests::pipeline(Signal::Traces, "client", &with(output, json!({"headers": headers})))
    };
    let to = |authority: &Authority, token: &str| over("grpc", weir.grpc, authority, token);
    let to_http = |authority: &Authority, token: &str| over("http", weir.http, authority, token);
    assert!(comes_through(&to(&first, "first"), 100, &sink).await);
    assert!(!comes_through(&to(&first, "second"), 110, &sink).await);

    write(&second, "second");
    let renewed = || weir.logs().iter().filter(|line| line["message"] == RENEWED).count();
    eventually("they are taken up", async || renewed() == 1).await;
    assert!(comes_through(&to(&second, "second"), 200, &sink).await);
    assert!(comes_through(&to_http(&second, "second"), 230, &sink).await);
    assert!(!comes_through(&to(&first, "second"), 210, &sink).await, "the old certificate is gone");
    assert!(!comes_through(&to(&second, "first"), 220, &sink).await, "the old token is gone");

    let mut next = 300;
    for file in ["cert", "key"] {
        let good = std::fs::read(path(file)).unwrap();
        let (refused, renewed) = (weir.all_logged(NOT_RENEWED).len(), weir.all_logged(RENEWED).len());
        std::fs::write(path(file), "garbage").unwrap();
        eventually("garbage is refused", async || weir.all_logged(NOT_RENEWED).len() > refused).await;
        for manifest in [to(&second, "second"), to_http(&second, "second")] {
            assert!(comes_through(&manifest, next, &sink).await, "{file}: the last good files stay");
            next += 10;
        }
        std::fs::write(path(file), good).unwrap();
        eventually("good files are taken up", async || weir.all_logged(RENEWED).len() > renewed).await;
    }
}

/// Whoever has a certificate may look, from anywhere; nobody else.
#[tokio::test]
async fn the_admin_port_knows_those_who_look_by_their_certificates() {
    let (directory, authority, sink) = (tempfile::TempDir::new().unwrap(), Authority::new(), sink("{}").await);
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (own, client, stranger) =
        (authority.identity_of("127.0.0.1"), authority.identity(), Authority::new().identity());
    let ca = file("ca", &authority.pem());
    let [own, client, stranger] = [("own", own), ("client", client), ("stranger", stranger)].map(|(name, of)| {
        let key = file(&format!("{name}.key"), of.key_pem.reveal());
        (file(name, &of.cert_pem), key)
    });
    let security = ["--admin-tls-cert", &own.0, "--admin-tls-key", &own.1, "--admin-tls-client-ca", &ca];
    let arguments = [&["--admin-listen", "0.0.0.0"][..], &security].concat();
    let weir = Weir::start(&manifest("backend", sink.grpc), &arguments).await;
    let port = weir.logged("ready").unwrap()["admin"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
    let url = |scheme: &str| format!("{scheme}://127.0.0.1:{port}");
    let why = async |scheme: &str, arguments: &[&str]| {
        let output = command(&["why", "--url", &url(scheme)]).args(arguments).output().await.unwrap();
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.success(), said)
    };
    let (is_shown, said) = why("https", &["--ca", &ca, "--cert", &client.0, "--key", &client.1]).await;
    assert!(is_shown && said.contains("traces/backend"), "{said}");
    for arguments in [&["--ca", &ca][..], &["--ca", &ca, "--cert", &stranger.0, "--key", &stranger.1]] {
        let (is_shown, said) = why("https", arguments).await;
        assert!(!is_shown && said.contains("does not answer"), "{said}");
    }
    let (is_shown, said) = why("https", &["--cert", &client.0, "--key", &client.1]).await;
    assert!(!is_shown, "another authority: {said}");
    for (arguments, words) in [(&[][..], "does it want https?"), (&["--ca", &ca], "write the URL as https://HOST:PORT")]
    {
        let (is_shown, said) = why("http", arguments).await;
        assert!(!is_shown && said.contains(words), "{said}");
    }
}
