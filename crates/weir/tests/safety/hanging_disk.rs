//! A disk that neither does what it is asked nor fails: nobody waits for it for ever.

use std::io::{self, IoSlice};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use weir_engine::Settings;
use weir_journal::{File, Fs, Space};

use crate::clients::{SPANS, ids, is_polite, request, send_all, send_at_once};
use crate::data_dir::DataDir;
use crate::support::gateway::{DOWN, Gateway, arrived, faults, pipeline, sink};
use crate::support::grpc::OK;
use crate::support::{eventually, in_time};

/// A disk, and whether it hangs. What is called meanwhile returns when it does not any more.
#[derive(Debug, Clone)]
struct Hanging {
    fs: Arc<dyn Fs>,
    gate: Gate,
}

#[derive(Debug, Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn hang(&self, hangs: bool) {
        *self.0.0.lock().unwrap() = hangs;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let closed = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(closed, |closed| *closed).unwrap());
    }
}

impl Hanging {
    fn file(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(HangingFile { file, gate: self.gate.clone() })
    }
}

impl Fs for Hanging {
    fn list(&self) -> io::Result<Vec<String>> {
        self.fs.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.gate.pass();
        Ok(self.file(self.fs.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.fs.open(name)?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.gate.pass();
        self.fs.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.gate.pass();
        self.fs.sync_dir()
    }

    fn space(&self) -> io::Result<Space> {
        self.fs.space()
    }
}

#[derive(Debug)]
struct HangingFile {
    file: Arc<dyn File>,
    gate: Gate,
}

impl File for HangingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.gate.pass();
        self.file.write_at(parts, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.gate.pass();
        self.file.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.gate.pass();
        self.file.truncate(bytes)
    }

    fn forget(&self, until: u64) {
        self.file.forget(until);
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn is_linked(&self) -> io::Result<bool> {
        self.file.is_linked()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_ever_and_what_is_written_late_is_delivered() {
    let (dir, sick, well) = (DataDir::new(), sink(DOWN).await, sink("{}").await);
    let gate = Gate::default();
    let settings = dir.settings_by_way_of(|fs| Arc::new(Hanging { fs, gate: gate.clone() })).await;
    let settings = Settings { spill_after: Duration::from_millis(10), memory: 32 << 20, ..settings };
    let gateway = Gateway::with(vec![pipeline("sick", sick.grpc), pipeline("well", well.grpc)], settings).await;
    send_all(gateway.at.grpc, 0..5, 10).await;

    gate.hang(true);
    // More than all of the memory, were it kept.
    for first in [5, 10, 15, 20] {
        for answer in in_time("answers", send_at_once(gateway.at.grpc, first..first + 5, 80_000)).await {
            is_polite(&answer);
            assert!(answer.message.contains("the disk does not answer"), "{answer:?}");
        }
    }
    let scrape = gateway.scrape().await;
    assert_eq!(scrape.get("weir_journal_failed"), 1.0);
    assert!(scrape.get("weir_journal_busy_seconds") > 1.0);
    assert!(scrape.sum("weir_receiver_refused_requests_total", "reason=\"disk\"") >= 20.0);
    let (used, budget) = (scrape.get("weir_memory_used_bytes"), scrape.get("weir_memory_budget_bytes"));
    assert!(used <= budget / 2.0 + 2e6, "{used} of {budget}");
    assert_eq!(gateway.books("sick").accepted, 5 * SPANS);
    eventually("the other backend has got it all", async || arrived(&well) == ids(0..25)).await;

    gate.hang(false);
    let client = gateway.client().await;
    eventually("the disk is used again", async || client.export(&request(25, 10)).await.code == OK).await;
    sick.set_faults(faults("{}"));
    eventually("what was acknowledged arrives", async || {
        let arrived = arrived(&sick);
        ids(0..5).into_iter().chain(ids(25..26)).all(|id| arrived.binary_search(&id).is_ok())
    })
    .await;
    // What the disk took late is in the books, too.
    gateway.settle().await;
    dir.becomes_empty().await;
}

/// Its answer comes before the process ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_does_not_wait_for_it_and_tells_its_clients() {
    let (dir, sick) = (DataDir::new(), sink(DOWN).await);
    let gate = Gate::default();
    let settings = dir.settings_by_way_of(|fs| Arc::new(Hanging { fs, gate: gate.clone() })).await;
    let drain_timeout = Duration::from_millis(100);
    let settings = Settings { spill_after: Duration::from_millis(10), drain_timeout, ..settings };
    let gateway = Gateway::with(vec![pipeline("sick", sick.grpc)], settings).await;
    send_all(gateway.at.grpc, 0..1, 10).await;
    gate.hang(true);
    let client = gateway.client().await;
    let data = request(1, 10);
    let waiting = client.export(&data);
    let end = async {
        eventually("the writer has it", async || gateway.books("sick").waiting > 0).await;
        gateway.stop().await
    };
    let (answer, books) = tokio::join!(waiting, end);
    gate.hang(false);
    is_polite(&answer);
    assert!(books[0].1.balanced(), "{books:?}");
}
