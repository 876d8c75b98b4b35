//! The writer's side of a segment's file of completions.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::Arc;

use crate::acks::{encode_completed, encode_done, encode_extent, encode_queue};
use crate::bits::Bits;
use crate::format::{Extent, FILE_HEAD, FileHead, FileKind};
use crate::fs::{File, Fs, write_full};
use crate::model::QueueId;
use crate::survey::Files;

/// Records are written in portions of this size, because what is completed may be as large as the segment.
const AT_ONCE: usize = 64 << 10;

/// What is in the file, and what is not yet.
#[derive(Debug)]
pub(crate) struct AckFile {
    head: FileHead,
    /// The number that the segment gives each queue.
    numbers: BTreeMap<QueueId, u16>,
    /// Queues whose names are not in the file.
    unnamed: Vec<QueueId>,
    exists: bool,
    /// The head in the file is missing or damaged.
    headless: bool,
    /// Where the last record ends.
    end: u64,
    /// What is in the file could not be read. It stays, and records go behind it.
    unread: bool,
    /// Something unfinished lies behind the end.
    dirty: bool,
    /// How far the segment goes, when it is complete.
    extent: Option<Extent>,
    /// That is in the file.
    extent_is_noted: bool,
    done_is_noted: bool,
}

impl AckFile {
    /// That of a new segment: an empty file.
    pub(crate) fn new(head: FileHead) -> Self {
        let (numbers, unnamed, end) = (BTreeMap::new(), Vec::new(), FILE_HEAD as u64);
        Self {
            head,
            numbers,
            unnamed,
            exists: true,
            headless: true,
            end,
            unread: false,
            dirty: false,
            extent: None,
            extent_is_noted: false,
            done_is_noted: false,
        }
    }

    /// That of a segment that was found.
    pub(crate) fn recovered(files: &Files, numbers: BTreeMap<QueueId, u16>, extent: Option<Extent>) -> Self {
        let is_unnamed = |(_, number): &(&QueueId, &u16)| files.acks.names.get(**number).is_none();
        let unnamed = numbers.iter().filter(is_unnamed).map(|(queue, _)| *queue).collect();
        Self {
            head: files.head,
            unnamed,
            exists: files.has_ack_file,
            headless: !files.ack_head_is_sound,
            end: files.acks.end,
            unread: files.acks_unread,
            dirty: files.acks.torn_bytes > 0 || files.ack_length > files.acks.end,
            extent,
            extent_is_noted: files.acks.extent.is_some(),
            done_is_noted: false,
            numbers,
        }
    }

    /// Cuts off the torn end, so that it is not met again. If this fails, it is done before the next write.
    pub(crate) fn cut(&mut self, fs: &dyn Fs) {
        if self.exists && self.dirty {
            // Up to there is nothing that could be kept, if not even the head is whole.
            let keep = if self.end > FILE_HEAD as u64 || !self.headless { self.end } else { 0 };
            let cut = fs.open(&FileKind::Acks.name(self.head.id)).and_then(|file| file.truncate(keep));
            self.dirty = cut.is_err();
        }
    }

    pub(crate) fn numbers(&self) -> &BTreeMap<QueueId, u16> {
        &self.numbers
    }

    /// Gives numbers to queues that have none; returns the new ones.
    pub(crate) fn enlist(&mut self, queues: impl Iterator<Item = QueueId>) -> Vec<(QueueId, u16)> {
        let mut new = Vec::new();
        for queue in queues {
            // There are no more queues than numbers.
            let next = u16::try_from(self.numbers.len()).unwrap_or(u16::MAX);
            self.numbers.entry(queue).or_insert_with(|| {
                new.push((queue, next));
                next
            });
        }
        self.unnamed.extend(new.iter().map(|(queue, _)| *queue));
        new
    }

    /// Adds records: the names that are missing, and completions.
    pub(crate) fn write(
        &mut self,
        fs: &dyn Fs,
        name_of: impl Fn(QueueId) -> String,
        completed: &BTreeMap<QueueId, Bits>,
    ) -> io::Result<()> {
        let seal = self.head.seal();
        let mut names = Vec::new();
        for queue in &self.unnamed {
            encode_queue(&mut names, seal, self.numbers[queue], &name_of(*queue));
        }
        let numbered = completed.iter().filter_map(|(queue, entries)| Some((*self.numbers.get(queue)?, entries)));
        let numbered: Vec<_> = numbered.collect();
        let completions = numbered.into_iter().flat_map(|(number, entries)| encode_completed(seal, number, entries));
        self.append(fs, std::iter::once(names).chain(completions))?;
        self.unnamed.clear();
        Ok(())
    }

    /// Makes durable that everybody has completed everything. The segment is removed next. Should this file outlive it,
    /// it must not look as if something were missing.
    pub(crate) fn note_done(&mut self, fs: &dyn Fs) -> io::Result<()> {
        if self.done_is_noted {
            return Ok(());
        }
        let mut record = Vec::new();
        encode_done(&mut record, self.head.seal());
        self.append(fs, [record])?;
        fs.open(&FileKind::Acks.name(self.head.id))?.sync()?;
        self.done_is_noted = true;
        Ok(())
    }

    /// The segment is complete.
    pub(crate) fn set_extent(&mut self, extent: Extent) {
        self.extent = Some(extent);
    }

    /// Makes durable how far the segment goes.
    pub(crate) fn note_extent(&mut self, fs: &dyn Fs) -> io::Result<()> {
        let Some(extent) = self.extent.filter(|_| !self.extent_is_noted) else { return Ok(()) };
        let is_new = !self.exists;
        let mut record = Vec::new();
        encode_extent(&mut record, self.head.seal(), &extent);
        self.append(fs, [record])?;
        fs.open(&FileKind::Acks.name(self.head.id))?.sync()?;
        if is_new {
            fs.sync_dir()?;
        }
        self.extent_is_noted = true;
        Ok(())
    }

    fn open(&mut self, fs: &dyn Fs, name: &str) -> io::Result<Arc<dyn File>> {
        match fs.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = fs.create(name)?;
                (self.exists, self.headless) = (true, true);
                Ok(file)
            }
            file => file,
        }
    }

    /// Writes all of the records or none: what was written of them is overwritten by the next ones.
    fn append(&mut self, fs: &dyn Fs, records: impl IntoIterator<Item = Vec<u8>>) -> io::Result<()> {
        let name = FileKind::Acks.name(self.head.id);
        let file = self.open(fs, &name)?;
        if self.unread {
            self.end = file.len()?.next_multiple_of(8).max(self.end);
            self.unread = false;
        }
        if self.dirty {
            file.truncate(self.end)?;
            self.dirty = false;
        }
        if self.headless {
            let head = self.head.encode(FileKind::Acks);
            write_full(&*file, &mut [IoSlice::new(&head)], 0)?;
            self.headless = false;
        }
        self.dirty = true;
        self.end = write_records(&*file, records, self.end)?;
        self.dirty = false;
        Ok(())
    }
}

/// Where they end.
fn write_records(file: &dyn File, records: impl IntoIterator<Item = Vec<u8>>, mut end: u64) -> io::Result<u64> {
    let mut buffer = Vec::new();
    let mut records = records.into_iter().peekable();
    while let Some(record) = records.next() {
        buffer.extend_from_slice(&record);
        if buffer.len() >= AT_ONCE || records.peek().is_none() {
            write_full(file, &mut [IoSlice::new(&buffer)], end)?;
            end += buffer.len() as u64;
            buffer.clear();
        }
    }
    Ok(end)
}
