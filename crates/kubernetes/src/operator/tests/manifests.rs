//! Manifests: what must be true of them, whichever pipelines there are.

use std::collections::BTreeSet;

use super::*;
use crate::operator::manifests as made;
use crate::operator::picture::Apis;
use crate::operator::{Replicas, SecretKey};

fn all_signals() -> Cluster {
    let mut cluster = Cluster::new();
    let on = json!({ "enabled": true });
    cluster.telemetry().trace("shop");
    cluster.pipeline(Signal::Logs, "shop", json!({ "output": otlp("http://b:4317") }));
    let inputs = json!({ "prometheus": on, "runtime": on, "istio": on });
    cluster.pipeline(Signal::Metrics, "shop", json!({ "input": inputs, "output": otlp("http://b:9090") }));
    cluster
}

fn pod(decision: &Decision) -> &Value {
    &manifest(decision, "DaemonSet", "telemetry-otlp-gateway").unwrap()["spec"]["template"]
}

#[test]
fn what_is_applied_can_be_found_and_removed() {
    let mut cluster = all_signals();
    cluster.picture.apis = Apis { istio: true, ..Apis::default() };
    let decision = cluster.decide();
    let known = made::all("kyma-system", true);
    for manifest in &decision.apply {
        let key = made::key(manifest).unwrap();
        assert!(known.contains(&key) || key.kind == "PriorityClass", "{key} would never be removed");
        assert_eq!(manifest["metadata"]["labels"]["app.kubernetes.io/managed-by"], "telemetry-manager", "{key}");
        let owner = manifest.pointer("/metadata/ownerReferences/0/name");
        assert_eq!(owner.is_some(), key.namespace.is_some(), "{key}");
    }
    let applied: BTreeSet<_> = decision.apply.iter().filter_map(made::key).collect();
    let others: Vec<_> = known.into_iter().filter(|key| !applied.contains(key)).collect();
    assert_eq!(decision.delete, others, "what belongs to another way to run it");
}

#[test]
fn pods_may_do_nothing_they_need_not() {
    let decision = all_signals().decide();
    let spec = &pod(&decision)["spec"];
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    assert_eq!(spec["securityContext"]["runAsUser"], 10_001);
    assert_eq!(spec["securityContext"]["supplementalGroups"], json!([0]), "to read logs of containers");
    assert!(spec.get("hostNetwork").is_none() && spec.get("hostPID").is_none());
    for container in [&spec["containers"][0], &spec["initContainers"][0]] {
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
    }
    assert!(spec["containers"][0]["securityContext"]["capabilities"].get("add").is_none());
    assert_eq!(spec["initContainers"][0]["securityContext"]["capabilities"]["add"], json!(["CHOWN"]));
    let mounts = spec["containers"][0]["volumeMounts"].as_array().unwrap();
    let writable: Vec<_> =
        mounts.iter().filter(|mount| mount.get("readOnly").is_none()).map(|mount| &mount["mountPath"]).collect();
    assert_eq!(writable, ["/var/lib/weir"]);
}

#[test]
fn nothing_of_the_node_is_mounted_without_a_pipeline_that_needs_it() {
    let mut cluster = Cluster::new();
    let decision = cluster.trace("shop").decide();
    let spec = &pod(&decision)["spec"];
    let paths: Vec<_> = spec["volumes"].as_array().unwrap().iter().map(|volume| &volume["hostPath"]["path"]).collect();
    assert_eq!(paths, ["/var/lib/telemetry-weir"]);
    assert!(spec["securityContext"].get("supplementalGroups").is_none());
    let rules = manifest(&decision, "ClusterRole", "telemetry-otlp-gateway").unwrap()["rules"].to_string();
    for right in ["services", "endpointslices", "nodes/", "deployments", "secrets", "proxy", "metricpipelines"] {
        assert!(!rules.contains(right), "{right} in {rules}");
    }
    assert!(manifest(&decision, "Service", "telemetry-log-agent-metrics").is_none());
    assert!(decision.delete.iter().any(|key| key.name == "telemetry-log-agent-metrics"));
    assert!(!decision.delete.iter().any(|key| key.name == "telemetry-otlp"));
}

#[test]
fn rights_are_those_that_pipelines_need() {
    let mut cluster = all_signals();
    let rights =
        |decision: &Decision| manifest(decision, "ClusterRole", "telemetry-otlp-gateway").unwrap()["rules"].clone();
    let rules = rights(&cluster.decide());
    let text = rules.to_string();
    for right in
        ["\"services\"", "endpointslices", "nodes/stats", "nodes/pods", "deployments", "telemetries", "shoot-info"]
    {
        assert!(text.contains(right), "{right} in {text}");
    }
    assert!(!text.contains("nodes/proxy") && !text.contains("secrets") && !text.contains("\"*\""));
    let verbs = rules.as_array().unwrap().iter().flat_map(|rule| rule["verbs"].as_array().unwrap().clone());
    assert!(verbs.into_iter().all(|verb| ["get", "list", "watch"].contains(&verb.as_str().unwrap())));
    cluster.options.nodes_proxy = true;
    assert!(rights(&cluster.decide()).to_string().contains("nodes/proxy"), "older kubelets know no other");

    let decision = cluster.decide();
    let rules = &manifest(&decision, "Role", "telemetry-otlp-gateway").unwrap()["rules"];
    assert_eq!(rules[0]["resourceNames"], json!(["telemetry-node"]), "one Secret and no other");
}

#[test]
fn services_have_the_published_names_ports_and_labels() {
    let decision = all_signals().decide();
    for name in ["telemetry-otlp", "telemetry-otlp-logs", "telemetry-otlp-traces", "telemetry-otlp-metrics"] {
        let spec = &manifest(&decision, "Service", name).unwrap()["spec"];
        assert_eq!(spec["internalTrafficPolicy"], "Local");
        assert_eq!(spec["selector"], json!({ "app.kubernetes.io/name": "telemetry-otlp-gateway" }));
        let ports: Vec<_> =
            spec["ports"].as_array().unwrap().iter().map(|port| (&port["name"], &port["port"])).collect();
        assert_eq!(ports, [(&json!("grpc-collector"), &json!(4317)), (&json!("http-collector"), &json!(4318))]);
    }
    for agent in ["telemetry-otlp-gateway", "telemetry-log-agent", "telemetry-metric-agent"] {
        let service = manifest(&decision, "Service", &format!("{agent}-metrics")).unwrap();
        assert_eq!(service["metadata"]["labels"]["app.kubernetes.io/name"], agent);
        assert_eq!(service["metadata"]["annotations"]["prometheus.io/port"], "8888");
        assert_eq!(service["spec"]["selector"], json!({ "app.kubernetes.io/name": "telemetry-otlp-gateway" }));
    }
    let labels = &pod(&decision)["metadata"]["labels"];
    for label in
        ["log-ingest", "log-export", "metric-ingest", "metric-export", "trace-ingest", "trace-export", "metric-scrape"]
    {
        assert_eq!(labels[format!("telemetry.kyma-project.io/{label}")], "true", "{label}");
    }
}

#[test]
fn policies_let_clients_scrapers_and_the_operator_in() {
    let decision = all_signals().decide();
    let open = &manifest(&decision, "NetworkPolicy", "kyma-project.io--telemetry-otlp-gateway").unwrap()["spec"];
    assert_eq!(open["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(open["egress"], json!([{}]));
    assert!(open["ingress"][0].get("from").is_none());
    let metrics =
        &manifest(&decision, "NetworkPolicy", "kyma-project.io--telemetry-otlp-gateway-metrics").unwrap()["spec"];
    let from = metrics["ingress"][0]["from"].to_string();
    assert!(from.contains("networking.kyma-project.io/metrics-scraping") && from.contains("telemetry-manager"));
    assert_eq!(metrics["ingress"][0]["ports"], json!([{ "port": 8888, "protocol": "TCP" }]));
}

#[test]
fn a_mesh_changes_nothing_where_there_is_none() {
    let mut cluster = all_signals();
    let without = cluster.decide();
    assert!(!json!(without.apply).to_string().contains("istio.io"));
    cluster.picture.apis.istio = true;
    let decision = cluster.decide();
    let metadata = &pod(&decision)["metadata"];
    assert_eq!(metadata["labels"]["sidecar.istio.io/inject"], "true");
    let ports = &metadata["annotations"]["traffic.sidecar.istio.io/includeOutboundPorts"];
    assert_eq!(ports, "443,4317,4318,8443,9090", "the ports of backends and those that most have");
    assert!(metadata["annotations"]["proxy.istio.io/config"].as_str().unwrap().contains("OUTPUT_CERTS"));
    let rule = manifest(&decision, "DestinationRule", "telemetry-otlp").unwrap();
    assert_eq!(rule["spec"]["trafficPolicy"]["tls"]["mode"], "DISABLE");
    let mounts = pod(&decision)["spec"]["containers"][0]["volumeMounts"].to_string();
    assert!(mounts.contains("/etc/istio-output-certs"));
}

#[test]
fn options_reach_what_they_are_about_and_take_nothing_away() {
    let one = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let mut cluster = all_signals();
    let mut labels = one("team", "obs");
    labels.insert("app.kubernetes.io/name".to_owned(), "mine".to_owned());
    cluster.options = Options {
        image_pull_secrets: vec!["pull".to_owned()],
        trust_bundle: Some("bundle".to_owned()),
        resources: json!({ "limits": { "memory": "2Gi" } }),
        node_args: vec!["--memory=1GiB".to_owned()],
        node_selector: one("pool", "a"),
        workload_labels: labels.clone(),
        workload_annotations: one("w", "1"),
        pod_labels: labels,
        pod_annotations: one("p", "1"),
        ..options()
    };
    let decision = cluster.decide();
    let daemon_set = manifest(&decision, "DaemonSet", "telemetry-otlp-gateway").unwrap();
    let template = &daemon_set["spec"]["template"];
    for metadata in [&daemon_set["metadata"], &template["metadata"]] {
        assert_eq!(metadata["labels"]["team"], "obs");
        assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "telemetry-otlp-gateway", "the selector needs it");
    }
    assert_eq!(
        (&daemon_set["metadata"]["annotations"]["w"], &template["metadata"]["annotations"]["p"]),
        (&json!("1"), &json!("1"))
    );
    let spec = &template["spec"];
    assert_eq!(spec["imagePullSecrets"], json!([{ "name": "pull" }]));
    assert_eq!(spec["nodeSelector"], json!({ "pool": "a" }));
    assert_eq!(spec["priorityClassName"], "telemetry-priority-class-high");
    let container = &spec["containers"][0];
    assert_eq!(container["resources"]["limits"]["memory"], "2Gi");
    assert!(container["args"].as_array().unwrap().contains(&json!("--memory=1GiB")));
    assert!(container["volumeMounts"].to_string().contains("/etc/ssl/certs"));
    assert!(spec["volumes"].to_string().contains("clusterTrustBundle"));
}

/// Whoever forwards a port to any of the pods needs a token. The kubelet brings it: nodes may read no more Secrets.
#[test]
fn tokens_of_the_admin_port_are_a_file_in_pods_of_each_workload() {
    let mut cluster = all_signals();
    let rights = |decision: &Decision| {
        ["Role", "ClusterRole"].map(|kind| manifest(decision, kind, "telemetry-otlp-gateway").unwrap()["rules"].clone())
    };
    let without = cluster.decide();
    assert!(!json!(without.apply).to_string().contains("admin-token"));
    cluster.options.admin_tokens = Some(SecretKey { name: "page".to_owned(), key: "people".to_owned() });
    cluster.options.node_args = vec!["--memory=1GiB".to_owned()];
    let replicas =
        Replicas { count: 2, autoscaling: None, storage: None, resources: json!({}), tolerations: json!([]) };
    for gateway in [None, Some(replicas)] {
        cluster.options.scale = Scale { split_roles: gateway.is_some(), gateway };
        let decision = cluster.decide();
        assert_eq!(rights(&decision), rights(&without));
        let templates: Vec<_> =
            decision.apply.iter().filter_map(|manifest| manifest.pointer("/spec/template/spec")).collect();
        assert!(!templates.is_empty());
        for spec in templates {
            let volume = json!({
                "name": "admin-tokens",
                "secret": { "secretName": "page", "items": [{ "key": "people", "path": "tokens" }] },
            });
            assert!(spec["volumes"].as_array().unwrap().contains(&volume), "{}", spec["volumes"]);
            let container = &spec["containers"][0];
            let mount = json!({ "name": "admin-tokens", "mountPath": "/etc/weir/admin-tokens", "readOnly": true });
            assert!(container["volumeMounts"].as_array().unwrap().contains(&mount), "{}", container["volumeMounts"]);
            let args = container["args"].as_array().unwrap();
            let of_port = ["--admin-token-file", "/etc/weir/admin-tokens/tokens", "--memory=1GiB"];
            assert!(args.ends_with(&of_port.map(Value::from)), "{args:?}");
            assert!(!spec["initContainers"].to_string().contains("admin-tokens"));
        }
    }
}

#[test]
fn a_new_pipeline_or_a_rotated_secret_restarts_nothing() {
    let mut cluster = all_signals();
    let template = |decision: &Decision| pod(decision).clone();
    let before = template(&cluster.settle());
    cluster.trace("another");
    assert_eq!(template(&cluster.settle()), before);
    let mut cluster = Cluster::new();
    let before = template(&cluster.trace("shop").settle());
    let on = json!({ "enabled": true });
    let inputs = json!({ "prometheus": on, "runtime": on, "istio": on });
    cluster.pipeline(Signal::Metrics, "first", json!({ "input": inputs, "output": otlp("http://b:9090") }));
    assert_eq!(template(&cluster.settle()), before, "nor does the first of another signal");
}

#[test]
fn without_a_pipeline_that_runs_nodes_go_but_not_at_once() {
    let mut cluster = Cluster::new();
    cluster.pipeline(Signal::Traces, "bad", json!({ "output": otlp("nowhere") }));
    cluster.picture.idle_since = Some(cluster.now);
    let decision = cluster.decide();
    assert!(decision.is_idle && decision.apply.is_empty() && decision.delete.is_empty());
    assert_eq!(decision.again, Some(cluster.now + Duration::from_secs(10)));
    cluster.now += Duration::from_secs(10);
    let decision = cluster.decide();
    assert!(decision.apply.iter().all(|manifest| manifest["kind"] == "PriorityClass"));
    let rights = |decision: &Decision| decision.delete.iter().any(|key| ["Role", "ServiceAccount"].contains(&key.kind));
    assert!(!decision.delete.is_empty() && !rights(&decision), "pods that are going give the Lease back");
    cluster.picture.pods.clear();
    assert_eq!(cluster.decide().delete, made::all("kyma-system", false));
    cluster.trace("good");
    let decision = cluster.decide();
    assert!(!decision.is_idle && manifest(&decision, "DaemonSet", "telemetry-otlp-gateway").is_some());
}
