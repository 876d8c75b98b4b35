//! Data directories with a journal in them, and the program run on them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tempfile::TempDir;
use weir_journal::{Durability, Entry, Journal, NewEntry, Options, OsFs, Owed, Writer};
use weir_testkit::payload;

/// Spans in each entry.
pub(crate) const SPANS: u32 = 10;

/// A data directory whose journal is open for writing, as that of a running gateway is.
pub(crate) struct DataDir {
    dir: TempDir,
    open: Option<(Writer, Arc<Journal>)>,
    /// Entries so far.
    count: u64,
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }
}

impl DataDir {
    /// With segments of this length.
    pub(crate) fn new(segment_bytes: u64) -> Self {
        let dir = TempDir::new().unwrap();
        let fs = OsFs::open(&dir.path().join("journal")).unwrap();
        let (writer, journal, _) = weir_journal::open(Arc::new(fs), Options { segment_bytes, seed: 7 }).unwrap();
        Self { dir, open: Some((writer, journal)), count: 0 }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Appends a request of [`SPANS`] spans, the next ids in turn, that `queues` are owed; written `age_s` ago.
    pub(crate) fn append(&mut self, queues: &[&str], age_s: u64) -> Entry {
        let first = self.count * u64::from(SPANS) + 1;
        self.append_payload(queues, age_s, payload::encoded(first, u64::from(SPANS), 20))
    }

    pub(crate) fn append_payload(&mut self, queues: &[&str], age_s: u64, payload: Vec<u8>) -> Entry {
        self.count += 1;
        let (writer, journal) = self.open.as_mut().unwrap();
        let owed: Vec<Owed> = queues.iter().map(|name| Owed { queue: journal.queue(name), taken: false }).collect();
        let payload = [Bytes::from(payload)];
        let group = [NewEntry { payload: &payload, items: SPANS, owed: &owed }];
        writer.append(&group, now_ms() - age_s * 1000, Durability::Synced).unwrap()[0]
    }

    /// `queue` is owed this entry no more, and the journal says so on disk.
    pub(crate) fn complete(&mut self, queue: &str, entry: &Entry) {
        let (writer, journal) = self.open.as_mut().unwrap();
        assert!(journal.complete(journal.queue(queue), entry));
        writer.tidy().unwrap();
    }

    /// Ends the writing, as a kill does.
    pub(crate) fn close(&mut self) {
        self.open = None;
    }

    /// Ends the writing in good order.
    pub(crate) fn finish(&mut self) {
        let (mut writer, _) = self.open.take().unwrap();
        writer.finish().unwrap();
    }

    /// The segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let files = self.files().into_keys();
        files.filter(|path| path.extension().is_some_and(|extension| extension == "seg")).collect()
    }

    /// Every file below the directory with its bytes.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = std::fs::read_dir(self.path().join("journal")).unwrap();
        entries.map(|entry| entry.unwrap().path()).map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
    }

    /// Damages the first place in `segment` where `text` stands.
    pub(crate) fn damage(&self, segment: &Path, text: &str) {
        let mut bytes = std::fs::read(segment).unwrap();
        let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
        bytes[at] ^= 1;
        std::fs::write(segment, bytes).unwrap();
    }

    /// Runs `weir journal VERB DIR ...`, and sees to it that nothing has changed afterwards.
    pub(crate) fn weir(&self, verb: &str, arguments: &[&str]) -> Ended {
        let before = self.files();
        let ended = weir(verb, self.path(), arguments);
        assert!(before == self.files(), "{verb} changed the directory");
        ended
    }
}

/// `weir journal VERB DIR ...`
pub(crate) fn command(verb: &str, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["journal", verb]).arg(dir).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn weir(verb: &str, dir: &Path, arguments: &[&str]) -> Ended {
    let Output { status, stdout, stderr } = command(verb, dir, arguments).output().unwrap();
    Ended { code: status.code(), out: stdout, err: String::from_utf8(stderr).unwrap() }
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}
