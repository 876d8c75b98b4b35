//! What is known of a cluster changes while requests flow: each is enriched with one state of it, the newest.

use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;
use weir_testkit::grpc::{Grpc, OK, frame};
use weir_testkit::manifests::POD;
use weir_testkit::signals::{encoded, resources, text};

use crate::process::{Weir, manifest};

#[tokio::test]
async fn pods_in_files_change_with_the_files() {
    let backend = Backend::start().await;
    let files = |team: &str| manifest("backend", backend.address) + &POD.replace("blue", team);
    let weir = Weir::start(&files("blue"), &[]).await;
    let logged = |message: &str| weir.logs().iter().filter(|line| line["message"] == message).count();
    let team = async |number: usize| {
        let request = frame(&encoded(Signal::Traces, &[], 1..2), false);
        let answer = Grpc::connect(weir.grpc).await.call(Signal::Traces.grpc_method(), None, request).await;
        assert_eq!(answer.code, OK, "{answer:?}");
        eventually("it arrives", async || backend.captured().len() == number).await;
        let resource = resources(Signal::Traces, &backend.captured()[number - 1].plain).remove(0);
        text(&resource.attributes, "k8s.pod.label.team").map(str::to_owned)
    };
    assert_eq!(team(1).await.as_deref(), Some("blue"));
    weir.edit(&files("red"));
    eventually("it is taken up", async || logged("configuration reloaded") == 1).await;
    assert_eq!(team(2).await.as_deref(), Some("red"));
    weir.edit(&(files("green") + "---\nkind: Nothing\n"));
    eventually("it is refused", async || logged("the new configuration is not used; the last good one goes on") == 1)
        .await;
    assert_eq!(team(3).await.as_deref(), Some("red"));
}
