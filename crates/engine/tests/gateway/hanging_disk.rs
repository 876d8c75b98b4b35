//! A disk that neither does what it is asked nor fails: nobody waits for it for ever.

use std::io::{self, IoSlice};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use weir_engine::Settings;
use weir_engine::settings::State;
use weir_journal::{File, Fs, Space};
use weir_plan::{Signal, Temporality};
use weir_testkit::clients::{SPANS, ids, is_polite, request, send_all, send_at_once};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::OK;
use weir_testkit::sink::{DOWN, arrived, faults, sink};
use weir_testkit::{eventually, in_time};

use crate::support::{Gateway, on_disk, on_disk_by_way_of, pipeline};

/// A disk, and whether writing and reading hangs. What is called meanwhile returns when it does not any more.
#[derive(Debug, Clone)]
struct Hanging {
    fs: Arc<dyn Fs>,
    writes: Tap,
    reads: Tap,
}

#[derive(Debug, Clone, Default)]
struct Tap(Arc<(Mutex<bool>, Condvar)>);

impl Tap {
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
        Arc::new(HangingFile { file, writes: self.writes.clone(), reads: self.reads.clone() })
    }
}

impl Fs for Hanging {
    fn list(&self) -> io::Result<Vec<String>> {
        self.fs.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.writes.pass();
        Ok(self.file(self.fs.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.file(self.fs.open(name)?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.writes.pass();
        self.fs.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.writes.pass();
        self.fs.sync_dir()
    }

    fn space(&self) -> io::Result<Space> {
        self.fs.space()
    }
}

#[derive(Debug)]
struct HangingFile {
    file: Arc<dyn File>,
    writes: Tap,
    reads: Tap,
}

impl File for HangingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.pass();
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        self.writes.pass();
        self.file.write_at(parts, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.writes.pass();
        self.file.sync()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.writes.pass();
        self.file.allocate(bytes)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.writes.pass();
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
    let (writes, reads) = (Tap::default(), Tap::default());
    let settings = on_disk_by_way_of(&dir, |fs| Arc::new(Hanging { fs, writes: writes.clone(), reads })).await;
    let settings = Settings { spill_after: Duration::from_millis(10), memory: 32 << 20, ..settings };
    let gateway = Gateway::with(vec![pipeline("sick", sick.grpc), pipeline("well", well.grpc)], settings).await;
    send_all(gateway.at.grpc, 0..5, 10).await;

    writes.hang(true);
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
    // What it did not take in time, clients send again, as they were asked to.
    let client = gateway.client().await;
    eventually("the other backend has got it all", async || {
        let arrived = arrived(&well);
        let missing = (0..25).find(|&number| arrived.binary_search(&ids(number..number + 1)[0]).is_err());
        if let Some(number) = missing {
            is_polite(&client.export(&request(number, 80_000)).await);
        }
        missing.is_none()
    })
    .await;

    writes.hang(false);
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
    let (writes, reads) = (Tap::default(), Tap::default());
    let settings = on_disk_by_way_of(&dir, |fs| Arc::new(Hanging { fs, writes: writes.clone(), reads })).await;
    let drain_timeout = Duration::from_millis(100);
    let settings = Settings { spill_after: Duration::from_millis(10), drain_timeout, ..settings };
    let gateway = Gateway::with(vec![pipeline("sick", sick.grpc)], settings).await;
    send_all(gateway.at.grpc, 0..1, 10).await;
    writes.hang(true);
    let client = gateway.client().await;
    let data = request(1, 10);
    let waiting = client.export(&data);
    let end = async {
        eventually("the writer has it", async || gateway.books("sick").waiting > 0).await;
        gateway.stop().await
    };
    let (answer, books) = tokio::join!(waiting, end);
    writes.hang(false);
    is_polite(&answer);
    assert!(books[0].1.balanced(), "{books:?}");
}

/// Nor does it hold what arrives meanwhile, and what is read late or not at all is delivered later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_hangs_holds_neither_live_data_nor_a_shutdown() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let (writes, reads) = (Tap::default(), Tap::default());
    let hanging = |fs| -> Arc<dyn Fs> { Arc::new(Hanging { fs, writes: writes.clone(), reads: reads.clone() }) };
    let settings = Settings {
        spill_after: Duration::from_millis(500),
        drain_timeout: Duration::from_millis(100),
        ..on_disk_by_way_of(&dir, hanging).await
    };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    // Before anything is stored: what is read back in time is delivered without the disk.
    reads.hang(true);
    send_all(gateway.at.grpc, 0..5, 10).await;
    sink.set_faults(faults("{}"));
    let (client, mut next) = (gateway.client().await, 5);
    eventually("live data arrives", async || {
        assert_eq!(client.export(&request(next, 10)).await.code, OK);
        next += 1;
        arrived(&sink).ends_with(&ids(next - 1..next))
    })
    .await;
    eventually("it is told", async || gateway.scrape().await.get("weir_journal_reading_seconds") > 2.0).await;
    let books = gateway.stop().await;
    assert!(books[0].1.balanced() && books[0].1.pending > 0, "{books:?}");

    reads.hang(false);
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], on_disk(&dir).await).await;
    gateway.settle().await;
    let arrived = arrived(&sink);
    let missing: Vec<u64> = ids(0..next).into_iter().filter(|id| arrived.binary_search(id).is_err()).collect();
    assert_eq!(missing, Vec::<u64>::new());
    dir.becomes_empty().await;
}

/// What is remembered of series, on a disk that hangs.
#[derive(Debug)]
struct HangingState(Tap);

impl State for HangingState {
    fn read(&self, _: &str, _: &mut dyn FnMut(usize) -> bool) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn delete(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn put(&self, _: &str, _: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
        self.0.pass();
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_does_not_wait_for_what_is_remembered_of_series() {
    let (writes, sink) = (Tap::default(), sink("{}").await);
    let state: Option<Arc<dyn State>> = Some(Arc::new(HangingState(writes.clone())));
    let drain_timeout = Duration::from_millis(100);
    let settings = Settings { drain_timeout, state, ..crate::support::settings() };
    let mut counting = pipeline("backend", sink.grpc);
    counting.id.signal = Signal::Metrics;
    counting.processing.temporality = Temporality::Delta;
    let gateway = Gateway::with(vec![counting], settings).await;
    writes.hang(true);
    gateway.stop().await;
    writes.hang(false);
}
