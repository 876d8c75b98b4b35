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
    let cases: [(&[&str], &str); 7] = [
        (&["--admin-listen", "0.0.0.0"], "name a file of tokens with --admin-token-file"),
        (&["--admin-token-file", &spaced], "(--admin-token-file): line 2 has characters that no token has"),
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
