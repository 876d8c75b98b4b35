//! A pipeline that cannot be set up as it is planned, whatever is found out before: the others do not notice.

use serde_json::json;
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::clients::{ids, send_all};
use weir_testkit::eventually;
use weir_testkit::manifests::{self, secured};
use weir_testkit::sink::{arrived, sink};
use weir_testkit::tls::Authority;

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
