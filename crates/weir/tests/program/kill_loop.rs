//! `kill -9`, again and again, at any moment: while data is being written, delivered, tidied up, and read at the start;
//! with a disk that takes everything, or only the beginning of a write.
//!
//! The faults and the moments are random and cannot be repeated exactly; the seed that is printed repeats the choices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::process::Child;
use tokio::task::JoinSet;
use weir_loadtest::sink::Sink;
use weir_testkit::clients::{SPANS, request};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{DOWN, arrived, faults, sink};
use weir_testkit::{eventually, in_time};

use crate::process::{Weir, manifest, run};

/// A backend of the kind that makes data go to the disk, and sometimes takes it.
const FLAKY: &str = r#"{"fault": ["503:40"], "reset": 10, "delay": "30ms:40"}"#;

const CLIENTS: usize = 3;

/// What clients sent and were told, over all lives of the gateway.
#[derive(Default)]
struct Sent {
    next: AtomicU64,
    acknowledged: Mutex<Vec<u64>>,
}

impl Sent {
    fn acknowledged(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Sends one request after the other until the gateway is gone.
    async fn send(&self, weir: std::net::SocketAddr) {
        let Some(client) = Grpc::try_connect(weir).await else { return };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            // Some are large enough that a kill finds them half written.
            let padding = if number.is_multiple_of(16) { 50_000 } else { 100 };
            let Some(answer) = client.try_export(&request(number, padding)).await else { return };
            if answer.code == OK {
                self.acknowledged.lock().unwrap().push(number);
            }
        }
    }
}

fn cycles() -> usize {
    let wish = std::env::var_os("WEIR_KILL_CYCLES").and_then(|text| text.to_str()?.parse().ok());
    wish.unwrap_or(100)
}

struct Loop {
    dir: DataDir,
    flaky: Sink,
    rare: Sink,
    sent: Arc<Sent>,
    random: fastrand::Rng,
}

impl Loop {
    fn manifests(&self) -> String {
        manifest("flaky", self.flaky.grpc) + &manifest("rare", self.rare.grpc)
    }

    /// What a mode of `--fsync` costs is lost with the power, not with the process.
    async fn start(&mut self) -> Weir {
        let fsync = ["always", "always", "interval", "never"][self.random.usize(..4)];
        let arguments = ["--data-dir", self.dir.arg(), "--spill-after", "5ms", "--fsync", fsync];
        Weir::start(&self.manifests(), &arguments).await
    }

    /// One life: it ends when clients have got a random number of answers.
    async fn live(&mut self) {
        self.rare.set_faults(faults(if self.random.u8(..) < 64 { "{}" } else { DOWN }));
        let weir = self.start().await;
        if self.random.u8(..) < 32 {
            // Writes end anywhere.
            weir.limit_files(Some(self.random.u64(20_000..2_000_000)));
        }
        let enough = self.sent.acknowledged() + self.random.usize(0..40);
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (sent, address) = (Arc::clone(&self.sent), weir.grpc);
            clients.spawn(async move { sent.send(address).await });
        }
        eventually("clients are answered", async || self.sent.acknowledged() >= enough).await;
        weir.kill().await;
        in_time("end of the clients", clients.join_all()).await;
    }

    /// A life that is over before it has begun: while what the last one left is read, or a little later.
    async fn die_early(&mut self) {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("pipelines.yaml");
        std::fs::write(&file, self.manifests()).unwrap();
        let mut child: Child = run(&file).args(["--data-dir", self.dir.arg()]).spawn().unwrap();
        tokio::time::sleep(Duration::from_millis(self.random.u64(0..60))).await;
        child.kill().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_after_kill_nothing_that_was_acknowledged_is_lost() {
    let (seed, cycles) = (fastrand::u64(..), cycles());
    println!("{cycles} cycles, seed {seed}");
    let (flaky, rare) = (sink(FLAKY).await, sink(DOWN).await);
    let (dir, sent, random) = (DataDir::new(), Arc::default(), fastrand::Rng::with_seed(seed));
    let mut lives = Loop { dir, flaky, rare, sent, random };
    for cycle in 0..cycles {
        if cycle % 8 == 7 {
            lives.die_early().await;
        } else {
            lives.live().await;
        }
    }
    lives.flaky.set_faults(faults("{}"));
    lives.rare.set_faults(faults("{}"));
    let weir = lives.start().await;
    for (name, sink) in [("flaky", &lives.flaky), ("rare", &lives.rare)] {
        Scrape::settled(weir.metrics, name).await;
        let books = Scrape::of(weir.metrics).await.books(name);
        assert_eq!(books.delivered, books.recovered, "{name}: {books:?}");
        let arrived = arrived(sink);
        let mut acknowledged = lives.sent.acknowledged.lock().unwrap().clone();
        acknowledged.sort_unstable();
        assert!(acknowledged.len() >= cycles, "{} acknowledged", acknowledged.len());
        let ids = acknowledged.iter().flat_map(|number| weir_testkit::clients::ids(*number..number + 1));
        let missing: Vec<u64> = ids.filter(|id| arrived.binary_search(id).is_err()).collect();
        assert!(missing.is_empty(), "{name}: acknowledged and lost: {missing:?} (seed {seed})");
        let all = lives.sent.next.load(Ordering::Relaxed) * SPANS;
        assert!(arrived.last().is_some_and(|last| *last <= all), "{name}: nothing is invented");
    }
    assert_eq!(Scrape::of(weir.metrics).await.get("weir_journal_damaged_bytes_total"), 0.0);
    lives.dir.becomes_empty().await;
}
