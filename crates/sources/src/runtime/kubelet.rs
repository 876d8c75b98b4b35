//! Metrics of what a kubelet measures: of its node, and of the pods on it with their containers and volumes.
//!
//! Names, attributes and meanings are those of the Collector's receiver `kubelet_stats`. What is left out of them is as in
//! the Kyma Telemetry module: volumes that hold configuration, and interfaces of the node that are not of hardware.

mod pages;
#[cfg(test)]
pub(super) mod tests;

use weir_engine::Added;
use weir_otlp::conventions::{CONTAINER_NAME, NAMESPACE_NAME, NODE_NAME, POD_NAME, POD_UID};
use weir_plan::{ResourceAmounts, Thousandths};

use super::draft::{Draft, EstimateTooSmall, Metrics, signed};
use pages::{ContainerStats, Cpu, FileSystem, Interface, Memory, NodeStats, PodRef, PodStats, Resources, VolumeStats};
pub(super) use pages::{Pods, Summary, memory, objects, pods, summary};

/// Volumes of these kinds hold configuration, or nothing for long.
const PASSING_VOLUMES: [&str; 4] = ["configMap", "downwardAPI", "emptyDir", "secret"];

/// What the names of interfaces begin with that are of hardware.
const HARDWARE: [&str; 2] = ["eth", "en"];

const RECEIVE: (&str, &str) = ("direction", "receive");
const TRANSMIT: (&str, &str) = ("direction", "transmit");

/// The pages of a kubelet.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) summary: Summary,
    pub(super) pods: Pods,
}

impl Pages {
    /// The node that they are of.
    pub(super) fn node(&self) -> &str {
        &self.summary.node.node_name
    }

    /// Writes all metrics. `capacity`: what the node has, if that is known.
    pub(super) fn write(
        &self,
        capacity: &ResourceAmounts,
        now: u64,
        draft: &mut Draft,
    ) -> Result<(), EstimateTooSmall> {
        node(&self.summary.node, now, draft)?;
        let mut writer = Writer { pods: &self.pods, capacity, now, draft };
        self.summary.pods.iter().try_for_each(|stats| writer.pod(stats))
    }
}

fn node(stats: &NodeStats, now: u64, draft: &mut Draft) -> Result<(), EstimateTooSmall> {
    let name = stats.node_name.as_str();
    draft.resource(Added::OfCluster, &[(NODE_NAME, name)], stats.start_time.0, |metrics| {
        uptime(metrics, "k8s.node.uptime", stats.start_time.0, now);
        cpu(metrics, "k8s.node", stats.cpu.as_deref());
        memory_of(metrics, "k8s.node", stats.memory.as_deref());
        file_system(metrics, "k8s.node", stats.fs.as_deref());
        let all = stats.network.iter().flat_map(|network| &network.interfaces);
        let hardware: Vec<_> = all.filter(|is| HARDWARE.iter().any(|prefix| is.name.starts_with(prefix))).collect();
        network(metrics, "k8s.node", &hardware);
    })?;
    for container in &stats.system_containers {
        let attributes = [(NODE_NAME, name), ("k8s.node.system_container.name", container.name.as_str())];
        draft.resource(Added::OfCluster, &attributes, container.start_time.0, |metrics| {
            cpu(metrics, "k8s.node.system_container", container.cpu.as_deref());
            let memory = container.memory.as_deref();
            metrics.int("k8s.node.system_container.memory.usage", memory.and_then(|memory| memory.usage_bytes));
            let working_set = memory.and_then(|memory| memory.working_set_bytes);
            metrics.int("k8s.node.system_container.memory.working_set", working_set);
        })?;
    }
    Ok(())
}

/// Writes the metrics of pods.
struct Writer<'a, 'd> {
    pods: &'a Pods,
    capacity: &'a ResourceAmounts,
    now: u64,
    draft: &'d mut Draft,
}

impl Writer<'_, '_> {
    fn pod(&mut self, stats: &PodStats) -> Result<(), EstimateTooSmall> {
        let (start, now, capacity) = (stats.start_time.0, self.now, self.capacity);
        let resources = self.pods.get(&stats.pod_ref.uid).map(|pod| pod.resources()).unwrap_or_default();
        self.draft.resource(Added::All, &of_pod(&stats.pod_ref), start, |metrics| {
            let (used, memory) = (stats.cpu.as_deref(), stats.memory.as_deref());
            uptime(metrics, "k8s.pod.uptime", start, now);
            cpu(metrics, "k8s.pod", used);
            memory_of(metrics, "k8s.pod", memory);
            utilization(metrics, "k8s.pod", (used, memory), &resources, capacity);
            file_system(metrics, "k8s.pod", stats.ephemeral_storage.as_deref());
            let usual = stats.network.as_ref().map(|network| network.usual());
            network(metrics, "k8s.pod", &usual.iter().collect::<Vec<_>>());
        })?;
        stats.containers.iter().try_for_each(|container| self.container(&stats.pod_ref, container))?;
        stats.volumes.iter().try_for_each(|volume| self.volume(&stats.pod_ref, volume))
    }

    fn container(&mut self, pod: &PodRef, stats: &ContainerStats) -> Result<(), EstimateTooSmall> {
        let [name, namespace, uid] = of_pod(pod);
        let (start, now, capacity) = (stats.start_time.0, self.now, self.capacity);
        let asked = self.pods.get(&pod.uid).and_then(|pod| pod.container(&stats.name)).unwrap_or_default();
        let attributes = [name, namespace, uid, (CONTAINER_NAME, stats.name.as_str())];
        self.draft.resource(Added::All, &attributes, start, |metrics| {
            let (used, memory) = (stats.cpu.as_deref(), stats.memory.as_deref());
            uptime(metrics, "container.uptime", start, now);
            cpu(metrics, "container", used);
            memory_of(metrics, "container", memory);
            utilization(metrics, "k8s.container", (used, memory), &asked, capacity);
            file_system(metrics, "container", stats.rootfs.as_deref());
            let parts = [(&stats.rootfs, &[("fs.type", "rootfs")]), (&stats.logs, &[("fs.type", "logs")])];
            let usage = parts
                .into_iter()
                .filter_map(|(part, attributes)| Some((signed(part.as_ref()?.used_bytes?), &attributes[..])));
            metrics.ints("k8s.container.ephemeral_storage.usage", usage);
        })
    }

    fn volume(&mut self, pod: &PodRef, stats: &VolumeStats) -> Result<(), EstimateTooSmall> {
        // Of what the other page does not have, nobody knows what kind it is. It may be gone already.
        let found = self.pods.get(&pod.uid).and_then(|pod| pod.volume(&stats.name));
        let Some(volume) = found.filter(|volume| !PASSING_VOLUMES.contains(&volume.kind)) else { return Ok(()) };
        let mut attributes = of_pod(pod).to_vec();
        attributes.push(("k8s.volume.name", &stats.name));
        if !volume.kind.is_empty() {
            attributes.push(("k8s.volume.type", volume.kind));
        }
        attributes.extend(volume.claim.as_ref().map(|claim| ("k8s.persistentvolumeclaim.name", claim.as_str())));
        self.draft.resource(Added::All, &attributes, 0, |metrics| {
            for (name, value) in [
                ("k8s.volume.available", stats.available_bytes),
                ("k8s.volume.capacity", stats.capacity_bytes),
                ("k8s.pod.volume.usage", stats.used_bytes),
                ("k8s.volume.inodes", stats.inodes),
                ("k8s.volume.inodes.free", stats.inodes_free),
                ("k8s.volume.inodes.used", stats.inodes_used),
            ] {
                metrics.int(name, value);
            }
        })
    }
}

fn of_pod(pod: &PodRef) -> [(&'static str, &str); 3] {
    [(POD_NAME, &pod.name), (NAMESPACE_NAME, &pod.namespace), (POD_UID, &pod.uid)]
}

fn uptime(metrics: &mut Metrics<'_>, name: &str, start: u64, now: u64) {
    let began = Some(start).filter(|start| *start > 0);
    metrics.int(name, began.map(|start| now.saturating_sub(start) / 1_000_000_000));
}

fn cpu(metrics: &mut Metrics<'_>, of: &str, stats: Option<&Cpu>) {
    let Some(stats) = stats else { return };
    metrics.float(&format!("{of}.cpu.usage"), stats.cores());
    metrics.float(&format!("{of}.cpu.time"), stats.seconds());
}

fn memory_of(metrics: &mut Metrics<'_>, of: &str, stats: Option<&Memory>) {
    let Some(stats) = stats else { return };
    for (name, value) in [
        ("available", stats.available_bytes),
        ("usage", stats.usage_bytes),
        ("rss", stats.rss_bytes),
        ("working_set", stats.working_set_bytes),
        ("page_faults", stats.page_faults),
        ("major_page_faults", stats.major_page_faults),
    ] {
        metrics.int(&format!("{of}.memory.{name}"), value);
    }
}

/// Usage as a part of what the node has, and of limits and requests.
fn utilization(
    metrics: &mut Metrics<'_>,
    of: &str,
    (cpu, memory): (Option<&Cpu>, Option<&Memory>),
    asked: &Resources,
    capacity: &ResourceAmounts,
) {
    let cores = cpu.and_then(Cpu::cores);
    #[expect(clippy::cast_precision_loss, reason = "nobody has so much memory")]
    let bytes = memory.and_then(|memory| memory.usage_bytes).map(|bytes| bytes as f64);
    let Resources { requests, limits } = asked;
    for (name, used, whole) in [
        ("cpu.node.utilization", cores, capacity.cpu),
        ("cpu_limit_utilization", cores, limits.cpu),
        ("cpu_request_utilization", cores, requests.cpu),
        ("memory.node.utilization", bytes, capacity.memory),
        ("memory_limit_utilization", bytes, limits.memory),
        ("memory_request_utilization", bytes, requests.memory),
    ] {
        metrics.float(&format!("{of}.{name}"), used.zip(whole).and_then(|(used, whole)| ratio(used, whole)));
    }
}

fn ratio(used: f64, whole: Thousandths) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "amounts are given with a few digits")]
    let whole = whole as f64 / 1e3;
    (whole > 0.0).then_some(used / whole)
}

fn file_system(metrics: &mut Metrics<'_>, of: &str, stats: Option<&FileSystem>) {
    let Some(stats) = stats else { return };
    metrics.int(&format!("{of}.filesystem.available"), stats.available_bytes);
    metrics.int(&format!("{of}.filesystem.capacity"), stats.capacity_bytes);
    metrics.int(&format!("{of}.filesystem.usage"), stats.used_bytes);
}

fn network(metrics: &mut Metrics<'_>, of: &str, interfaces: &[&Interface]) {
    let mut write = |name: &str, values: fn(&Interface) -> [Option<u64>; 2]| {
        let directions = interfaces.iter().flat_map(|interface| {
            let pairs = [RECEIVE, TRANSMIT].map(|direction| [("interface", interface.name.as_str()), direction]);
            values(interface).into_iter().zip(pairs)
        });
        let known: Vec<_> = directions.filter_map(|(value, pairs)| Some((signed(value?), pairs))).collect();
        metrics.ints(&format!("{of}.network.{name}"), known.iter().map(|(value, pairs)| (*value, &pairs[..])));
    };
    write("io", |interface| [interface.rx_bytes, interface.tx_bytes]);
    write("errors", |interface| [interface.rx_errors, interface.tx_errors]);
}
