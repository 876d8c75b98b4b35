//! Lines of pods that are not in the list of pods yet.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_plan::{ClusterFacts, Pod};
use weir_sources::tail;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use crate::agent::{Agent, Disk, all, append, line, pipeline, plan};
use crate::records::{arrived, bodies};

/// The file of a pod, and its uid.
fn file(disk: &Disk, pod: &str) -> (PathBuf, String) {
    let uid = format!("uid-of-{pod}");
    let directory = disk.pods().join(format!("shop_{pod}_{uid}/app"));
    fs::create_dir_all(&directory).unwrap();
    (directory.join("0.log"), uid)
}

fn facts(uids: &[&String]) -> ClusterFacts {
    let pod = |uid: &&String| {
        Arc::new(Pod { uid: uid.as_str().into(), node: Some(format!("node-of-{uid}").into()), ..Pod::default() })
    };
    ClusterFacts { pods: uids.iter().map(pod).collect(), ..ClusterFacts::default() }
}

/// The lines of a pod wait until the pod is known, and have its facts then. Nobody else waits.
#[tokio::test]
async fn first_lines_wait_for_facts_about_their_pod() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let ((known, known_uid), (late, late_uid)) = (file(&disk, "known"), file(&disk, "late"));
    append(&late, line("stdout", 'F', "late"));
    append(&known, line("stdout", 'F', "known"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    // Whoever waits does not stop waiting in this test.
    let metadata_waits = Duration::from_secs(3600);
    let patience = Duration::from_secs(1);
    let settings = |settings| tail::Settings { metadata_waits, patience, ..settings };
    let agent = Agent::knowing(facts(&[&known_uid]), &disk, &plan, settings).await;
    let stuck = |status: tail::ContainerStatus| status.activity.unwrap().stuck;
    let waits = || agent.board.containers_now().filter_map(stuck).map(|stuck| stuck.waits_for).collect::<Vec<_>>();
    eventually("the late one waits", async || waits() == ["facts about its pod"]).await;
    append(&known, line("stdout", 'F', "more"));
    eventually("the known one is read on", async || bodies(&backend) == ["known", "more"]).await;
    agent.learn(facts(&[&known_uid, &late_uid]));
    eventually("the late one arrives", async || bodies(&backend) == ["known", "more", "late"]).await;
    let resource = &arrived(&backend)[2].resource;
    assert!(resource.contains("k8s.node.name=node-of-uid-of-late"), "{resource}");
    agent.stop().await;
}

/// Lines of a pod that never becomes known arrive without facts, but not before the time is over.
#[tokio::test]
async fn first_lines_do_not_wait_for_ever() {
    let (disk, backend) = (Disk::new(), Backend::start().await);
    let (file, _) = file(&disk, "unknown");
    append(&file, line("stdout", 'F', "first"));
    let plan = plan(vec![pipeline("backend", backend.address, all())]);
    let started = Instant::now();
    let agent = Agent::knowing(facts(&[&"another".to_owned()]), &disk, &plan, |settings| settings).await;
    eventually("the first line arrives", async || bodies(&backend) == ["first"]).await;
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
    assert!(!arrived(&backend)[0].resource.contains("k8s.node.name"));
    agent.stop().await;
}
