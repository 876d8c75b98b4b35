//! Pages as a kubelet of Kubernetes 1.36 writes them, shortened.

use weir_plan::{ResourceAmounts, RuntimeMetric, RuntimeMetrics, RuntimeResource};

use super::*;
use crate::runtime::test_lines::{NOW, lines};

const SUMMARY: &str = r#"{
 "node": {
  "nodeName": "node-1",
  "systemContainers": [{
    "name": "kubelet", "startTime": "2026-11-25T10:00:00Z",
    "cpu": {"time": "2026-11-25T11:59:55Z", "usageNanoCores": 30000000, "usageCoreNanoSeconds": 120500000000},
    "memory": {"time": "2026-11-25T11:59:55Z", "usageBytes": 90000000, "workingSetBytes": 80000000, "rssBytes": 1}}],
  "startTime": "2026-11-25T10:00:00Z",
  "cpu": {"time": "2026-11-25T11:59:55Z", "usageNanoCores": 500000000, "usageCoreNanoSeconds": 3600000000000, "psi": {}},
  "memory": {"availableBytes": 3, "usageBytes": 7, "workingSetBytes": 5, "rssBytes": 4, "pageFaults": 11, "majorPageFaults": 2},
  "network": {"time": "2026-11-25T11:59:55Z", "name": "eth0", "rxBytes": 100, "rxErrors": 0, "txBytes": 200, "txErrors": 1,
   "interfaces": [
    {"name": "eth0", "rxBytes": 100, "rxErrors": 0, "txBytes": 200, "txErrors": 1},
    {"name": "cni0", "rxBytes": 9, "rxErrors": 0, "txBytes": 9, "txErrors": 0},
    {"name": "enp3s0", "rxBytes": 5, "txBytes": 6}]},
  "fs": {"availableBytes": 30, "capacityBytes": 100, "usedBytes": 70, "inodesFree": 1, "inodes": 2, "inodesUsed": 1},
  "runtime": {"imageFs": {"usedBytes": 1}},
  "rlimit": {"maxpid": 1}
 },
 "pods": [
  {"podRef": {"name": "cart-0", "namespace": "shop", "uid": "uid-1"}, "startTime": "2026-11-25T11:00:00Z",
   "containers": [
    {"name": "app", "startTime": "2026-11-25T11:00:30Z",
     "cpu": {"usageNanoCores": 100000000, "usageCoreNanoSeconds": 2500000000},
     "memory": {"usageBytes": 67108864, "availableBytes": 1, "workingSetBytes": 2, "rssBytes": 3, "pageFaults": 4, "majorPageFaults": 5},
     "rootfs": {"availableBytes": 30, "capacityBytes": 100, "usedBytes": 20}, "logs": {"usedBytes": 8}, "swap": {}},
    {"name": "proxy", "startTime": null, "memory": {"usageBytes": 1}}],
   "cpu": {"usageNanoCores": 200000000, "usageCoreNanoSeconds": 3500000000},
   "memory": {"usageBytes": 134217728, "availableBytes": 1, "workingSetBytes": 2, "rssBytes": 3, "pageFaults": 4, "majorPageFaults": 5},
   "network": {"name": "eth0", "rxBytes": 10, "rxErrors": 1, "txBytes": 20, "txErrors": 2,
     "interfaces": [{"name": "eth0", "rxBytes": 10}, {"name": "eth1", "rxBytes": 11}]},
   "volume": [
    {"name": "data", "availableBytes": 60, "capacityBytes": 100, "usedBytes": 40, "inodesFree": 6, "inodes": 10, "inodesUsed": 4,
     "pvcRef": {"name": "data-cart-0", "namespace": "shop"}},
    {"name": "config", "usedBytes": 1}, {"name": "down", "usedBytes": 1}, {"name": "tmp", "usedBytes": 1},
    {"name": "keys", "usedBytes": 1}, {"name": "token", "usedBytes": 1}, {"name": "host", "usedBytes": 1},
    {"name": "unknown", "usedBytes": 1}],
   "ephemeral-storage": {"availableBytes": 30, "capacityBytes": 100, "usedBytes": 28}},
  {"podRef": {"name": "idle", "namespace": "shop", "uid": "uid-2"}, "startTime": "2026-11-25T11:00:00Z", "containers": null},
  {"podRef": {"name": "small", "namespace": "shop", "uid": "uid-3"}, "memory": {"usageBytes": 1048576}}
 ]
}"#;

const PODS: &str = r#"{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [
 {"metadata": {"name": "cart-0", "namespace": "shop", "uid": "uid-1", "managedFields": [{"f:spec": {}}]},
  "spec": {
   "volumes": [
    {"name": "data", "persistentVolumeClaim": {"claimName": "data-cart-0"}}, {"name": "config", "configMap": {"name": "c"}},
    {"name": "down", "downwardAPI": {"items": []}}, {"name": "tmp", "emptyDir": {}}, {"name": "keys", "secret": {"secretName": "k"}},
    {"name": "token", "projected": {"sources": []}}, {"name": "host", "hostPath": {"path": "/"}}],
   "containers": [
    {"name": "app", "image": "cart:1", "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "250m", "memory": "64Mi"}}},
    {"name": "proxy", "resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "150m", "memory": "64Mi"}}}]},
  "status": {"phase": "Running"}},
 {"metadata": {"name": "idle", "namespace": "shop", "uid": "uid-2"}, "spec": {"containers": null}},
 {"metadata": {"uid": "uid-3"}, "spec": {"containers": [{"name": "a", "resources": {"limits": {"memory": "4Mi"}}}]}}
]}"#;

/// Of a node with four cores and 256 MiB.
fn shown(wanted: RuntimeMetrics) -> Vec<String> {
    let pages = Pages { summary: summary(SUMMARY.as_bytes()).unwrap(), pods: pods(PODS.as_bytes()).unwrap() };
    let (cpu, memory) = (Some(4_000), Some((256 << 20) * 1_000));
    let capacity = ResourceAmounts { cpu, memory, ..ResourceAmounts::default() };
    let mut draft = Draft::new("scope", wanted, NOW, usize::MAX);
    pages.write(&capacity, NOW, &mut draft).unwrap();
    assert_eq!(pages.node(), "node-1");
    lines(&draft.finish())
}

fn with_defaults() -> Vec<String> {
    shown(RuntimeMetrics::of(&RuntimeResource::ALL))
}

/// The lines from the one that ends like this to the next that is about a resource.
fn of<'a>(all: &'a [String], resource: &str) -> Vec<&'a str> {
    let begin = all.iter().position(|line| line.ends_with(resource)).unwrap_or_else(|| panic!("{resource}: {all:#?}"));
    let rest = all[begin + 1..].iter().take_while(|line| line.starts_with("  "));
    rest.map(|line| line.trim_start()).collect()
}

#[test]
fn a_node_and_what_runs_beside_its_pods() {
    let all = with_defaults();
    assert_eq!(
        of(&all, "OfCluster k8s.node.name=node-1"),
        [
            "k8s.node.cpu.usage {cpu} gauge 0.5",
            "k8s.node.memory.available By gauge 3",
            "k8s.node.memory.usage By gauge 7",
            "k8s.node.memory.rss By gauge 4",
            "k8s.node.memory.working_set By gauge 5",
            "k8s.node.filesystem.available By gauge 30",
            "k8s.node.filesystem.capacity By gauge 100",
            "k8s.node.filesystem.usage By gauge 70",
            "k8s.node.network.io By counter{interface=eth0,direction=receive} 100 from 1795600800",
            "k8s.node.network.io By counter{interface=eth0,direction=transmit} 200 from 1795600800",
            "k8s.node.network.io By counter{interface=enp3s0,direction=receive} 5 from 1795600800",
            "k8s.node.network.io By counter{interface=enp3s0,direction=transmit} 6 from 1795600800",
            "k8s.node.network.errors 1 counter{interface=eth0,direction=receive} 0 from 1795600800",
            "k8s.node.network.errors 1 counter{interface=eth0,direction=transmit} 1 from 1795600800",
        ]
    );
    assert!(!all.iter().any(|line| line.contains("system_container")), "nobody asked");
    let all = shown(RuntimeMetrics::all());
    assert_eq!(
        of(&all, "k8s.node.name=node-1,k8s.node.system_container.name=kubelet"),
        [
            "k8s.node.system_container.cpu.usage {cpu} gauge 0.03",
            "k8s.node.system_container.cpu.time s counter 120.5 from 1795600800",
            "k8s.node.system_container.memory.usage By gauge 90000000",
            "k8s.node.system_container.memory.working_set By gauge 80000000",
        ]
    );
    let more = of(&all, "OfCluster k8s.node.name=node-1");
    assert!(more.contains(&"k8s.node.uptime s counter 7200 from 1795600800"), "{more:#?}");
    assert!(more.contains(&"k8s.node.cpu.time s counter 3600.0 from 1795600800"), "{more:#?}");
}

#[test]
fn a_pod_and_its_container() {
    let all = with_defaults();
    let pod = of(&all, "All k8s.pod.name=cart-0,k8s.namespace.name=shop,k8s.pod.uid=uid-1");
    assert_eq!(
        pod,
        [
            "k8s.pod.cpu.usage {cpu} gauge 0.2",
            "k8s.pod.cpu.time s counter 3.5 from 1795604400",
            "k8s.pod.memory.available By gauge 1",
            "k8s.pod.memory.usage By gauge 134217728",
            "k8s.pod.memory.rss By gauge 3",
            "k8s.pod.memory.working_set By gauge 2",
            "k8s.pod.memory.page_faults 1 gauge 4",
            "k8s.pod.memory.major_page_faults 1 gauge 5",
            "k8s.pod.filesystem.available By gauge 30",
            "k8s.pod.filesystem.capacity By gauge 100",
            "k8s.pod.filesystem.usage By gauge 28",
            "k8s.pod.network.io By counter{interface=eth0,direction=receive} 10 from 1795604400",
            "k8s.pod.network.io By counter{interface=eth0,direction=transmit} 20 from 1795604400",
            "k8s.pod.network.errors 1 counter{interface=eth0,direction=receive} 1 from 1795604400",
            "k8s.pod.network.errors 1 counter{interface=eth0,direction=transmit} 2 from 1795604400",
        ]
    );
    let container = of(&all, "k8s.pod.uid=uid-1,k8s.container.name=app");
    assert_eq!(container.len(), 11, "{container:#?}");
    assert_eq!(
        container[..2],
        ["container.cpu.usage {cpu} gauge 0.1", "container.cpu.time s counter 2.5 from 1795604430"]
    );
    assert_eq!(of(&all, "k8s.container.name=proxy"), ["container.memory.usage By gauge 1"]);
    assert!(!all.iter().any(|line| line.contains("idle")), "nothing is known of it");
}

/// Of a pod only if all its containers have the limit or the request.
#[test]
fn usage_is_compared_with_what_is_asked_for() {
    let all = shown(RuntimeMetrics::all());
    let utilization = |resource: &str| -> Vec<String> {
        let lines = of(&all, resource).into_iter().filter(|line| line.contains("utilization"));
        lines.map(|line| line.replace(" 1 gauge", "")).collect()
    };
    assert_eq!(
        utilization("k8s.pod.uid=uid-1"),
        [
            "k8s.pod.cpu.node.utilization 0.05",
            "k8s.pod.cpu_limit_utilization 0.2",
            "k8s.pod.cpu_request_utilization 0.5",
            "k8s.pod.memory.node.utilization 0.5",
            "k8s.pod.memory_request_utilization 1.0",
        ]
    );
    let small = ["k8s.pod.memory.node.utilization 0.00390625", "k8s.pod.memory_limit_utilization 0.25"];
    assert_eq!(utilization("k8s.pod.uid=uid-3"), small);
    assert_eq!(
        utilization("k8s.container.name=app"),
        [
            "k8s.container.cpu.node.utilization 0.025",
            "k8s.container.cpu_limit_utilization 0.2",
            "k8s.container.cpu_request_utilization 0.4",
            "k8s.container.memory.node.utilization 0.25",
            "k8s.container.memory_limit_utilization 0.5",
            "k8s.container.memory_request_utilization 1.0",
        ]
    );
}

#[test]
fn volumes_that_hold_configuration_are_left_out() {
    let all = shown(RuntimeMetrics::all());
    let volumes: Vec<_> =
        all.iter().filter_map(|line| line.split_once("k8s.volume.name=")).map(|(_, name)| name).collect();
    assert_eq!(
        volumes,
        [
            "data,k8s.volume.type=persistentVolumeClaim,k8s.persistentvolumeclaim.name=data-cart-0",
            "token",
            "host,k8s.volume.type=hostPath"
        ]
    );
    assert_eq!(
        of(&all, "k8s.persistentvolumeclaim.name=data-cart-0"),
        [
            "k8s.volume.available By gauge 60",
            "k8s.volume.capacity By gauge 100",
            "k8s.pod.volume.usage By updown 40",
            "k8s.volume.inodes 1 gauge 10",
            "k8s.volume.inodes.free 1 gauge 6",
            "k8s.volume.inodes.used 1 gauge 4",
        ]
    );
    let asked = of(&all, "k8s.container.name=app");
    assert!(asked.contains(&"k8s.container.ephemeral_storage.usage By updown{fs.type=rootfs} 20"), "{asked:#?}");
    assert!(asked.contains(&"k8s.container.ephemeral_storage.usage By updown{fs.type=logs} 8"), "{asked:#?}");
    assert!(asked.contains(&"container.uptime s counter 3570 from 1795604430"), "{asked:#?}");
}

#[test]
fn only_what_is_wanted_is_there() {
    assert_eq!(
        shown(["k8s.node.uptime", "k8s.volume.inodes"].into_iter().collect()),
        [
            "All k8s.pod.name=cart-0,k8s.namespace.name=shop,k8s.pod.uid=uid-1,k8s.volume.name=data,\
             k8s.volume.type=persistentVolumeClaim,k8s.persistentvolumeclaim.name=data-cart-0",
            "  k8s.volume.inodes 1 gauge 10",
            "OfCluster k8s.node.name=node-1",
            "  k8s.node.uptime s counter 7200 from 1795600800",
        ]
    );
    assert!(shown(RuntimeMetrics::default()).is_empty());
}

/// The other part of the names is in the tests of `cluster`.
pub(in crate::runtime) fn names() -> Vec<&'static str> {
    let all = shown(RuntimeMetrics::all());
    let is_there = |name: &str| all.iter().any(|line| line.trim_start().split(' ').next() == Some(name));
    RuntimeMetric::ALL.iter().map(|metric| metric.name).filter(|name| is_there(name)).collect()
}

#[test]
fn other_pages_are_refused() {
    for page in ["", "<html>", "[]", "{}", r#"{"node": {}}"#, r#"{"node": {"nodeName": "a"}, "pods": [{}]}"#] {
        assert!(summary(page.as_bytes()).is_err(), "{page}");
    }
    for page in ["", "<html>", "[1]", r#"{"items": [{}]}"#] {
        assert!(pods(page.as_bytes()).is_err(), "{page}");
    }
    assert!(summary(br#"{"node": {"nodeName": "a"}, "pods": null}"#).is_ok());
}

/// Nothing is made that is not paid for.
#[test]
fn there_is_an_end_when_there_is_no_room() {
    let pages = Pages { summary: summary(SUMMARY.as_bytes()).unwrap(), pods: pods(PODS.as_bytes()).unwrap() };
    let mut draft = Draft::new("scope", RuntimeMetrics::all(), NOW, 2_000);
    assert_eq!(pages.write(&ResourceAmounts::default(), NOW, &mut draft), Err(EstimateTooSmall));
    let room = SUMMARY.len() + (2 << 10) * objects(SUMMARY.as_bytes());
    let mut draft = Draft::new("scope", RuntimeMetrics::all(), NOW, room);
    assert_eq!(pages.write(&ResourceAmounts::default(), NOW, &mut draft), Ok(()), "as much as the agent pays for");
}
