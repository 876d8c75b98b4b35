//! Of the nodes of a cluster one speaks for it: nothing is told of the cluster before that begins, nor after it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weir_plan::{ClusterState, Selector};
use weir_sources::runtime::{Settings, Speaks};
use weir_testkit::{eventually, in_time};

use crate::{Agent, SHORT, arrived_at, deployment, status};

/// Longer than any test: no look ends because the next one begins.
const LONG: Duration = Duration::from_secs(3600);

/// Far more than what one request tells of.
const DEPLOYMENTS: usize = 2_000;

/// More often than any look asks: once for each request of a state with so many Deployments and a status.
const MORE_THAN_A_LOOK: usize = 10;

/// Who speaks for the cluster, and how often that was asked.
struct Speaker {
    settings: Settings,
    asked: Arc<AtomicUsize>,
}

impl Speaker {
    fn when(now: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let speaks = Speaks::when(move || {
            count.fetch_add(1, Ordering::SeqCst);
            now()
        });
        Self { settings: Settings { kubelet: None, of_cluster: Some(speaks) }, asked }
    }

    /// Waits until a look that was under way is over, and others came after it.
    async fn looks_again(&self) {
        let before = self.asked.load(Ordering::SeqCst);
        let is_over = async || self.asked.load(Ordering::SeqCst) > before + MORE_THAN_A_LOOK;
        eventually("it is asked again and again", is_over).await;
    }
}

impl Agent {
    async fn start_one() -> Self {
        Self::start(&[(&["k8s.deployment.desired"], Selector::All)]).await
    }

    /// Ends in good order. All that was ever told has arrived by then.
    async fn ended(self) -> Vec<String> {
        let Self { engine, agent, backends, .. } = self;
        in_time("the end of looking", agent.unwrap().stop()).await;
        in_time("shutdown", engine.shutdown(std::future::pending())).await;
        arrived_at(&backends[0])
    }
}

fn state(names: impl IntoIterator<Item = String>) -> ClusterState {
    ClusterState { objects: names.into_iter().map(|name| deployment(&name)).collect(), statuses: vec![status()] }
}

/// It speaks until the first request is taken. No other one is made, neither of objects nor of statuses.
#[tokio::test]
async fn whoever_stops_speaking_in_the_middle_of_a_look_tells_no_more_of_it() {
    let mut agent = Agent::start_one().await;
    let view = agent.engine.view();
    let speaker = Speaker::when(move || view.snapshot().unwrap().pipelines[0].books.accepted == 0);
    let state = state((0..DEPLOYMENTS).map(|number| format!("cart-{number}")));
    agent.plan.intervals.runtime = LONG;
    agent.run(speaker.settings.clone(), state.clone());
    agent.arrives(0, "k8s.deployment.name=cart-0,").await;
    agent.plan.intervals.runtime = SHORT;
    agent.reload(state);
    speaker.looks_again().await;
    let told = agent.ended().await;
    assert!(told.len() < DEPLOYMENTS / 2, "{} were told of", told.len());
    assert!(told.iter().all(|line| line.starts_with("runtime{")), "the status is told");
}

#[tokio::test]
async fn the_cluster_is_told_of_only_while_it_is_spoken_for() {
    let mut agent = Agent::start_one().await;
    let speaks = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&speaks);
    let speaker = Speaker::when(move || now.load(Ordering::SeqCst));
    let of = |name: &str| state([name.to_owned()]);
    agent.run(speaker.settings.clone(), of("early"));
    speaker.looks_again().await;
    agent.reload(of("meanwhile"));
    // What still looks at the earlier state shall not be allowed to tell it.
    speaker.looks_again().await;
    speaks.store(true, Ordering::SeqCst);
    agent.arrives(0, "k8s.deployment.name=meanwhile,").await;
    agent.arrives(0, "kyma{").await;
    speaks.store(false, Ordering::SeqCst);
    agent.reload(of("late"));
    speaker.looks_again().await;
    let told = agent.ended().await;
    let is_of = |name: &str| told.iter().any(|line| line.contains(&format!("k8s.deployment.name={name},")));
    assert_eq!(["early", "meanwhile", "late"].map(is_of), [false, true, false], "{told:#?}");
}
