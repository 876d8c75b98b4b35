//! Ways to run it: which workloads there are, and that none goes while it owes anything.

use super::*;
use crate::operator::manifests as made;
use crate::operator::picture::Answer;
use crate::operator::{Autoscaling, Replicas, Storage};

const NODE: &str = "telemetry-otlp-gateway";
const STATEFUL: &str = "telemetry-gateway-stateful";

fn replicas(storage: bool) -> Replicas {
    Replicas {
        count: 2,
        autoscaling: None,
        storage: storage.then(|| Storage { size: "2Gi".to_owned(), class: Some("fast".to_owned()) }),
        resources: json!({ "requests": { "cpu": "500m" } }),
        tolerations: json!([]),
    }
}

/// A cluster in which clients push, logs are read and metrics are collected.
fn all_inputs(scale: Scale) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.trace("shop");
    cluster.pipeline(Signal::Logs, "shop", json!({ "output": otlp("http://b:4317") }));
    let runtime = json!({ "runtime": { "enabled": true } });
    cluster.pipeline(Signal::Metrics, "shop", json!({ "input": runtime, "output": otlp("http://b:4317") }));
    cluster.options.scale = scale;
    cluster
}

fn of(gateway: Option<Replicas>, split_roles: bool) -> Scale {
    Scale { split_roles, gateway }
}

/// Workloads with the roles that they are told; none stands for whatever pipelines ask for.
fn workloads(decision: &Decision) -> Vec<(String, String)> {
    let is_workload = |it: &&Value| ["DaemonSet", "StatefulSet", "Deployment"].contains(&it["kind"].as_str().unwrap());
    let described = |it: &Value| {
        let roles = argument(it, "--roles").unwrap_or_else(|| "all".to_owned());
        (format!("{} {}", it["kind"].as_str().unwrap(), super::super::object::name(it)), roles)
    };
    decision.apply.iter().filter(is_workload).map(described).collect()
}

fn expect(decision: &Decision, expected: &[(&str, &str)]) {
    let found = workloads(decision);
    let found: Vec<_> = found.iter().map(|(name, roles)| (name.as_str(), roles.as_str())).collect();
    assert_eq!(found, expected);
}

fn argument(workload: &Value, name: &str) -> Option<String> {
    let args = workload["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let at = args.iter().position(|arg| arg == name)?;
    Some(args[at + 1].as_str().unwrap().to_owned())
}

fn served(decision: &Decision) -> (&str, &str) {
    let spec = &manifest(decision, "Service", "telemetry-otlp").unwrap()["spec"];
    let name = spec["selector"]["app.kubernetes.io/name"].as_str().unwrap();
    (name, spec["internalTrafficPolicy"].as_str().unwrap())
}

/// What pods of a workload say: what they do, and what they owe.
fn say(cluster: &mut Cluster, workload: Workload, roles: &[&str], owed: u64) {
    let revision = cluster.decide().configuration.unwrap().revision;
    for number in 0..2 {
        let name = format!("{}-{number}", workload.name());
        cluster.picture.pods.retain(|pod| pod.name != name);
        cluster.picture.pods.push(PodState { name: name.clone(), workload, ready: true, ..PodState::default() });
        let roles = Some(roles.iter().map(|role| (*role).to_owned()).collect());
        let answer = Answer { revision: Some(revision.clone()), roles, owes: owed > 0, ..Answer::default() };
        cluster.picture.answers.insert(name, answer);
    }
    cluster.picture.workloads.insert(workload, settled(2));
}

/// Nothing is there but this workload, whose pods have these roles.
fn only(cluster: &mut Cluster, workload: Workload, roles: &[&str]) {
    cluster.picture.workloads.clear();
    cluster.picture.pods.clear();
    cluster.picture.answers.clear();
    say(cluster, workload, roles, 0);
}

#[test]
fn there_are_four_ways_to_run_it() {
    let node = [("DaemonSet telemetry-otlp-gateway", "all")];
    expect(&all_inputs(Scale::default()).decide(), &node);
    let split = [
        ("DaemonSet telemetry-otlp-gateway", "gateway"),
        ("DaemonSet telemetry-log-agent", "logs"),
        ("DaemonSet telemetry-metric-agent", "metrics"),
    ];
    expect(&all_inputs(of(None, true)).decide(), &split);
    let fresh = |scale| {
        let mut cluster = all_inputs(scale);
        cluster.picture.workloads.clear();
        cluster.decide()
    };
    let decision = fresh(of(Some(replicas(true)), false));
    expect(
        &decision,
        &[("DaemonSet telemetry-agent", "logs,metrics"), ("StatefulSet telemetry-gateway-stateful", "gateway")],
    );
    assert_eq!(served(&decision), (STATEFUL, "Cluster"));
    let decision = fresh(of(Some(replicas(false)), true));
    expect(
        &decision,
        &[
            ("DaemonSet telemetry-log-agent", "logs"),
            ("DaemonSet telemetry-metric-agent", "metrics"),
            ("Deployment telemetry-gateway", "gateway"),
        ],
    );
    assert_eq!(served(&decision), ("telemetry-gateway", "Cluster"));
}

#[test]
fn a_role_that_no_pipeline_needs_has_no_workload() {
    let mut cluster = Cluster::new();
    cluster.options.scale = of(None, true);
    cluster.picture.workloads.clear();
    expect(&cluster.trace("shop").decide(), &[("DaemonSet telemetry-otlp-gateway", "gateway")]);
    let mut cluster = Cluster::new();
    cluster.options.scale = of(Some(replicas(true)), false);
    cluster.picture.workloads.clear();
    cluster.pipeline(
        Signal::Logs,
        "a",
        json!({ "input": { "otlp": { "enabled": false } }, "output": otlp("http://b:1") }),
    );
    expect(&cluster.decide(), &[("DaemonSet telemetry-agent", "logs")]);
}

/// A cluster in which a pipeline reads logs, and none takes any more what clients push.
fn pushed_to_no_more(scale: Scale, agent: Workload) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.options.scale = scale;
    let off = json!({ "otlp": { "enabled": false } });
    cluster.pipeline(Signal::Logs, "a", json!({ "input": off, "output": otlp("http://b:1") }));
    only(&mut cluster, agent, &["logs"]);
    cluster
}

#[test]
fn a_gateway_on_nodes_that_is_not_needed_any_more_delivers_what_it_has_and_goes() {
    let mut cluster = pushed_to_no_more(of(None, true), Workload::LogAgent);
    let key = made::key_of(Workload::Node, "kyma-system");
    let agent = ("DaemonSet telemetry-log-agent", "logs");
    let only_delivers = ("DaemonSet telemetry-otlp-gateway", "backlog");
    let said: [(&[&str], u64); 3] = [(&["gateway"], 7), (&["gateway"], 0), (&[], 7)];
    for (roles, owed) in said {
        say(&mut cluster, Workload::Node, roles, owed);
        expect(&cluster.decide(), &[only_delivers, agent]);
    }
    let decision = cluster.trace("shop").decide();
    expect(&decision, &[("DaemonSet telemetry-otlp-gateway", "gateway"), agent]);
    assert_eq!(served(&decision), (NODE, "Local"), "somebody pushes again");
    Arc::make_mut(&mut cluster.picture.pipelines).remove(&PipelineId::new(Signal::Traces, "shop"));
    say(&mut cluster, Workload::Node, &[], 0);
    let decision = cluster.decide();
    expect(&decision, &[agent]);
    assert!(decision.delete.contains(&key));
}

/// They take nothing, so clients that are connected keep nobody. Other pods would have other directories without
/// storage.
#[test]
fn replicas_that_are_not_needed_any_more_are_left_alone_until_they_owe_nothing() {
    for (storage, workload) in [(true, Workload::Stateful), (false, Workload::Stateless)] {
        let mut cluster = pushed_to_no_more(of(Some(replicas(storage)), false), Workload::Agents);
        let key = made::key_of(workload, "kyma-system");
        let is_there = |cluster: &mut Cluster| {
            let decision = cluster.decide();
            expect(&decision, &[("DaemonSet telemetry-agent", "logs")]);
            assert_eq!(decision.scale, None, "their number stays");
            !decision.delete.contains(&key)
        };
        say(&mut cluster, workload, &["gateway"], 7);
        cluster.picture.workloads.insert(workload, settled(3));
        assert!(is_there(&mut cluster), "items are owed");
        let decision = cluster.trace("shop").decide();
        assert_eq!((served(&decision).0, decision.delete.contains(&key)), (workload.name(), false));
        assert!(workloads(&decision).contains(&(format!("{} {}", key.kind, key.name), "gateway".to_owned())));
        assert_eq!(decision.scale, Some((key.clone(), 2)), "somebody pushes again");
        // They say nothing yet of the configuration without it.
        say(&mut cluster, workload, &["gateway"], 0);
        Arc::make_mut(&mut cluster.picture.pipelines).remove(&PipelineId::new(Signal::Traces, "shop"));
        assert!(is_there(&mut cluster), "more may come");
        say(&mut cluster, workload, &["gateway"], 0);
        cluster.picture.answers.values_mut().for_each(|answer| answer.has_clients = true);
        assert!(!is_there(&mut cluster), "nothing is owed");
    }
}

/// Nothing is wrong while there is no gateway, because no pipeline takes what clients push.
#[test]
fn a_gateway_that_no_pipeline_needs_is_not_missing() {
    let gateway = [
        (of(None, true), Workload::LogAgent, "OTLP Gateway DaemonSet"),
        (of(Some(replicas(true)), false), Workload::Agents, "OTLP Gateway StatefulSet"),
        (of(Some(replicas(false)), false), Workload::Agents, "OTLP Gateway Deployment"),
    ];
    for (scale, agent, name) in gateway {
        let mut cluster = Cluster::new();
        cluster.options.scale = scale;
        let input = json!({ "otlp": { "enabled": false } });
        cluster.telemetry().pipeline(Signal::Logs, "a", json!({ "input": input, "output": otlp("http://b:1") }));
        only(&mut cluster, agent, &["logs"]);
        cluster.picture.probing = BTreeMap::from([(agent, Probing { answer: 2, silent: 0 })]);
        let decision = cluster.decide();
        let (status, reason, message) = condition(&decision, "a", "GatewayHealthy");
        assert_eq!((status.as_str(), reason.as_str()), ("True", "GatewayReady"));
        assert_eq!(message, format!("{name} is not there, because no pipeline needs it"));
        assert_eq!(brief(&decision, "a", "AgentHealthy"), "True AgentReady");
        assert_eq!(brief(&decision, "a", "TelemetryFlowHealthy"), "True FlowHealthy");
        assert_eq!(brief(&decision, "default", "LogComponentsHealthy"), "True ComponentsRunning");
        assert_eq!(state_of_telemetry(&decision), "Ready");
        // One that is needed is missing.
        let decision = cluster.trace("shop").decide();
        assert_eq!(brief(&decision, "a", "GatewayHealthy"), "False GatewayNotReady");
        assert_eq!(brief(&decision, "default", "TraceComponentsHealthy"), "False GatewayNotReady");
        assert_eq!(state_of_telemetry(&decision), "Warning");
    }
}

/// A pipeline whose inputs are all off takes nothing, so there is nobody to be asked for it.
#[test]
fn a_pipeline_that_takes_nothing_is_well() {
    let mut cluster = Cluster::new();
    cluster.options.scale = of(None, true);
    let off = json!({ "otlp": { "enabled": false }, "runtime": { "enabled": false } });
    cluster.telemetry().pipeline(Signal::Logs, "a", json!({ "input": off, "output": otlp("http://b:1") }));
    cluster.picture.workloads.clear();
    cluster.picture.probing.clear();
    let decision = cluster.decide();
    expect(&decision, &[]);
    let policy = manifest(&decision, "NetworkPolicy", "kyma-project.io--telemetry-otlp-gateway").unwrap();
    let selected = &policy["spec"]["podSelector"]["matchExpressions"][0]["values"];
    assert_eq!(*selected, json!([NODE]), "an empty list is refused");
    for kind in ["ConfigurationGenerated", "GatewayHealthy", "AgentHealthy", "TelemetryFlowHealthy"] {
        assert!(brief(&decision, "a", kind).starts_with("True "), "{kind}: {}", brief(&decision, "a", kind));
    }
    assert_eq!(state_of_telemetry(&decision), "Ready");
}

/// Commands in docs/operations.md select by it.
#[test]
fn the_pods_of_each_workload_have_the_label_of_who_made_them() {
    for scale in [of(None, false), of(None, true), of(Some(replicas(true)), false), of(Some(replicas(false)), true)] {
        let decision = all_inputs(scale).decide();
        let templates: Vec<_> = decision.apply.iter().filter_map(|it| it["spec"].get("template")).collect();
        assert_eq!(templates.len(), workloads(&decision).len());
        for template in templates {
            let labels = &template["metadata"]["labels"];
            assert_eq!(labels["app.kubernetes.io/managed-by"], "telemetry-manager", "{labels}");
        }
    }
}

#[test]
fn each_process_has_data_of_its_own_and_positions_are_those_of_the_node() {
    let decision = all_inputs(of(None, true)).decide();
    for (name, data, positions) in [
        (NODE, "/var/lib/weir", None),
        ("telemetry-log-agent", "/var/lib/weir/log-agent", Some("/var/lib/weir/logs")),
        ("telemetry-metric-agent", "/var/lib/weir/metric-agent", None),
    ] {
        let workload = manifest(&decision, "DaemonSet", name).unwrap();
        assert_eq!(argument(workload, "--data-dir").as_deref(), Some(data));
        assert_eq!(argument(workload, "--log-positions").as_deref(), positions);
        let spec = &workload["spec"]["template"]["spec"];
        assert_eq!(spec["volumes"][0]["hostPath"]["path"], "/var/lib/telemetry-weir", "{name}");
        let reads_logs = name == "telemetry-log-agent";
        assert_eq!(spec["volumes"].to_string().contains("/var/log/pods"), reads_logs, "{name}");
        let ports = spec["containers"][0]["ports"].to_string();
        assert_eq!(ports.contains("4317"), name == NODE, "{name}");
        let labels = &workload["spec"]["template"]["metadata"]["labels"];
        assert_eq!(
            workload["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"],
            labels["app.kubernetes.io/name"]
        );
        let policy = manifest(&decision, "NetworkPolicy", "kyma-project.io--telemetry-otlp-gateway").unwrap();
        assert!(policy["spec"]["podSelector"].to_string().contains(name), "{name}");
    }
    for (service, selects) in [
        ("telemetry-otlp-gateway-metrics", NODE),
        ("telemetry-log-agent-metrics", "telemetry-log-agent"),
        ("telemetry-metric-agent-metrics", "telemetry-metric-agent"),
    ] {
        let spec = &manifest(&decision, "Service", service).unwrap()["spec"];
        assert_eq!(spec["selector"]["app.kubernetes.io/name"], selects);
    }
}

#[test]
fn replicas_keep_what_they_owe_and_spread() {
    let mut cluster = all_inputs(of(Some(replicas(true)), false));
    only(&mut cluster, Workload::Stateful, &["gateway"]);
    let decision = cluster.decide();
    let set = manifest(&decision, "StatefulSet", STATEFUL).unwrap();
    let spec = &set["spec"];
    assert_eq!(spec["podManagementPolicy"], "Parallel");
    assert_eq!(
        spec["persistentVolumeClaimRetentionPolicy"],
        json!({ "whenDeleted": "Retain", "whenScaled": "Retain" })
    );
    let claim = &spec["volumeClaimTemplates"][0]["spec"];
    assert_eq!(
        (&claim["resources"]["requests"]["storage"], &claim["storageClassName"]),
        (&json!("2Gi"), &json!("fast"))
    );
    assert!(spec.get("replicas").is_none(), "an autoscaler may have it");
    let pod = &spec["template"]["spec"];
    assert_eq!(pod["topologySpreadConstraints"][0]["topologyKey"], "kubernetes.io/hostname");
    assert_eq!((&pod["securityContext"]["fsGroup"], &pod["tolerations"]), (&json!(10_001), &json!([])));
    assert!(pod.get("initContainers").is_none() && !pod.to_string().contains("hostPath"), "nothing of the node");
    let args = pod["containers"][0]["args"].as_array().unwrap();
    for arg in ["--all-pods", "--rebalance", "--drain-backlog"] {
        assert!(args.contains(&json!(arg)), "{arg}");
    }
    assert_eq!(argument(set, "--rebalance-cpu").as_deref(), Some("500m"), "as the container requests it");
    assert_eq!(pod["terminationGracePeriodSeconds"], 45 + 2 * 60);
    let budget = manifest(&decision, "PodDisruptionBudget", STATEFUL).unwrap();
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert!(manifest(&decision, "HorizontalPodAutoscaler", STATEFUL).is_none());

    let mut cluster = all_inputs(of(Some(replicas(false)), false));
    cluster.picture.workloads.clear();
    let decision = cluster.decide();
    let pod = &manifest(&decision, "Deployment", "telemetry-gateway").unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0], json!({ "name": "data", "emptyDir": {} }));
    assert_eq!(pod["terminationGracePeriodSeconds"], 45 + 2 * 300, "its data goes with it");
    assert!(!json!(decision.apply).to_string().contains("volumeClaimTemplates"));
    // On nodes there is nothing of it.
    let on_nodes = json!(all_inputs(of(None, true)).decide().apply).to_string();
    for never in ["--rebalance", "--all-pods", "--drain-backlog"] {
        assert!(!on_nodes.contains(never), "{never}");
    }
}

#[test]
fn replicas_are_counted_by_the_operator_or_by_an_autoscaler() {
    let mut cluster = all_inputs(of(Some(replicas(true)), false));
    only(&mut cluster, Workload::Stateful, &["gateway"]);
    assert_eq!(cluster.decide().scale, None);
    cluster.picture.workloads.insert(Workload::Stateful, settled(1));
    let (key, count) = cluster.decide().scale.unwrap();
    assert_eq!((key.kind, key.name.as_str(), count), ("StatefulSet", STATEFUL, 2));

    let autoscaling = Autoscaling { max: 5, cpu_percent: Some(70), pending_bytes: Some("64Mi".to_owned()) };
    cluster.options.scale.gateway = Some(Replicas { autoscaling: Some(autoscaling), ..replicas(true) });
    let decision = cluster.decide();
    assert_eq!(decision.scale, None);
    let spec = &manifest(&decision, "HorizontalPodAutoscaler", STATEFUL).unwrap()["spec"];
    let target = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": STATEFUL });
    assert_eq!((&spec["scaleTargetRef"], &spec["minReplicas"], &spec["maxReplicas"]), (&target, &json!(2), &json!(5)));
    assert_eq!(spec["metrics"][0]["resource"]["target"], json!({ "type": "Utilization", "averageUtilization": 70 }));
    let pods = &spec["metrics"][1]["pods"];
    assert_eq!(
        (&pods["metric"]["name"], &pods["target"]["averageValue"]),
        (&json!("weir_pending_bytes"), &json!("64Mi"))
    );
}

#[test]
fn clients_are_served_by_those_before_until_all_replicas_are_there() {
    let mut cluster = all_inputs(of(Some(replicas(true)), false));
    only(&mut cluster, Workload::Node, &["gateway", "logs", "metrics"]);
    let decision = cluster.decide();
    assert_eq!(served(&decision), (NODE, "Local"));
    let before = ("DaemonSet telemetry-otlp-gateway", "gateway");
    let agents = ("DaemonSet telemetry-agent", "logs,metrics");
    let new = ("StatefulSet telemetry-gateway-stateful", "gateway");
    expect(&decision, &[before, agents, new]);
    // One of them is not all of them.
    cluster.picture.workloads.insert(Workload::Stateful, WorkloadStatus { ready: 1, ..settled(2) });
    assert_eq!(served(&cluster.decide()), (NODE, "Local"));
    say(&mut cluster, Workload::Stateful, &["gateway"], 7);
    let decision = cluster.decide();
    assert_eq!(served(&decision), (STATEFUL, "Cluster"));
    expect(&decision, &[("DaemonSet telemetry-otlp-gateway", "backlog"), agents, new]);
    // From then on one that is away for a moment changes nothing, also for an operator that was started just now.
    say(&mut cluster, Workload::Node, &[], 7);
    cluster.picture.workloads.insert(Workload::Stateful, WorkloadStatus { ready: 1, ..settled(2) });
    assert_eq!(served(&cluster.decide()), (STATEFUL, "Cluster"));
    cluster.picture.answers.clear();
    assert_eq!(served(&cluster.decide()), (STATEFUL, "Cluster"));
}

#[test]
fn nobody_goes_who_owes_anything_or_does_not_say() {
    let mut cluster = all_inputs(of(Some(replicas(true)), false));
    only(&mut cluster, Workload::Node, &[]);
    say(&mut cluster, Workload::Stateful, &["gateway"], 0);
    let is_there = |cluster: &mut Cluster| {
        let decision = cluster.decide();
        let is_deleted = decision.delete.iter().any(|key| (key.kind, key.name.as_str()) == ("DaemonSet", NODE));
        assert_ne!(manifest(&decision, "DaemonSet", NODE).is_some(), is_deleted);
        !is_deleted
    };
    assert!(!is_there(&mut cluster), "nothing is owed");
    say(&mut cluster, Workload::Node, &[], 1);
    assert!(is_there(&mut cluster), "an item is owed");
    say(&mut cluster, Workload::Node, &["gateway"], 0);
    assert!(is_there(&mut cluster), "more may come");
    say(&mut cluster, Workload::Node, &[], 0);
    let name = format!("{NODE}-1");
    let answer = cluster.picture.answers.remove(&name).unwrap();
    assert!(is_there(&mut cluster), "one does not answer");
    cluster.picture.answers.insert(name.clone(), Answer { revision: None, ..answer.clone() });
    assert!(is_there(&mut cluster), "one has not begun");
    cluster.picture.answers.insert(name.clone(), Answer { roles: None, ..answer.clone() });
    assert!(is_there(&mut cluster), "one is of a version that does not say what it does");
    cluster.picture.answers.insert(name, answer);
    cluster.picture.workloads.insert(Workload::Node, WorkloadStatus { desired: 3, ..settled(2) });
    assert!(is_there(&mut cluster), "a node is away");
    cluster.picture.workloads.insert(Workload::Node, settled(2));
    assert!(!is_there(&mut cluster));
}

#[test]
fn each_way_leads_to_each_other() {
    let ways = [of(None, false), of(None, true), of(Some(replicas(true)), false), of(Some(replicas(false)), true)];
    for from in &ways {
        for to in &ways {
            // All that there was is there, and owes something.
            let mut cluster = all_inputs(from.clone());
            cluster.picture.workloads.clear();
            let before = workloads(&cluster.decide());
            let seen = Workload::ALL
                .into_iter()
                .filter(|it| before.iter().any(|(name, _)| name.ends_with(&format!(" {}", it.name()))));
            for workload in seen.collect::<Vec<_>>() {
                say(&mut cluster, workload, &["gateway", "logs", "metrics"], 3);
            }
            cluster.options.scale = to.clone();
            let decision = cluster.decide();
            let goes = |name: &str| decision.delete.iter().any(|key| format!("{} {}", key.kind, key.name) == name);
            assert!(!before.iter().any(|(name, _)| goes(name)), "{from:?} to {to:?}: {before:?} {:?}", decision.delete);
        }
    }
}

#[test]
fn conditions_tell_of_the_workload_that_does_the_work() {
    let mut cluster = all_inputs(of(None, true));
    only(&mut cluster, Workload::Node, &["gateway"]);
    say(&mut cluster, Workload::LogAgent, &["logs"], 0);
    let decision = cluster.decide();
    assert_eq!(brief(&decision, "shop", "GatewayHealthy"), "True GatewayReady");
    let of_metrics = decision.statuses.iter().find(|status| status.object.kind == "MetricPipeline").unwrap();
    assert!(of_metrics.value().to_string().contains("AgentNotReady"), "there is no metric agent yet");
    let of_logs = decision.statuses.iter().find(|status| status.object.kind == "LogPipeline").unwrap();
    assert!(of_logs.value().to_string().contains("Log Agent DaemonSet is ready"));
    cluster.options.scale = of(Some(replicas(true)), true);
    only(&mut cluster, Workload::Stateful, &["gateway"]);
    let decision = cluster.decide();
    assert!(decision.statuses[0].value().to_string().contains("OTLP Gateway StatefulSet is ready"));
}

/// What replicas were made from is not in the options any more: they stay as they are, with their volumes.
#[test]
fn replicas_that_nobody_asks_for_are_left_alone_until_they_have_no_clients_and_owe_nothing() {
    let mut cluster = all_inputs(Scale::default());
    only(&mut cluster, Workload::Stateful, &["gateway"]);
    let key = made::key_of(Workload::Stateful, "kyma-system");
    let check = |decision: &Decision, serves: bool, stays: bool| {
        assert!(manifest(decision, "StatefulSet", STATEFUL).is_none(), "nobody touches it");
        assert_eq!(served(decision).0 == STATEFUL, serves);
        assert_eq!(!decision.delete.contains(&key), stays);
        let policy = manifest(decision, "NetworkPolicy", "kyma-project.io--telemetry-otlp-gateway").unwrap();
        assert_eq!(policy["spec"]["podSelector"].to_string().contains(STATEFUL), stays);
    };
    let decision = cluster.decide();
    check(&decision, true, true);
    assert!(decision.delete.iter().any(|key| key.kind == "HorizontalPodAutoscaler"), "their number stays");
    say(&mut cluster, Workload::Node, &["gateway", "logs", "metrics"], 0);
    check(&cluster.decide(), false, false);
    let name = format!("{STATEFUL}-0");
    cluster.picture.answers.get_mut(&name).unwrap().has_clients = true;
    check(&cluster.decide(), false, true);
    let answer = cluster.picture.answers.get_mut(&name).unwrap();
    (answer.has_clients, answer.owes) = (false, true);
    check(&cluster.decide(), false, true);
    cluster.options.scale = of(Some(replicas(false)), false);
    let decision = cluster.decide();
    check(&decision, false, true);
    assert!(manifest(&decision, "Deployment", "telemetry-gateway").is_some());
}
