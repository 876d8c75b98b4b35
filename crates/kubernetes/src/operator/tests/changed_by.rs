//! Who changed a pipeline: what nodes are told of it, and when.

use kube::api::DynamicObject;

use super::*;
use crate::changed_by::{KEPT, KEY, Manager, Origin, Origins, unpacked};
use crate::operator::configuration::Configuration;
use crate::operator::picture::Written;
use crate::operator::shell::trim;

fn by(manager: &str) -> Manager {
    let (operation, time) = ("Apply".to_owned(), "2026-11-29T10:00:00Z".to_owned());
    Manager { manager: manager.to_owned(), operation, time }
}

/// Of a pipeline that refers to no Secret.
fn of(manager: Option<Manager>) -> Origin {
    Origin { manager, secret_versions: Some(BTreeMap::new()) }
}

impl Cluster {
    /// A pipeline as somebody made it.
    fn made_by(&mut self, manager: &str, generation: i64, endpoint: &str) -> &mut Self {
        let spec = json!({ "output": otlp(endpoint) });
        let mut pipeline = object(super::super::picture::kind_of(Signal::Traces), "shop", spec);
        pipeline["metadata"]["generation"] = generation.into();
        pipeline[KEPT] = by(manager).line().into();
        self.object(Signal::Traces, pipeline)
    }

    /// Decides, writes what nodes get, and says who changed the pipeline as nodes are told.
    fn told(&mut self) -> (String, Option<String>) {
        let decision = self.settle();
        let secret = manifest(&decision, "Secret", "telemetry-node").unwrap();
        let data = BASE64_STANDARD.decode(secret["data"][KEY].as_str().unwrap()).unwrap();
        let told = unpacked(&data).unwrap();
        let Configuration { revision, changed_by, .. } = decision.configuration.unwrap();
        assert_eq!(*changed_by, told);
        (revision, told.into_values().next().and_then(|of| of.manager).map(|by| by.manager))
    }
}

#[test]
fn one_small_line_is_kept_of_what_managers_own() {
    let mut pipeline = object(super::super::picture::kind_of(Signal::Traces), "shop", json!({}));
    pipeline["metadata"]["managedFields"] = json!([{
        "manager": "helm", "operation": "Apply", "time": "2026-11-29T10:00:00Z", "fieldsV1": { "f:spec": { "f:output": {} } },
    }]);
    let kept = trim::resource(serde_json::from_value::<DynamicObject>(pipeline).unwrap());
    assert_eq!(Manager::kept(&kept), Some(by("helm")));
    assert!(!kept.to_string().contains("managedFields"), "{kept}");
}

#[test]
fn whoever_owns_its_fields_later_has_not_changed_it() {
    const BACKEND: &str = "http://backend.shop:4317";
    let mut cluster = Cluster::new();
    let (first, helm) = cluster.made_by("helm", 1, BACKEND).told();
    assert_eq!(helm.as_deref(), Some("helm"));
    let before = cluster.decide().apply;
    cluster.made_by("argocd-controller", 1, BACKEND);
    assert_eq!(cluster.decide().apply, before, "nothing is written");
    assert_eq!(cluster.told(), (first.clone(), Some("helm".to_owned())));
    let (second, argo) = cluster.made_by("argocd-controller", 2, "http://backend.shop:4318").told();
    assert_eq!(argo.as_deref(), Some("argocd-controller"));
    assert_ne!(second, first);
    // It goes on as it was: that is not what the last hand made of it.
    cluster.made_by("kubectl-edit", 3, "nonsense").trace("other");
    let changed_by = cluster.decide().configuration.unwrap().changed_by;
    let expected = [("other", None), ("shop", Some(by("argocd-controller")))];
    let expected = expected.map(|(name, by)| (PipelineId::new(Signal::Traces, name), of(by)));
    assert_eq!(*changed_by, Origins::from(expected));
}

#[test]
fn what_an_older_operator_wrote_is_told_once_without_another_revision() {
    let mut cluster = Cluster::new();
    let (revision, _) = cluster.made_by("helm", 1, "http://backend.shop:4317").told();
    cluster.picture.written = Some(Written { revision: revision.clone(), since: cluster.now, changed_by: None });
    cluster.made_by("kubectl-edit", 1, "http://backend.shop:4317");
    assert_eq!(cluster.told(), (revision.clone(), Some("kubectl-edit".to_owned())));
    cluster.made_by("helm", 1, "http://backend.shop:4317");
    assert_eq!(cluster.told(), (revision, Some("kubectl-edit".to_owned())));
}

#[test]
fn versions_of_secrets_are_those_of_the_values_that_nodes_get() {
    let mut cluster = Cluster::new();
    let output = json!({ "output": of_secret("backend", "url") });
    let pipeline = object(super::super::picture::kind_of(Signal::Traces), "shop", output);
    cluster.object(Signal::Traces, pipeline);
    let told = |cluster: &mut Cluster| {
        cluster.told();
        let origins = cluster.picture.written.as_ref().unwrap().changed_by.clone().unwrap();
        origins[&PipelineId::new(Signal::Traces, "shop")].clone()
    };
    // Who changed the pipeline is not known, and that makes no difference.
    let is = |version: &str| {
        let versions = BTreeMap::from([("shop/backend".to_owned(), version.to_owned())]);
        Origin { manager: None, secret_versions: Some(versions) }
    };
    let (one, two) = (("url", "http://one.shop:4317"), ("url", "http://two.shop:4317"));
    cluster.secret_in("7", "backend", &[one, ("other", "a")]);
    assert_eq!(told(&mut cluster), is("7"));
    cluster.secret_in("8", "backend", &[one, ("other", "b")]);
    assert_eq!(told(&mut cluster), is("7"), "nodes get nothing anew");
    cluster.secret_in("9", "backend", &[two]);
    assert_eq!(told(&mut cluster), is("9"));
    let (reason, since) = ("forbidden".to_owned(), cluster.now);
    cluster.state("backend", SecretState::Unreadable { reason, since }).trace("other");
    assert_eq!(told(&mut cluster), is("9"), "what nodes have of it stays");
}

#[test]
fn it_takes_no_room_that_documents_need() {
    let names = (1..3000_u64).map(|number| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let all: Origins = names.map(|name| (PipelineId::new(Signal::Logs, name), of(Some(by("helm"))))).collect();
    let data = |documents: usize| {
        let (revision, changed_by) = ("ab".to_owned(), Arc::new(all.clone()));
        let configuration = Configuration { revision, packed: vec![0; documents], documents: 1, changed_by };
        configuration.manifest("kyma-system", &json!({}), json!({}))["data"].clone()
    };
    assert!(data(100 << 10).get(KEY).is_some());
    assert!(data(1000 << 10).get(KEY).is_none());
}
