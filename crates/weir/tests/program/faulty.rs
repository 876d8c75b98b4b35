//! A pipeline that cannot be set up as it is planned, whatever is found out before: the others do not notice.

use serde_json::{Value, json};
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::clients::{ids, send_all};
use weir_testkit::manifests::{self, secured};
use weir_testkit::sink::{arrived, sink};
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, http};

use crate::destinations::{admin, top};
use crate::losses::why;
use crate::process::{Weir, manifest};

/// X.509 v1, which rustls does not read.
const V1_CERTIFICATE: &str = include_str!("../../../tls/tests/pems/v1.crt");

const V1_KEY: &str = include_str!("../../../tls/tests/pems/v1.key");

/// What `weir check` finds right can be run: here a client certificate as tools make it that are told nothing.
#[tokio::test]
async fn a_client_certificate_of_version_1_works() {
    let (servers, well) = (Authority::new(), sink("{}").await);
    let backend = Backend::with_tls(servers.server(None)).await;
    let both = [V1_KEY, V1_CERTIFICATE].concat();
    let tls = json!({"ca": {"value": servers.pem()}, "cert": {"value": both}, "key": {"value": both}});
    let secured = manifests::pipeline(Signal::Traces, "v1", &secured("grpc", backend.address, &tls));
    let weir = Weir::start(&(secured + &manifest("well", well.grpc)), &[]).await;
    send_all(weir.grpc, 0..10, 10).await;
    eventually("both have everything", async || {
        arrived(&well) == ids(0..10) && backend.ids().len() == ids(0..10).len()
    })
    .await;
}

/// Whoever looks is told that a pipeline cannot be set up, and why: here on a system without root certificates.
#[tokio::test]
async fn a_pipeline_that_cannot_be_set_up_is_told_everywhere() {
    let well = sink("{}").await;
    let faulty = manifests::pipeline(Signal::Traces, "faulty", &secured("grpc", well.grpc, &json!({})));
    let no_roots = ["env", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent"];
    let manifests = faulty + &manifest("well", well.grpc);
    let weir = Weir::start_under(&no_roots, &manifests, &["--look-every", "500ms"]).await;
    let cause = "cannot find the system's root certificates";
    let shows = |of: &Value| of["setup_error"].as_str().is_some_and(|error| error.contains(cause));
    let page =
        async |path: &str| -> Value { serde_json::from_str(&http::get(admin(&weir), path).await.text()).unwrap() };
    let mut health = Value::Null;
    eventually("it is told", async || {
        health = page("/health/pipelines").await;
        shows(&health[0])
    })
    .await;
    assert_eq!([&health[0]["state"], &health[1]["state"]], ["setup_failed", "healthy"], "{health}");
    assert!(health[0]["message"].as_str().unwrap().contains(cause), "{health}");
    assert!(health[1].get("message").is_none() && health[1].get("setup_error").is_none(), "{health}");
    let now = page("/api/now").await;
    let pipelines = now["pipelines"].as_array().unwrap();
    assert_eq!(pipelines.iter().map(shows).collect::<Vec<_>>(), [true, false], "{now}");
    let event = page("/api/configuration").await["history"][0].clone();
    assert_eq!((&event["what"], &event["faults"][0]["pipeline"]), (&json!("started"), &json!("traces/faulty")));
    assert!(event["faults"][0]["cause"].as_str().unwrap().contains(cause), "{event}");
    assert_eq!(event["faults"].as_array().unwrap().len(), 1, "{event}");
    let told = why(&weir, &["traces/faulty"]).await;
    assert!(told.contains(cause) && !told.contains("All is well."), "{told}");
    assert!(why(&weir, &["traces/well"]).await.contains("All is well."));
    let (_, rows) = top(&weir, &[]).await;
    assert!(rows.contains("cannot be set up") && rows.contains(cause), "{rows}");
}
