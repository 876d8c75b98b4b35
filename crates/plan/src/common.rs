//! What many pods have in common. It is in memory once.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::cluster::{Pod, Texts, Workload};

/// What pods have in common: those of a Deployment have the same labels, owners and containers, and names of labels,
/// namespaces and nodes come again and again.
#[derive(Debug, Default)]
pub struct Common {
    texts: HashSet<Arc<str>>,
    lists: HashSet<Texts>,
    workloads: HashSet<Arc<[Workload]>>,
}

impl Common {
    /// The same text for all who ask for it.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        let mut text = Arc::from(text);
        share(&mut self.texts, &mut text);
        text
    }

    /// From now on a pod shares with others what is the same. Its name, uid, addresses and other annotations are
    /// its own.
    pub fn share(&mut self, pod: &mut Pod) {
        let Self { texts, lists, workloads } = self;
        share(texts, &mut pod.namespace);
        pod.node.iter_mut().for_each(|node| share(texts, node));
        for workload in Arc::make_mut(&mut pod.workloads) {
            share(texts, &mut workload.name);
        }
        share(workloads, &mut pod.workloads);
        for list in [&mut pod.labels.0, &mut pod.annotations.0, &mut pod.containers] {
            for (name, value) in Arc::make_mut(list) {
                share(texts, name);
                share(texts, value);
            }
            share(lists, list);
        }
    }

    /// Forgets what nobody else has any more.
    pub fn forget_unused(&mut self) {
        // Lists have texts, so they go first.
        forget_unused(&mut self.lists);
        forget_unused(&mut self.workloads);
        forget_unused(&mut self.texts);
    }
}

/// Takes the value that is there already, if there is an equal one.
fn share<T: Eq + Hash + ?Sized>(known: &mut HashSet<Arc<T>>, value: &mut Arc<T>) {
    if let Some(same) = known.get(&*value) {
        *value = Arc::clone(same);
    } else {
        known.insert(Arc::clone(value));
    }
}

fn forget_unused<T: Eq + Hash + ?Sized>(known: &mut HashSet<Arc<T>>) {
    known.retain(|value| Arc::strong_count(value) > 1);
    // Where pods come and go, room is not given up and made again each time.
    if known.capacity() > 4 * known.len() {
        known.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadKind;

    /// A pod that was read by itself.
    fn pod(name: &str, deployment: &str) -> Pod {
        Pod {
            name: name.into(),
            namespace: "shop".into(),
            labels: [("app", deployment), ("team", "blue")].into_iter().collect(),
            annotations: [("resource.opentelemetry.io/service.name", deployment)].into_iter().collect(),
            node: Some("node-1".into()),
            workloads: [Workload { kind: WorkloadKind::Deployment, name: deployment.into() }].into(),
            containers: [("app".into(), "registry/app:1".into())].into(),
            ..Pod::default()
        }
    }

    impl Common {
        fn shared(&mut self, name: &str, deployment: &str) -> Pod {
            let mut pod = pod(name, deployment);
            self.share(&mut pod);
            assert_eq!(pod, self::pod(name, deployment), "it says what it said before");
            pod
        }

        fn sizes(&self) -> [usize; 3] {
            [self.texts.len(), self.lists.len(), self.workloads.len()]
        }
    }

    #[test]
    fn what_is_equal_is_there_once() {
        let mut common = Common::default();
        let [a, b, other] = [("a", "cart"), ("b", "cart"), ("c", "mail")].map(|(name, of)| common.shared(name, of));
        assert!(Arc::ptr_eq(&a.labels.0, &b.labels.0) && Arc::ptr_eq(&a.annotations.0, &b.annotations.0));
        assert!(Arc::ptr_eq(&a.workloads, &b.workloads) && !Arc::ptr_eq(&a.workloads, &other.workloads));
        assert!(Arc::ptr_eq(&a.containers, &other.containers) && Arc::ptr_eq(&a.namespace, &other.namespace));
        assert!(Arc::ptr_eq(a.node.as_ref().unwrap(), other.node.as_ref().unwrap()));
        // Labels that differ have parts that do not, and whoever asks for a text gets the one that pods have.
        assert!(Arc::ptr_eq(&a.labels.0[1].1, &other.labels.0[1].1));
        assert!(Arc::ptr_eq(&a.labels.0[0].1, &a.workloads[0].name));
        assert!(Arc::ptr_eq(&common.text("shop"), &a.namespace));
        let mut again = a.clone();
        common.share(&mut again);
        assert!(Arc::ptr_eq(&a.labels.0, &again.labels.0));
    }

    #[test]
    fn what_nobody_has_any_more_is_forgotten() {
        let mut common = Common::default();
        let cart = common.shared("a", "cart");
        common.forget_unused();
        let of_cart = common.sizes();
        let mails: Vec<_> = (0..100).map(|number| common.shared("b", &format!("mail-{number}"))).collect();
        common.forget_unused();
        assert_eq!(common.sizes(), [of_cart[0] + 100, of_cart[1] + 200, of_cart[2] + 100], "all of it is in use");
        drop(mails);
        common.forget_unused();
        assert_eq!(common.sizes(), of_cart);
        assert!(common.texts.capacity() < 100, "nor is there room for it");
        drop(cart);
        common.forget_unused();
        assert_eq!(common.sizes(), [0; 3]);
    }
}
