use super::*;

/// Wants the containers of one name, and notes what it is told.
#[derive(Default)]
struct Wants {
    container: &'static str,
    changed: Vec<String>,
    gone: Vec<String>,
    failed: Vec<String>,
}

impl Audience for Wants {
    fn begins(&mut self) {}

    fn wants(&mut self, name: &ContainerName) -> bool {
        name.container == self.container
    }
    fn changed(&mut self, name: &ContainerName) {
        self.changed.push(name.pod.clone());
    }
    fn written(&mut self, _: &ContainerName) {}
    fn written_late(&mut self, _: &ContainerName) {}
    fn gone(&mut self, name: &ContainerName) {
        self.gone.push(name.pod.clone());
    }
    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.failed.push(format!("{}: {error}", path.display()));
    }
}

const UID: &str = "11111111-2222-3333-4444-555555555555";

/// Without a single hint, and however old the directories are.
#[test]
fn directories_are_listed_again_when_they_changed() {
    let root = tempfile::tempdir().unwrap();
    let path = |pod: &str, container: &str| root.path().join(format!("shop_{pod}_{UID}")).join(container);
    let make = |pod: &str, container: &str| fs::create_dir_all(path(pod, container)).unwrap();
    make("a", "app");
    make("b", "side");
    let mut tree = Tree::new(root.path().to_owned(), None);
    let looks = |tree: &mut Tree, container: &'static str| {
        let mut wants = Wants { container, ..Wants::default() };
        tree.reconcile(&mut wants);
        // As if everything had been there for a while.
        tree.listed = Changed::of(root.path()).unwrap();
        for (name, pod) in &mut tree.pods {
            pod.listed = Changed::of(&root.path().join(name)).unwrap();
        }
        wants.changed.sort();
        (wants.changed, wants.gone)
    };
    let all = |pods: &[&str]| pods.iter().map(|pod| (*pod).to_owned()).collect::<Vec<_>>();
    for _ in 0..2 {
        assert_eq!(looks(&mut tree, "app"), (all(&["a"]), all(&[])), "each is looked at each time");
    }
    make("b", "app");
    assert_eq!(looks(&mut tree, "app"), (all(&["a", "b"]), all(&[])), "a container came");
    make("c", "app");
    assert_eq!(looks(&mut tree, "app"), (all(&["a", "b", "c"]), all(&[])), "a pod came");
    fs::remove_dir_all(path("b", "app")).unwrap();
    assert_eq!(looks(&mut tree, "app"), (all(&["a", "c"]), all(&["b"])), "a container left");
    fs::remove_dir_all(path("c", "app").parent().unwrap()).unwrap();
    assert_eq!(looks(&mut tree, "app"), (all(&["a"]), all(&["c"])), "a pod left");
    tree.forget_lists();
    assert_eq!(looks(&mut tree, "side"), (all(&["b"]), all(&["a"])), "others are wanted");
}

/// What is passed over is told, and found when there is place.
#[test]
fn so_many_pods_are_looked_at() {
    let root = tempfile::tempdir().unwrap();
    let path = |pod: &str| root.path().join(format!("shop_{pod}_{UID}/app"));
    ["a", "b", "c"].iter().for_each(|pod| fs::create_dir_all(path(pod)).unwrap());
    let mut tree = Tree { most: 2, ..Tree::new(root.path().to_owned(), None) };
    let looks = |tree: &mut Tree| {
        let mut wants = Wants { container: "app", ..Wants::default() };
        tree.reconcile(&mut wants);
        (wants.changed, wants.failed)
    };
    let (changed, failed) = looks(&mut tree);
    assert_eq!((changed.len(), tree.pods.len()), (2, 2));
    let told = format!("{}: more than 2 directories are in it; the others are passed over", root.path().display());
    assert_eq!(failed, [told]);
    fs::remove_dir_all(path(&changed[0]).parent().unwrap()).unwrap();
    let (mut rest, failed) = looks(&mut tree);
    rest.push(changed[0].clone());
    rest.sort();
    assert_eq!((rest, failed.len()), (["a", "b", "c"].map(str::to_owned).to_vec(), 0));
}

/// LOG-9: when the kernel could not keep all hints, everything is looked at.
#[test]
fn what_hints_were_lost_of_is_found() {
    let root = tempfile::tempdir().unwrap();
    let path = |pod: &str| root.path().join(format!("shop_{pod}_{UID}/app"));
    fs::create_dir_all(path("a")).unwrap();
    let mut tree = Tree::new(root.path().to_owned(), Some(Hints::new().unwrap()));
    let mut wants = Wants { container: "app", ..Wants::default() };
    tree.reconcile(&mut wants);
    let kept = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let names = ["0.log", "1.log"].map(|name| path("a").join(name));
    fs::write(&names[0], "").unwrap();
    // Two hints each.
    for turn in 0..=kept.trim().parse::<usize>().unwrap() / 2 {
        fs::rename(&names[turn % 2], &names[(turn + 1) % 2]).unwrap();
    }
    fs::create_dir_all(path("b")).unwrap();
    let mut wants = Wants { container: "app", ..Wants::default() };
    tree.wait(Duration::from_secs(10), &mut wants).unwrap();
    wants.changed.sort();
    assert_eq!(wants.changed, ["a", "b"]);
}
