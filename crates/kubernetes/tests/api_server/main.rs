//! A real API server with the definitions of the kinds and the webhooks: what it accepts, what it refuses and with
//! which words, what it writes into objects, and how it converts them.
//!
//! Its programs are big and not on every machine. Where they are missing, this says so.

#![expect(clippy::unwrap_used, reason = "what fails here is to fail the test")]

mod clocks;
mod control_plane;
mod operator;
mod proxy;
mod rules;
mod scale;
mod unwell;
mod webhooks;

use std::future::Future;
use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use control_plane::ControlPlane;

/// How long something may take that happens soon, on a machine that has much else to do.
const SOON: Duration = Duration::from_secs(120);

#[test]
fn an_api_server_takes_the_kinds_as_they_are_published() {
    let Some(programs) = control_plane::programs() else {
        println!(
            "warning: definitions and webhooks are not tested with an API server: there is none in WEIR_CLUSTER_BIN, \
             nor from tests/cluster/build.sh"
        );
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let control_plane = ControlPlane::start(&programs).await;
        let cluster = Cluster { client: control_plane.client.clone() };
        let webhooks = webhooks::set_up(&cluster).await;
        rules::each_rule_has_its_words(&cluster).await;
        rules::the_examples_are_accepted(&cluster).await;
        rules::an_output_cannot_be_switched(&cluster).await;
        rules::unknown_fields_are_reported(&cluster).await;
        webhooks::defaults_are_written(&cluster).await;
        webhooks::all_that_is_wrong_is_said(&cluster).await;
        webhooks::warnings_arrive(&cluster).await;
        webhooks::versions_are_converted(&cluster).await;
        webhooks::the_status_is_kept_and_shown(&cluster).await;
        webhooks::what_is_taken_away_comes_back(&cluster, &webhooks).await;
        webhooks::webhooks_of_an_older_installation_go(&cluster, &webhooks).await;
        webhooks::replicas_share_a_certificate(&cluster, &webhooks).await;
        webhooks::a_replica_is_ready_once_it_sees_that_it_is_known(&cluster, &webhooks).await;
        webhooks::nodes_run_what_the_older_version_says(&cluster).await;
    });
}

#[test]
fn an_operator_makes_nodes_do_what_pipelines_say() {
    let Some(programs) = control_plane::programs() else {
        println!("warning: the operator is not tested with an API server: there is none");
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let control_plane = ControlPlane::start(&programs).await;
        let cluster = Cluster { client: control_plane.client.clone() };
        operator::set_up(&cluster).await;
        operator::pipelines_become_what_nodes_run(&cluster).await;
    });
}

#[test]
fn an_operator_changes_the_way_in_which_it_runs() {
    let Some(programs) = control_plane::programs() else {
        println!("warning: changing between ways to run it is not tested with an API server: there is none");
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let control_plane = ControlPlane::start(&programs).await;
        let cluster = Cluster { client: control_plane.client.clone() };
        operator::set_up(&cluster).await;
        scale::a_pod_on_each_node_becomes_replicas(&cluster).await;
    });
}

#[test]
fn an_api_server_that_is_unwell_changes_nothing() {
    let Some(programs) = control_plane::programs() else {
        println!("warning: an API server that is unwell is not tested: there is none");
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let control_plane = ControlPlane::start(&programs).await;
        let cluster = Cluster { client: control_plane.client.clone() };
        operator::set_up(&cluster).await;
        unwell::the_operator_goes_on(&cluster).await;
        unwell::many_pipelines_and_large_secrets_fit(&cluster).await;
        unwell::a_node_goes_on(&cluster).await;
        tokio::join!(unwell::two_never_lead(&cluster), unwell::a_lease_outlives_its_holder(&cluster));
    });
}

#[test]
fn clocks_that_differ_change_nothing() {
    let Some(programs) = control_plane::programs() else {
        println!("warning: clocks that differ are not tested with an API server: there is none");
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let control_plane = ControlPlane::start(&programs).await;
        let cluster = Cluster { client: control_plane.client.clone() };
        webhooks::certificates_by_another_clock_are_used_unless_they_begin_later(&cluster).await;
        clocks::leases_are_judged_by_our_clock(&cluster).await;
    });
}

#[test]
fn watches_share_connections_and_notice_when_they_die() {
    let Some(programs) = control_plane::programs() else {
        println!("warning: watches are not tested with an API server: there is none");
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let control_plane = ControlPlane::start(&programs).await;
        unwell::watches_share_connections(&Cluster { client: control_plane.client.clone() }).await;
    });
}

/// Plain requests to an API server: what its clients see.
pub(crate) struct Cluster {
    pub(crate) client: Client,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Value,
}

impl Answer {
    /// The body of an answer that must be a success.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.code), "{}", self.body);
        self.body
    }

    /// What it says, if it is a refusal.
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Cluster {
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.send_as(method, path, body, kind, "application/json").await
    }

    pub(crate) async fn send_as(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        kind: &str,
        accept: &str,
    ) -> Answer {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", kind).header("accept", accept);
        let request = request.body(Body::from(body.into_bytes())).unwrap();
        let response = self.client.send(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let warnings = parts.headers.get_all("warning").iter().map(|text| {
            // 299 - "TEXT"
            let text = text.to_str().unwrap().trim_start_matches("299 - ").trim_matches('"');
            text.replace("\\\"", "\"")
        });
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes)));
        Answer { code: parts.status.as_u16(), warnings: warnings.collect(), body }
    }

    pub(crate) async fn create(&self, object: &Value) -> Answer {
        self.send(Method::POST, &collection(object), Some(object)).await
    }

    /// Asks whether it could be created.
    pub(crate) async fn try_create(&self, object: &Value) -> Answer {
        self.send(Method::POST, &format!("{}?dryRun=All", collection(object)), Some(object)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }
}

/// The path of all objects of a kind.
pub(crate) fn collection(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let version = object["apiVersion"].as_str().unwrap();
    match kind.as_str() {
        "telemetry" => format!("/apis/{version}/namespaces/kyma-system/telemetries"),
        kind => format!("/apis/{version}/{kind}s"),
    }
}

/// The path of an object.
pub(crate) fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().unwrap())
}

pub(crate) fn pipeline(kind: &str, version: &str, name: &str, spec: &Value) -> Value {
    let api_version = format!("telemetry.kyma-project.io/{version}");
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Waits for what happens soon.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut check: impl FnMut() -> F) -> T {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
