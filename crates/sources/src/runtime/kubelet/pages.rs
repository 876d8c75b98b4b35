//! The pages of a kubelet: `/stats/summary` and `/pods`, as far as metrics are made of them.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer};
use weir_plan::ResourceAmounts;
use weir_units::quantity;

use crate::time::parse_rfc3339_nanos;

/// `/stats/summary`.
#[derive(Debug, Deserialize)]
pub(crate) struct Summary {
    pub(super) node: NodeStats,
    #[serde(default, deserialize_with = "list")]
    pub(super) pods: Vec<PodStats>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeStats {
    pub(super) node_name: String,
    #[serde(default, deserialize_with = "list")]
    pub(super) system_containers: Vec<ContainerStats>,
    #[serde(default)]
    pub(super) start_time: Time,
    pub(super) cpu: Option<Box<Cpu>>,
    pub(super) memory: Option<Box<Memory>>,
    pub(super) network: Option<Box<Network>>,
    pub(super) fs: Option<Box<FileSystem>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStats {
    pub(super) pod_ref: PodRef,
    #[serde(default)]
    pub(super) start_time: Time,
    #[serde(default, deserialize_with = "list")]
    pub(super) containers: Vec<ContainerStats>,
    pub(super) cpu: Option<Box<Cpu>>,
    pub(super) memory: Option<Box<Memory>>,
    pub(super) network: Option<Box<Network>>,
    #[serde(default, rename = "volume", deserialize_with = "list")]
    pub(super) volumes: Vec<VolumeStats>,
    #[serde(rename = "ephemeral-storage")]
    pub(super) ephemeral_storage: Option<Box<FileSystem>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PodRef {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStats {
    pub(super) name: String,
    #[serde(default)]
    pub(super) start_time: Time,
    pub(super) cpu: Option<Box<Cpu>>,
    pub(super) memory: Option<Box<Memory>>,
    pub(super) rootfs: Option<Box<FileSystem>>,
    pub(super) logs: Option<Box<FileSystem>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cpu {
    usage_nano_cores: Option<u64>,
    usage_core_nano_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    pub(super) available_bytes: Option<u64>,
    pub(super) usage_bytes: Option<u64>,
    pub(super) working_set_bytes: Option<u64>,
    pub(super) rss_bytes: Option<u64>,
    pub(super) page_faults: Option<u64>,
    pub(super) major_page_faults: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileSystem {
    pub(super) available_bytes: Option<u64>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) used_bytes: Option<u64>,
}

/// The usual interface, and all of them: it is among these as well.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Network {
    #[serde(default)]
    name: String,
    rx_bytes: Option<u64>,
    tx_bytes: Option<u64>,
    rx_errors: Option<u64>,
    tx_errors: Option<u64>,
    #[serde(default, deserialize_with = "list")]
    pub(super) interfaces: Vec<Interface>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interface {
    #[serde(default)]
    pub(super) name: String,
    pub(super) rx_bytes: Option<u64>,
    pub(super) tx_bytes: Option<u64>,
    pub(super) rx_errors: Option<u64>,
    pub(super) tx_errors: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeStats {
    pub(super) name: String,
    pub(super) available_bytes: Option<u64>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) used_bytes: Option<u64>,
    pub(super) inodes: Option<u64>,
    pub(super) inodes_free: Option<u64>,
    pub(super) inodes_used: Option<u64>,
}

/// Nanoseconds since the Unix epoch; 0 if nothing is said.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(from = "Option<String>")]
pub(super) struct Time(pub(super) u64);

impl From<Option<String>> for Time {
    fn from(text: Option<String>) -> Self {
        Self(text.and_then(|text| parse_rfc3339_nanos(text.as_bytes())).unwrap_or_default())
    }
}

impl Network {
    pub(super) fn usual(&self) -> Interface {
        let Self { name, rx_bytes, tx_bytes, rx_errors, tx_errors, .. } = self;
        let (rx_bytes, tx_bytes, rx_errors, tx_errors) = (*rx_bytes, *tx_bytes, *rx_errors, *tx_errors);
        Interface { name: name.clone(), rx_bytes, tx_bytes, rx_errors, tx_errors }
    }
}

/// A list, which may be written as `null` when it is empty.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Cpu {
    /// Cores in use.
    pub(super) fn cores(&self) -> Option<f64> {
        self.usage_nano_cores.map(billionths)
    }

    /// Seconds of one core.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.usage_core_nano_seconds.map(billionths)
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody measures that exactly")]
fn billionths(value: u64) -> f64 {
    value as f64 / 1e9
}

/// `/pods`, by their uids.
#[derive(Debug, Default)]
pub(crate) struct Pods(HashMap<String, Pod>);

/// What a pod asks for, and its volumes; both in the order of their names.
#[derive(Debug, Default)]
pub(super) struct Pod {
    pub(super) containers: Vec<(String, Resources)>,
    pub(super) volumes: Vec<Volume>,
}

/// Of a container, or of all containers of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Resources {
    pub(super) requests: ResourceAmounts,
    pub(super) limits: ResourceAmounts,
}

/// A volume of a pod.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) name: String,
    /// Empty if it is of a kind that nobody names.
    pub(super) kind: &'static str,
    /// What it claims, if it does.
    pub(super) claim: Option<String>,
}

impl Pods {
    pub(super) fn get(&self, uid: &str) -> Option<&Pod> {
        self.0.get(uid)
    }
}

impl Pod {
    /// All containers together: of each amount the sum, if every container has one.
    pub(super) fn resources(&self) -> Resources {
        let sum = |of: fn(&Resources) -> Option<u128>| {
            let amounts = self.containers.iter().map(|(_, resources)| of(resources).filter(|amount| *amount > 0));
            amounts.sum::<Option<u128>>().filter(|sum| *sum > 0)
        };
        let requests = ResourceAmounts {
            cpu: sum(|of| of.requests.cpu),
            memory: sum(|of| of.requests.memory),
            ..ResourceAmounts::default()
        };
        let limits = ResourceAmounts {
            cpu: sum(|of| of.limits.cpu),
            memory: sum(|of| of.limits.memory),
            ..ResourceAmounts::default()
        };
        Resources { requests, limits }
    }

    pub(super) fn container(&self, name: &str) -> Option<Resources> {
        let found = self.containers.binary_search_by(|(of, _)| of.as_str().cmp(name));
        found.ok().map(|index| self.containers[index].1)
    }

    pub(super) fn volume(&self, name: &str) -> Option<&Volume> {
        let found = self.volumes.binary_search_by(|volume| volume.name.as_str().cmp(name));
        found.ok().map(|index| &self.volumes[index])
    }
}

/// The page as the kubelet writes it.
#[derive(Deserialize)]
struct PodList {
    #[serde(default, deserialize_with = "list")]
    items: Vec<PodItem>,
}

#[derive(Deserialize)]
struct PodItem {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default, deserialize_with = "list")]
    containers: Vec<ContainerSpec>,
    #[serde(default, deserialize_with = "list")]
    volumes: Vec<VolumeSpec>,
}

#[derive(Deserialize)]
struct ContainerSpec {
    name: String,
    #[serde(default)]
    resources: Option<Box<ResourceSpec>>,
}

#[derive(Deserialize, Default)]
struct ResourceSpec {
    #[serde(default)]
    requests: AmountSpec,
    #[serde(default)]
    limits: AmountSpec,
}

#[derive(Deserialize, Default)]
struct AmountSpec {
    cpu: Option<String>,
    memory: Option<String>,
}

/// One of the kinds that the Collector names; others have none of these fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeSpec {
    name: String,
    config_map: Option<Anything>,
    #[serde(rename = "downwardAPI")]
    downward_api: Option<Anything>,
    empty_dir: Option<Anything>,
    secret: Option<Anything>,
    persistent_volume_claim: Option<Claim>,
    host_path: Option<Anything>,
    aws_elastic_block_store: Option<Anything>,
    gce_persistent_disk: Option<Anything>,
    glusterfs: Option<Anything>,
}

#[derive(Deserialize)]
struct Anything {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    claim_name: String,
}

impl VolumeSpec {
    fn kind(&self) -> &'static str {
        let kinds = [
            (self.config_map.is_some(), "configMap"),
            (self.downward_api.is_some(), "downwardAPI"),
            (self.empty_dir.is_some(), "emptyDir"),
            (self.secret.is_some(), "secret"),
            (self.persistent_volume_claim.is_some(), "persistentVolumeClaim"),
            (self.host_path.is_some(), "hostPath"),
            (self.aws_elastic_block_store.is_some(), "awsElasticBlockStore"),
            (self.gce_persistent_disk.is_some(), "gcePersistentDisk"),
            (self.glusterfs.is_some(), "glusterfs"),
        ];
        kinds.into_iter().find(|(is, _)| *is).map_or("", |(_, kind)| kind)
    }
}

impl From<PodItem> for Pod {
    fn from(PodItem { spec, .. }: PodItem) -> Self {
        let amounts = |spec: &AmountSpec| {
            let amount = |text: &Option<String>| quantity::thousandths(text.as_deref()?).ok();
            ResourceAmounts { cpu: amount(&spec.cpu), memory: amount(&spec.memory), ..ResourceAmounts::default() }
        };
        let container = |ContainerSpec { name, resources }: ContainerSpec| {
            let ResourceSpec { requests, limits } = resources.map(|spec| *spec).unwrap_or_default();
            (name, Resources { requests: amounts(&requests), limits: amounts(&limits) })
        };
        let volume = |spec: VolumeSpec| {
            let kind = spec.kind();
            Volume { name: spec.name, kind, claim: spec.persistent_volume_claim.map(|claim| claim.claim_name) }
        };
        let mut containers: Vec<_> = spec.containers.into_iter().map(container).collect();
        let mut volumes: Vec<_> = spec.volumes.into_iter().map(volume).collect();
        containers.sort_by(|(one, _), (other, _)| one.cmp(other));
        volumes.sort_by(|one, other| one.name.cmp(&other.name));
        Self { containers, volumes }
    }
}

/// Reads `/stats/summary`.
pub(crate) fn summary(page: &[u8]) -> Result<Summary, serde_json::Error> {
    serde_json::from_slice(page)
}

/// Reads `/pods`.
pub(crate) fn pods(page: &[u8]) -> Result<Pods, serde_json::Error> {
    let list: PodList = serde_json::from_slice(page)?;
    let pods = list.items.into_iter();
    Ok(Pods(pods.map(|mut pod| (std::mem::take(&mut pod.metadata.uid), Pod::from(pod))).collect()))
}

/// What reading a page may take: each object in it becomes a structure of a limited size, in a list that may exist twice
/// while it grows, and texts are copied.
pub(crate) fn memory(page: &[u8]) -> usize {
    4 * page.len() + OBJECT * objects(page)
}

/// As many objects as a page may have.
pub(crate) fn objects(page: &[u8]) -> usize {
    memchr::memchr_iter(b'{', page).count()
}

/// The most that an object of a page takes.
const OBJECT: usize = 1 << 10;

const _: () = assert!(4 * size_of::<PodStats>() <= OBJECT);
const _: () = assert!(4 * size_of::<ContainerStats>() <= OBJECT);
const _: () = assert!(4 * size_of::<VolumeStats>() <= OBJECT);
const _: () = assert!(4 * size_of::<VolumeSpec>() <= OBJECT);
const _: () = assert!(3 * size_of::<(String, Resources)>() <= OBJECT);
