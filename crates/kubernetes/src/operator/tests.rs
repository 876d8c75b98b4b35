//! Decisions, by tables: what a picture becomes.

mod changed_by;
mod layout;
mod limits;
mod manifests;
mod pipelines;
mod scale;
mod telemetry;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use weir_plan::{PipelineId, Signal};

use super::configuration::Previous;
use super::decide::{Decision, decide};
use super::flow::Probing;
use super::layout::Workload;
use super::object::text;
use super::picture::{Picture, PodState, SecretName, SecretState, WorkloadStatus, Written};
use super::status::condition::{Change, Event, Status};
use super::verdict::Verdicts;
use super::{Options, Scale};

/// A day in 2026.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_790_000_000)
}

fn options() -> Options {
    Options {
        namespace: "kyma-system".to_owned(),
        image: "weir:1".to_owned(),
        image_pull_secrets: Vec::new(),
        trust_bundle: None,
        admin_tokens: None,
        max_pipelines: None,
        high_priority_class: "telemetry-priority-class-high".to_owned(),
        data_path: "/var/lib/telemetry-weir".to_owned(),
        resources: json!({}),
        tolerations: json!([{ "operator": "Exists" }]),
        node_selector: BTreeMap::new(),
        node_args: Vec::new(),
        nodes_proxy: false,
        workload_labels: BTreeMap::new(),
        workload_annotations: BTreeMap::new(),
        pod_labels: BTreeMap::new(),
        pod_annotations: BTreeMap::new(),
        scale: Scale::default(),
        pending: None,
    }
}

/// An object with a spec.
fn object((api_version, kind): (&str, &str), name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": name, "uid": format!("uid-{name}"), "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": spec,
    })
}

fn otlp(endpoint: &str) -> Value {
    json!({ "otlp": { "endpoint": { "value": endpoint } } })
}

/// An output whose endpoint is in a Secret.
fn of_secret(name: &str, key: &str) -> Value {
    let reference = json!({ "secretKeyRef": { "name": name, "namespace": "shop", "key": key } });
    json!({ "otlp": { "endpoint": { "valueFrom": reference } } })
}

/// A workload with so many pods, which are well.
fn settled(pods: i64) -> WorkloadStatus {
    WorkloadStatus { is_current: true, desired: pods, updated: pods, ready: pods, since: None }
}

/// A cluster in a test.
struct Cluster {
    picture: Picture,
    options: Options,
    verdicts: Verdicts,
    now: SystemTime,
}

impl Cluster {
    /// One whose two nodes are well.
    fn new() -> Self {
        let pod = |name: &str| PodState { name: name.to_owned(), ready: true, ..PodState::default() };
        let picture = Picture {
            workloads: BTreeMap::from([(Workload::Node, settled(2))]),
            pods: vec![pod("a"), pod("b")],
            probing: BTreeMap::from([(Workload::Node, Probing { answer: 2, silent: 0 })]),
            answers: BTreeMap::from([("a".to_owned(), Default::default())]),
            ..Picture::default()
        };
        Self { picture, options: options(), verdicts: Verdicts::default(), now: now() }
    }

    fn pipeline(&mut self, signal: Signal, name: &str, spec: Value) -> &mut Self {
        self.object(signal, object(super::picture::kind_of(signal), name, spec))
    }

    fn object(&mut self, signal: Signal, object: Value) -> &mut Self {
        let id = PipelineId::new(signal, super::object::name(&object));
        Arc::make_mut(&mut self.picture.pipelines).insert(id, Arc::new(object));
        self
    }

    fn trace(&mut self, name: &str) -> &mut Self {
        self.pipeline(Signal::Traces, name, json!({ "output": otlp("http://backend.shop:4317") }))
    }

    fn telemetry(&mut self) -> &mut Self {
        let mut telemetry = object(super::object::kinds::TELEMETRY, "default", json!({}));
        telemetry["metadata"]["finalizers"] = json!([super::names::FINALIZER]);
        self.picture.telemetry = Some(Arc::new(telemetry));
        self
    }

    fn secret(&mut self, name: &str, values: &[(&str, &str)]) -> &mut Self {
        self.secret_in("1", name, values)
    }

    /// A Secret in a version.
    fn secret_in(&mut self, version: &str, name: &str, values: &[(&str, &str)]) -> &mut Self {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), BASE64_STANDARD.encode(value))).collect();
        let resource_version = Some(version.to_owned());
        self.state(name, SecretState::Present { values: Arc::new(values), resource_version, unreadable_since: None })
    }

    /// The API server does not let the operator read a Secret any more, from now on.
    fn refuse(&mut self, name: &str) -> &mut Self {
        let secret = SecretName { namespace: "shop".to_owned(), name: name.to_owned() };
        let before = self.picture.secrets.get(&secret);
        let after = SecretState::refused(before, "forbidden".to_owned(), self.now);
        self.state(name, after)
    }

    fn state(&mut self, name: &str, state: SecretState) -> &mut Self {
        let secret = SecretName { namespace: "shop".to_owned(), name: name.to_owned() };
        Arc::make_mut(&mut self.picture.secrets).insert(secret, state);
        self
    }

    fn decide(&mut self) -> Decision {
        decide(&self.picture, &self.options, &mut self.verdicts, self.now)
    }

    /// Decides, and takes what was written for what is there then.
    fn settle(&mut self) -> Decision {
        let decision = self.decide();
        if let Some(configuration) = &decision.configuration {
            self.picture.previous = configuration.packed.as_slice().into();
            let changed_by = Some(Arc::clone(&configuration.changed_by));
            self.picture.written =
                Some(Written { revision: configuration.revision.clone(), since: self.now, changed_by });
        }
        for status in &decision.statuses {
            let pipelines = Arc::make_mut(&mut self.picture.pipelines).values_mut().chain(&mut self.picture.telemetry);
            for object in pipelines.filter(|object| {
                super::object::name(object) == status.object.name && object["kind"] == status.object.kind
            }) {
                Arc::make_mut(object)["status"] = status.value();
            }
        }
        decision
    }
}

/// What a decision tells.
fn events(decision: &Decision) -> Vec<Change> {
    let told = decision.statuses.iter().flat_map(Status::events);
    told.map(|event| event.change).collect()
}

/// A condition of an object as it would be written: status, reason and message.
fn condition(decision: &Decision, name: &str, kind: &str) -> (String, String, String) {
    let status = decision.statuses.iter().find(|status| status.object.name == name).expect("no status for it");
    let status = status.value();
    let conditions = status["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    let found = found.unwrap_or_else(|| panic!("{name} has no {kind}: {conditions:?}"));
    let part = |path| text(found, path).unwrap_or_default().to_owned();
    (part("/status"), part("/reason"), part("/message"))
}

fn brief(decision: &Decision, name: &str, kind: &str) -> String {
    let (status, reason, _) = condition(decision, name, kind);
    format!("{status} {reason}")
}

/// The state of the Telemetry as it would be written.
fn state_of_telemetry(decision: &Decision) -> String {
    let status = decision.statuses.iter().find(|status| status.object.kind == "Telemetry").expect("no status");
    status.value()["state"].as_str().unwrap().to_owned()
}

/// The documents that nodes get.
fn documents(decision: &Decision) -> Vec<Value> {
    Previous::new(&decision.configuration.as_ref().unwrap().packed).items().to_vec()
}

/// Names of the pipelines that nodes get.
fn configured(decision: &Decision) -> Vec<String> {
    let documents = documents(decision).into_iter();
    let pipelines = documents.filter(|item| item["kind"].as_str().unwrap().ends_with("Pipeline"));
    pipelines.map(|pipeline| super::object::name(&pipeline).to_owned()).collect()
}

/// A manifest by its kind and name.
fn manifest<'a>(decision: &'a Decision, kind: &str, name: &str) -> Option<&'a Value> {
    decision.apply.iter().find(|it| it["kind"] == kind && super::object::name(it) == name)
}
