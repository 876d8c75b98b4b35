//! A file system in memory that does to its users what disks and kernels do.
//!
//! # Fault model
//!
//! What is *written* is what any reader sees; what is *durable* is what power loss leaves. A file's writes and changes
//! of length become durable with [`File::sync`], names created and removed with [`Fs::sync_dir`]. Neither does the
//! other's work.
//!
//! **Power loss** ([`SimFs::after_power_loss`]): every write since the last sync is there, or not, or torn: cut off at
//! any byte, or with any of its sectors missing. Each write has a fate of its own, so later writes may survive earlier
//! ones. Where a file was extended but its data is missing, a reader finds zeros, noise, or old sectors of a file that
//! was removed. Each unsynced creation and removal of a name has happened or not.
//!
//! **A kill** ([`SimFs::after_kill`]): everything written is there. It is no more durable than before: power may fail
//! later. Of the operation that the kill met, any part has happened.
//!
//! **Failing operations** ([`Faults`], [`SimFs::fail_next`], [`SimFs::set_capacity`]): writes and reads are short; a
//! write fails having written any part of its bytes; the disk is full; too many files are open
//! ([`SimFs::set_descriptors`]). A failed sync leaves each write since the last one durable, torn or lost *for good*:
//! the system thinks it has tried, and a later sync that succeeds brings nothing back. Readers still see such a write
//! until the system is told to forget it ([`File::forget`]); then they see what is on disk. A failed sync of the
//! directory makes some of the changes durable, those of one name in order, and the others wait for the next sync. File
//! systems keep names in a log; they do not drop a part of it and go on. A failed truncation may have happened.
//!
//! **Rot** ([`SimFs::flip`], [`SimFs::zero`], [`SimFs::files`] and [`SimFs::with_files`]): bytes change, files are cut
//! or vanish, in what is written and what is durable alike.
//!
//! # Use
//!
//! Operations that change something are counted ([`SimFs::operations`]). With [`SimFs::crash_at`] the crash meets the
//! n-th of them, and every call after it fails; then ask for one of the two disks that a crash may leave. Everything
//! random comes from the seed, so the same calls give the same faults.

mod content;
mod sparse;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use weir_journal::{File, Fs, Space};

use content::Content;
use sparse::Sparse;

/// Removed files whose sectors are remembered.
const STALE_FILES: usize = 4;

const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;

/// What [`SimFs::fail_next`] can make fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// `File::read_at`
    Read,
    /// `File::write_at`
    Write,
    /// `File::sync`
    Sync,
    /// `File::allocate`
    Allocate,
    /// `File::truncate`
    Truncate,
    /// `Fs::create`
    Create,
    /// `Fs::open`
    Open,
    /// `Fs::remove`
    Remove,
    /// `Fs::sync_dir`
    SyncDir,
}

/// How often operations fail by themselves: one in so many; 0 for never.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// A read or write does less than asked.
    pub short: u32,
    /// A read fails.
    pub read: u32,
    /// A write fails.
    pub write: u32,
    /// A sync of a file or of the directory fails.
    pub sync: u32,
    /// Another operation fails.
    pub other: u32,
}

/// The file system. Clones are the same one.
#[derive(Debug, Clone)]
pub struct SimFs {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Debug, Clone)]
struct Disk {
    rng: Rng,
    contents: BTreeMap<usize, Content>,
    next_file: usize,
    /// How many have a file open. The file may have lost its name.
    open: BTreeMap<usize, usize>,
    /// What removed files had. Their sectors may show up in new files.
    stale: VecDeque<Sparse>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    faults: Faults,
    fail_next: VecDeque<(Operation, i32)>,
    /// How many faults met each kind of operation.
    failures: BTreeMap<Operation, u64>,
    capacity: Option<u64>,
    descriptors: Option<usize>,
    operations: u64,
    crash_at: Option<u64>,
    crashed: bool,
}

#[derive(Debug, Clone)]
struct NameChange {
    name: String,
    /// The file that has the name from now on; `None` if the name is removed.
    file: Option<usize>,
}

/// Whether an operation goes on.
enum Fate {
    Happens,
    /// It fails, and may have happened in part.
    Fails(io::Error),
}

impl SimFs {
    /// An empty disk without faults.
    pub fn new(seed: u64) -> Self {
        Self::with_files(seed, &BTreeMap::new())
    }

    /// A disk with these files, all durable.
    pub fn with_files(seed: u64, files: &BTreeMap<String, Vec<u8>>) -> Self {
        let contents: BTreeMap<usize, Content> =
            (0..).zip(files.values().map(|bytes| Content::durable(Sparse::from(&bytes[..])))).collect();
        let names: BTreeMap<String, usize> = files.keys().cloned().zip(0..).collect();
        let disk = Disk {
            rng: Rng::with_seed(seed),
            next_file: contents.len(),
            contents,
            open: BTreeMap::new(),
            stale: VecDeque::new(),
            durable_names: names.clone(),
            names,
            name_changes: Vec::new(),
            faults: Faults::default(),
            fail_next: VecDeque::new(),
            failures: BTreeMap::new(),
            capacity: None,
            descriptors: None,
            operations: 0,
            crash_at: None,
            crashed: false,
        };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// What readers see.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let disk = self.disk();
        disk.names.iter().map(|(name, file)| (name.clone(), disk.contents[file].written().to_vec())).collect()
    }

    /// Inverts bits of one byte of a file; false when there is no such byte.
    pub fn flip(&self, name: &str, offset: usize, bits: u8) -> bool {
        self.disk().content(name).is_some_and(|content| content.corrupt(offset, |byte| byte ^ bits))
    }

    /// Zeroes one byte of a file; false when there is no such byte.
    pub fn zero(&self, name: &str, offset: usize) -> bool {
        self.disk().content(name).is_some_and(|content| content.corrupt(offset, |_| 0))
    }

    /// From now on operations fail so often.
    pub fn set_faults(&self, faults: Faults) {
        self.disk().faults = faults;
    }

    /// The next operation of this kind fails with EIO; repeated calls add up.
    pub fn fail_next(&self, operation: Operation) {
        self.disk().fail_next.push_back((operation, EIO));
    }

    /// The next operation of this kind fails with ENOSPC.
    pub fn fill_next(&self, operation: Operation) {
        self.disk().fail_next.push_back((operation, ENOSPC));
    }

    /// How many operations of this kind have failed so far, except for want of room or by a crash.
    pub fn failures(&self, operation: Operation) -> u64 {
        self.disk().failures.get(&operation).copied().unwrap_or(0)
    }

    /// How many files can be open at once.
    pub fn set_descriptors(&self, count: usize) {
        self.disk().descriptors = Some(count);
    }

    /// How many bytes all files have together.
    pub fn used(&self) -> u64 {
        self.disk().used()
    }

    /// How many bytes all files can have together.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk().capacity = bytes;
    }

    /// Operations so far that change something.
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// A crash meets operation `number` (the first one is 1), and everything after it fails.
    pub fn crash_at(&self, number: u64) {
        self.disk().crash_at = Some(number);
    }

    /// Everything fails from now on.
    pub fn crash(&self) {
        self.disk().crashed = true;
    }

    /// Whether it has crashed.
    pub fn has_crashed(&self) -> bool {
        self.disk().crashed
    }

    /// The disk as a kill of the process at this moment leaves it.
    pub fn after_kill(&self) -> Self {
        let disk = self.disk().clone().restarted();
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The disk as a power loss at this moment may leave it. Asking again may give another result.
    pub fn after_power_loss(&self) -> Self {
        let disk = self.disk().power_loss();
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, disk: &mut Disk, number: usize) -> Arc<dyn File> {
        *disk.open.entry(number).or_default() += 1;
        Arc::new(SimFile { disk: self.clone(), number })
    }
}

impl Disk {
    fn content(&mut self, name: &str) -> Option<&mut Content> {
        let file = *self.names.get(name)?;
        self.contents.get_mut(&file)
    }

    fn restarted(mut self) -> Self {
        self.open.clear();
        self.forget_removed();
        let (faults, fail_next) = (Faults::default(), VecDeque::new());
        Self { faults, fail_next, operations: 0, crash_at: None, crashed: false, ..self }
    }

    fn power_loss(&mut self) -> Self {
        let rng = &mut self.rng;
        let mut names = self.durable_names.clone();
        for change in &self.name_changes {
            if rng.bool() {
                change.apply(&mut names);
            }
        }
        let old = self.stale.make_contiguous();
        let torn = |(file, content): (&usize, &Content)| (*file, Content::durable(content.after_power_loss(rng, old)));
        let contents = self.contents.iter().map(torn).collect();
        let seed = self.rng.u64(..);
        let mut lost = self.clone();
        lost.rng = Rng::with_seed(seed);
        lost.contents = contents;
        lost.durable_names.clone_from(&names);
        lost.names = names;
        lost.name_changes.clear();
        lost.restarted()
    }

    /// Forgets files without a name that nobody has open and that power loss cannot bring back.
    fn forget_removed(&mut self) {
        let named = self.names.values().chain(self.durable_names.values()).copied();
        let named = named.chain(self.name_changes.iter().filter_map(|change| change.file));
        let used: BTreeSet<usize> = named.chain(self.open.keys().copied()).collect();
        let gone: Vec<usize> = self.contents.keys().copied().filter(|file| !used.contains(file)).collect();
        for file in gone {
            self.stale.extend(self.contents.remove(&file).map(|content| content.written().clone()));
        }
        self.stale.drain(..self.stale.len().saturating_sub(STALE_FILES));
    }

    fn used(&self) -> u64 {
        self.names.values().map(|file| self.contents[file].written().len() as u64).sum()
    }

    fn free(&self) -> u64 {
        self.capacity.map_or(u64::MAX / 4, |capacity| capacity.saturating_sub(self.used()))
    }

    /// Counts an operation that changes something and decides about it.
    fn change(&mut self, operation: Operation, one_in: u32) -> io::Result<Fate> {
        self.alive()?;
        self.operations += 1;
        if self.crash_at == Some(self.operations) {
            self.crashed = true;
            return Ok(Fate::Fails(crashed()));
        }
        Ok(self.fate(operation, one_in))
    }

    fn fate(&mut self, operation: Operation, one_in: u32) -> Fate {
        let Some(code) = self.fault(operation, one_in) else { return Fate::Happens };
        *self.failures.entry(operation).or_default() += 1;
        Fate::Fails(io::Error::from_raw_os_error(code))
    }

    /// The error that meets an operation, if one does.
    fn fault(&mut self, operation: Operation, one_in: u32) -> Option<i32> {
        if let Some(at) = self.fail_next.iter().position(|(failing, _)| *failing == operation) {
            return self.fail_next.remove(at).map(|(_, code)| code);
        }
        let fails = one_in > 0 && self.rng.u32(..one_in) == 0;
        fails.then(|| if operation == Operation::Write && self.rng.bool() { ENOSPC } else { EIO })
    }

    fn alive(&self) -> io::Result<()> {
        if self.crashed { Err(crashed()) } else { Ok(()) }
    }

    fn is_short(&mut self) -> bool {
        self.faults.short > 0 && self.rng.u32(..self.faults.short) == 0
    }

    fn rename(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }

    fn write(&mut self, file: usize, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let fate = self.change(Operation::Write, self.faults.write)?;
        let offset = usize::try_from(offset).map_err(|_| too_long())?;
        let length = self.length(file);
        let room = usize::try_from(self.free()).unwrap_or(usize::MAX).saturating_add(length.saturating_sub(offset));
        let mut count = bytes.len().min(room);
        let fails = match fate {
            Fate::Fails(error) => {
                count = self.rng.usize(..=count);
                Some(error)
            }
            Fate::Happens if count == 0 && !bytes.is_empty() => Some(io::Error::from_raw_os_error(ENOSPC)),
            Fate::Happens => None,
        };
        if fails.is_none() && count > 1 && self.is_short() {
            count = self.rng.usize(1..count);
        }
        self.edit(file, |content, _, _| content.write(&bytes[..count], offset));
        fails.map_or(Ok(count), Err)
    }

    fn length(&self, file: usize) -> usize {
        self.contents.get(&file).map_or(0, |content| content.written().len())
    }

    /// Changes a file, which is there as long as somebody has it open.
    fn edit(&mut self, file: usize, change: impl FnOnce(&mut Content, &mut Rng, &[Sparse])) {
        if let Some(content) = self.contents.get_mut(&file) {
            change(content, &mut self.rng, self.stale.make_contiguous());
        }
    }

    fn sync(&mut self, file: usize) -> io::Result<()> {
        match self.change(Operation::Sync, self.faults.sync)? {
            Fate::Happens => self.edit(file, |content, _, _| content.sync()),
            Fate::Fails(error) => {
                let crashed = self.crashed;
                self.edit(file, |content, rng, stale| match (crashed, rng.bool()) {
                    (false, _) => content.fail_to_sync(rng, stale),
                    // A crash meets it before or after.
                    (true, true) => content.sync(),
                    (true, false) => {}
                });
                return Err(error);
            }
        }
        Ok(())
    }

    fn resize(&mut self, file: usize, bytes: u64, operation: Operation) -> io::Result<()> {
        let fate = self.change(operation, self.faults.other)?;
        let length = self.length(file) as u64;
        if bytes > length && bytes - length > self.free() {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        let bytes = usize::try_from(bytes).map_err(|_| too_long())?;
        let happens = matches!(fate, Fate::Happens) || self.rng.bool();
        if happens {
            self.edit(file, |content, _, _| content.resize(bytes));
        }
        fate.result()
    }

    /// Changes a name; when that fails, it may have happened.
    fn change_name(&mut self, operation: Operation, change: NameChange) -> io::Result<()> {
        let fate = self.change(operation, self.faults.other)?;
        if matches!(fate, Fate::Happens) || self.rng.bool() {
            self.rename(change);
        }
        fate.result()
    }

    fn sync_names(&mut self) -> io::Result<()> {
        let fate = self.change(Operation::SyncDir, self.faults.sync)?;
        if self.crashed && self.rng.bool() {
            return Err(crashed());
        }
        let changes = std::mem::take(&mut self.name_changes);
        for change in changes {
            // One name's changes are in order, or the last of them would not be what stays.
            let waits = self.name_changes.iter().any(|earlier| earlier.name == change.name);
            if matches!(fate, Fate::Happens) || self.crashed || (!waits && self.rng.bool()) {
                change.apply(&mut self.durable_names);
            } else {
                self.name_changes.push(change);
            }
        }
        self.forget_removed();
        fate.result()
    }
}

impl Fate {
    fn result(self) -> io::Result<()> {
        match self {
            Self::Happens => Ok(()),
            Self::Fails(error) => Err(error),
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self.file {
            Some(file) => names.insert(self.name.clone(), file),
            None => names.remove(&self.name),
        };
    }
}

fn crashed() -> io::Error {
    io::Error::other("the simulated machine has crashed")
}

fn too_long() -> io::Error {
    io::Error::from(io::ErrorKind::FileTooLarge)
}

impl Fs for SimFs {
    fn list(&self) -> io::Result<Vec<String>> {
        let disk = self.disk();
        disk.alive()?;
        Ok(disk.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.disk();
        if disk.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = disk.next_file;
        disk.next_file += 1;
        disk.contents.insert(number, Content::default());
        disk.change_name(Operation::Create, NameChange { name: name.to_owned(), file: Some(number) })?;
        Ok(self.file(&mut disk, number))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut disk = self.disk();
        disk.alive()?;
        let one_in = disk.faults.read;
        if let Fate::Fails(error) = disk.fate(Operation::Open, one_in) {
            return Err(error);
        }
        if disk.descriptors.is_some_and(|limit| disk.open.values().sum::<usize>() >= limit) {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let number = disk.names.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(&mut disk, number))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        if !disk.names.contains_key(name) {
            disk.alive()?;
            return Err(io::ErrorKind::NotFound.into());
        }
        disk.change_name(Operation::Remove, NameChange { name: name.to_owned(), file: None })
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk().sync_names()
    }

    fn space(&self) -> io::Result<Space> {
        let disk = self.disk();
        disk.alive()?;
        Ok(Space { free: disk.free(), total: disk.capacity.unwrap_or(u64::MAX / 4) })
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimFs,
    number: usize,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut disk = self.disk.disk();
        if let Some(open) = disk.open.get_mut(&self.number) {
            *open -= 1;
            if *open == 0 {
                disk.open.remove(&self.number);
            }
        }
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk.disk();
        disk.alive()?;
        let one_in = disk.faults.read;
        if let Fate::Fails(error) = disk.fate(Operation::Read, one_in) {
            return Err(error);
        }
        let short = disk.is_short();
        let wanted = if short && buffer.len() > 1 { buffer.len().div_ceil(2) } else { buffer.len() };
        let offset = usize::try_from(offset).map_err(|_| too_long())?;
        Ok(disk.contents.get(&self.number).map_or(0, |content| content.written().read(offset, &mut buffer[..wanted])))
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64) -> io::Result<usize> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        self.disk.disk().write(self.number, &bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.disk().sync(self.number)
    }

    fn forget(&self, until: u64) {
        let until = usize::try_from(until).unwrap_or(usize::MAX);
        self.disk.disk().edit(self.number, |content, _, _| content.forget(until));
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.disk();
        let length = disk.length(self.number) as u64;
        disk.resize(self.number, bytes.max(length), Operation::Allocate)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.disk.disk().resize(self.number, bytes, Operation::Truncate)
    }

    fn len(&self) -> io::Result<u64> {
        let disk = self.disk.disk();
        disk.alive()?;
        Ok(disk.length(self.number) as u64)
    }

    fn is_linked(&self) -> io::Result<bool> {
        let disk = self.disk.disk();
        disk.alive()?;
        Ok(disk.names.values().any(|number| *number == self.number))
    }
}
