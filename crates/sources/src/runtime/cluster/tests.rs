//! Objects of each kind.

use std::collections::BTreeSet;

use weir_plan::{EndpointCounts, EndpointGroup, ResourceAmounts, RuntimeMetric, RuntimeMetrics, RuntimeResource};

use super::*;
use crate::runtime::kubelet;
use crate::runtime::test_lines::{NOW, lines};

fn object(name: &str, namespace: &str, state: ObjectState) -> ClusterObject {
    ClusterObject { name: name.into(), namespace: namespace.into(), uid: format!("uid-of-{name}"), state }
}

fn shown(wanted: RuntimeMetrics, object: &ClusterObject) -> Vec<String> {
    let mut draft = Draft::new("scope", wanted, NOW, usize::MAX);
    write(object, &mut draft).unwrap();
    lines(&draft.finish()).into_iter().map(|line| line.trim_start().to_owned()).collect()
}

fn all(object: &ClusterObject) -> Vec<String> {
    shown(RuntimeMetrics::all(), object)
}

fn pod() -> ClusterObject {
    let amounts = |cpu, memory| ResourceAmounts { cpu: Some(cpu), memory: Some(memory), ..ResourceAmounts::default() };
    let limits =
        ResourceAmounts { storage: Some(1_000), ephemeral_storage: Some(2_500), ..amounts(1_500, 256_000 << 20) };
    let requests =
        ResourceAmounts { storage: Some(3_000), ephemeral_storage: Some(4_000), ..amounts(250, 64_000 << 20) };
    let run = RunState {
        container_id: "containerd://abc".into(),
        image: "registry:5000/shop/cart:1.4".into(),
        ready: true,
        restarts: 3,
        state: "waiting",
        reason: "CrashLoopBackOff".into(),
    };
    let app = ContainerState { name: "app".into(), requests, limits, run: Some(run) };
    let new = ContainerState { name: "new".into(), ..ContainerState::default() };
    let (phase, reason, node) = ("Failed".into(), "Evicted".into(), "node-1".into());
    object("cart-0", "shop", ObjectState::Pod(PodState { phase, reason, node, containers: vec![app, new] }))
}

fn service() -> ClusterObject {
    let counts = EndpointCounts { ready: 2, serving: 3, terminating: 1 };
    let endpoints = vec![
        EndpointGroup { address_type: "IPv4".into(), zone: "a".into(), counts },
        EndpointGroup { address_type: "other".into(), ..EndpointGroup::default() },
    ];
    let service = ServiceState { kind: "LoadBalancer".into(), ingresses: 2, endpoints };
    object("web", "shop", ObjectState::Service(service))
}

type Said = (ClusterObject, Vec<&'static str>);

/// One object of each kind but pods and Services, and what is said of it.
fn others() -> Vec<Said> {
    [nodes_and_replicas(), sets_and_jobs(), quotas_and_storage()].concat()
}

fn nodes_and_replicas() -> Vec<Said> {
    let conditions = vec![("Ready".to_owned(), "True".to_owned()), ("DiskPressure".to_owned(), "Unknown".to_owned())];
    let replicas = ReplicaState { desired: Some(3), available: 2 };
    vec![
        (
            object("node-1", "", ObjectState::Node(NodeState { conditions, capacity: ResourceAmounts::default() })),
            vec![
                "OfCluster k8s.node.name=node-1,k8s.node.uid=uid-of-node-1",
                "k8s.node.condition {condition} gauge{condition=Ready} 1",
                "k8s.node.condition {condition} gauge{condition=DiskPressure} -1",
            ],
        ),
        (
            object("shop", "", ObjectState::Namespace { phase: "Terminating".into() }),
            vec!["All k8s.namespace.name=shop,k8s.namespace.uid=uid-of-shop", "k8s.namespace.phase  gauge 0"],
        ),
        (
            object("cart", "shop", ObjectState::Deployment(replicas)),
            vec![
                "OfCluster k8s.deployment.name=cart,k8s.deployment.uid=uid-of-cart,k8s.namespace.name=shop",
                "k8s.deployment.desired {pod} gauge 3",
                "k8s.deployment.available {pod} gauge 2",
            ],
        ),
        (
            object("cart", "shop", ObjectState::ReplicaSet(replicas)),
            vec![
                "All k8s.replicaset.name=cart,k8s.replicaset.uid=uid-of-cart,k8s.namespace.name=shop",
                "k8s.replicaset.desired {pod} gauge 3",
                "k8s.replicaset.available {pod} gauge 2",
            ],
        ),
        (
            object("cart", "shop", ObjectState::ReplicationController(replicas)),
            vec![
                "All k8s.replicationcontroller.name=cart,k8s.replicationcontroller.uid=uid-of-cart,k8s.namespace.name=shop",
                "k8s.replication_controller.desired {pod} gauge 3",
                "k8s.replication_controller.available {pod} gauge 2",
            ],
        ),
    ]
}

fn sets_and_jobs() -> Vec<Said> {
    vec![
        (
            object(
                "db",
                "shop",
                ObjectState::StatefulSet(StatefulSetState { desired: Some(4), ready: 3, current: 2, updated: 1 }),
            ),
            vec![
                "OfCluster k8s.statefulset.name=db,k8s.statefulset.uid=uid-of-db,k8s.namespace.name=shop",
                "k8s.statefulset.desired_pods {pod} gauge 4",
                "k8s.statefulset.ready_pods {pod} gauge 3",
                "k8s.statefulset.current_pods {pod} gauge 2",
                "k8s.statefulset.updated_pods {pod} gauge 1",
            ],
        ),
        (
            object(
                "agent",
                "shop",
                ObjectState::DaemonSet(DaemonSetState { current: 1, desired: 2, misscheduled: 3, ready: 4 }),
            ),
            vec![
                "OfCluster k8s.daemonset.name=agent,k8s.daemonset.uid=uid-of-agent,k8s.namespace.name=shop",
                "k8s.daemonset.current_scheduled_nodes {node} gauge 1",
                "k8s.daemonset.desired_scheduled_nodes {node} gauge 2",
                "k8s.daemonset.misscheduled_nodes {node} gauge 3",
                "k8s.daemonset.ready_nodes {node} gauge 4",
            ],
        ),
        (
            object(
                "report",
                "shop",
                ObjectState::Job(JobState {
                    active: 1,
                    failed: 2,
                    succeeded: 3,
                    completions: Some(4),
                    parallelism: Some(5),
                }),
            ),
            vec![
                "OfCluster k8s.job.name=report,k8s.job.uid=uid-of-report,k8s.namespace.name=shop",
                "k8s.job.active_pods {pod} gauge 1",
                "k8s.job.failed_pods {pod} gauge 2",
                "k8s.job.successful_pods {pod} gauge 3",
                "k8s.job.desired_successful_pods {pod} gauge 4",
                "k8s.job.max_parallel_pods {pod} gauge 5",
            ],
        ),
        (
            object("nightly", "shop", ObjectState::CronJob { active: 1 }),
            vec![
                "All k8s.cronjob.name=nightly,k8s.cronjob.uid=uid-of-nightly,k8s.namespace.name=shop",
                "k8s.cronjob.active_jobs {job} gauge 1",
            ],
        ),
        (
            object("cart", "shop", ObjectState::Hpa(HpaState { min: Some(1), max: 4, current: 2, desired: 3 })),
            vec![
                "All k8s.hpa.name=cart,k8s.hpa.uid=uid-of-cart,k8s.namespace.name=shop",
                "k8s.hpa.max_replicas {pod} gauge 4",
                "k8s.hpa.min_replicas {pod} gauge 1",
                "k8s.hpa.current_replicas {pod} gauge 2",
                "k8s.hpa.desired_replicas {pod} gauge 3",
            ],
        ),
    ]
}

fn quotas_and_storage() -> Vec<Said> {
    let quota = |amounts: &[(&str, u128)]| amounts.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
    let volume = StorageState {
        phase: "Bound".into(),
        storage_class: "fast".into(),
        capacity: Some(5_000),
        request: Some(4_000),
    };
    vec![
        (
            object(
                "quota",
                "shop",
                ObjectState::ResourceQuota {
                    hard: quota(&[("pods", 10_000), ("requests.cpu", 2_000)]),
                    used: quota(&[("cpu", 1_500)]),
                },
            ),
            vec![
                "All k8s.resourcequota.name=quota,k8s.resourcequota.uid=uid-of-quota,k8s.namespace.name=shop",
                "k8s.resource_quota.hard_limit {resource} gauge{resource=pods} 10",
                "k8s.resource_quota.hard_limit {resource} gauge{resource=requests.cpu} 2000",
                "k8s.resource_quota.used {resource} gauge{resource=cpu} 2",
            ],
        ),
        (
            object("pv", "", ObjectState::PersistentVolume(volume.clone())),
            vec![
                "All k8s.persistentvolume.name=pv,k8s.persistentvolume.uid=uid-of-pv,k8s.storageclass.name=fast",
                "k8s.persistentvolume.status.phase {persistentvolume} updown{k8s.persistentvolume.status.phase=Pending} 0",
                "k8s.persistentvolume.status.phase {persistentvolume} updown{k8s.persistentvolume.status.phase=Available} 0",
                "k8s.persistentvolume.status.phase {persistentvolume} updown{k8s.persistentvolume.status.phase=Bound} 1",
                "k8s.persistentvolume.status.phase {persistentvolume} updown{k8s.persistentvolume.status.phase=Released} 0",
                "k8s.persistentvolume.status.phase {persistentvolume} updown{k8s.persistentvolume.status.phase=Failed} 0",
                "k8s.persistentvolume.storage.capacity By updown 5",
            ],
        ),
        (
            object("pvc", "shop", ObjectState::PersistentVolumeClaim(volume)),
            vec![
                "All k8s.persistentvolumeclaim.name=pvc,k8s.persistentvolumeclaim.uid=uid-of-pvc,k8s.namespace.name=shop,\
                 k8s.storageclass.name=fast",
                "k8s.persistentvolumeclaim.status.phase {persistentvolumeclaim} \
                 updown{k8s.persistentvolumeclaim.status.phase=Pending} 0",
                "k8s.persistentvolumeclaim.status.phase {persistentvolumeclaim} \
                 updown{k8s.persistentvolumeclaim.status.phase=Bound} 1",
                "k8s.persistentvolumeclaim.status.phase {persistentvolumeclaim} \
                 updown{k8s.persistentvolumeclaim.status.phase=Lost} 0",
                "k8s.persistentvolumeclaim.storage.capacity By updown 5",
                "k8s.persistentvolumeclaim.storage.request By updown 4",
            ],
        ),
    ]
}

#[test]
fn objects_say_how_they_are() {
    for (object, said) in others() {
        assert_eq!(all(&object), said);
    }
    let silent = object("cart", "shop", ObjectState::Deployment(ReplicaState { desired: None, available: 2 }));
    assert_eq!(all(&silent)[1..], ["k8s.deployment.available {pod} gauge 2"]);
}

#[test]
fn pods_and_containers_say_how_they_are() {
    let of_pod = "k8s.pod.name=cart-0,k8s.pod.uid=uid-of-cart-0,k8s.namespace.name=shop,k8s.node.name=node-1";
    let mut said = vec![
        format!("All {of_pod}"),
        "k8s.pod.phase  gauge 4".to_owned(),
        "k8s.pod.status_reason  gauge 1".to_owned(),
        format!(
            "All {of_pod},k8s.container.name=app,container.id=abc,container.image.name=registry:5000/shop/cart,\
             container.image.tag=1.4"
        ),
    ];
    for line in [
        "cpu_request {cpu} gauge 0.25",
        "memory_request By gauge 67108864",
        "storage_request By gauge 3",
        "ephemeralstorage_request By gauge 4",
        "cpu_limit {cpu} gauge 1.5",
        "memory_limit By gauge 268435456",
        "storage_limit By gauge 1",
        "ephemeralstorage_limit By gauge 3",
        "restarts {restart} gauge 3",
        "ready  gauge 1",
        "status.state {container} updown{k8s.container.status.state=terminated} 0",
        "status.state {container} updown{k8s.container.status.state=running} 0",
        "status.state {container} updown{k8s.container.status.state=waiting} 1",
    ] {
        said.push(format!("k8s.container.{line}"));
    }
    for reason in CONTAINER_REASONS {
        let value = u8::from(reason == "CrashLoopBackOff");
        let pair = format!("k8s.container.status.reason={reason}");
        said.push(format!("k8s.container.status.reason {{container}} updown{{{pair}}} {value}"));
    }
    assert_eq!(all(&pod()), said, "nothing is known of the other container");
    let usual = shown(RuntimeMetrics::of(&RuntimeResource::ALL), &pod());
    assert_eq!(usual.len(), 1 + 1 + 1 + 5, "{usual:#?}");
}

#[test]
fn phases_and_reasons_are_numbers() {
    let shown = |phase: &str, reason: &str| {
        let state = PodState { phase: phase.into(), reason: reason.into(), ..PodState::default() };
        let lines = all(&object("p", "n", ObjectState::Pod(state)));
        lines[1..].iter().map(|line| line.split(' ').next_back().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    for (phase, reason, numbers) in [
        ("Pending", "", "1 6"),
        ("Running", "NodeAffinity", "2 2"),
        ("Succeeded", "NodeLost", "3 3"),
        ("Failed", "Shutdown", "4 4"),
        ("Unknown", "UnexpectedAdmissionError", "5 5"),
        ("", "anything", "5 6"),
    ] {
        assert_eq!(shown(phase, reason), numbers, "{phase} {reason}");
    }
}

#[test]
fn services_count_their_endpoints() {
    let endpoints = |condition: &str, count: u32| {
        format!(
            "k8s.service.endpoint.count {{endpoint}} gauge{{k8s.service.endpoint.address_type=IPv4,\
             k8s.service.endpoint.condition={condition},k8s.service.endpoint.zone=a}} {count}"
        )
    };
    assert_eq!(
        all(&service()),
        [
            "All k8s.service.name=web,k8s.service.uid=uid-of-web,k8s.namespace.name=shop,k8s.service.type=LoadBalancer"
                .to_owned(),
            endpoints("ready", 2),
            endpoints("serving", 3),
            endpoints("terminating", 1),
            "k8s.service.load_balancer.ingress.count {ingress} gauge 2".to_owned(),
        ]
    );
}

/// A name that nobody writes would be in the documentation, and never at a backend.
#[test]
fn every_metric_has_a_source() {
    let mut made: BTreeSet<String> = kubelet::tests::names().into_iter().map(str::to_owned).collect();
    let objects = others().into_iter().map(|(object, _)| object).chain([pod(), service()]);
    for line in objects.flat_map(|object| all(&object)) {
        made.extend(line.split(' ').next().filter(|name| !["All", "OfCluster"].contains(name)).map(str::to_owned));
    }
    let known: BTreeSet<_> = RuntimeMetric::ALL.iter().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(made, known);
}

/// As much as the agent pays for.
#[test]
fn no_object_makes_more_than_it_pays_for() {
    let long = "x".repeat(253);
    let mut pod = pod();
    (pod.name, pod.namespace) = (long.clone(), "x".repeat(63));
    if let ObjectState::Pod(state) = &mut pod.state {
        state.node.clone_from(&long);
        state.containers.truncate(1);
        state.containers[0].name = "x".repeat(63);
        let run = state.containers[0].run.as_mut().unwrap();
        // A document may say anything.
        (run.image, run.container_id) = ("x".repeat(60_000), "x".repeat(64));
    }
    for object in others().into_iter().map(|(object, _)| object).chain([pod, service()]) {
        let mut draft = Draft::new("scope", RuntimeMetrics::all(), NOW, crate::runtime::agent::size(&object));
        assert_eq!(write(&object, &mut draft), Ok(()), "{object:?}");
    }
}
