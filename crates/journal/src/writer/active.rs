//! The segment that is being written.

use std::io::{self, IoSlice};
use std::sync::Arc;

use crate::AppendError;
use crate::format::{Extent, FileHead, FileKind};
use crate::fs::{File, Fs, write_full};
use crate::group::{Context, Group};
use crate::model::Durability;
use crate::walk::Place;

/// See the module. After an error it must not be written to any more.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) head: FileHead,
    name: String,
    file: Arc<dyn File>,
    /// Behind the last group that was appended.
    place: Place,
    /// Up to here it is durable.
    durable_end: u64,
    sync_failed: bool,
}

impl Active {
    /// Creates the file, and an empty one for completions. When this returns, their names and the head are durable, so
    /// that a damaged head is never taken for a write that was under way.
    pub(super) fn create(fs: &dyn Fs, head: &FileHead, bytes: u64) -> Result<Self, AppendError> {
        let name = FileKind::Segment.name(head.id);
        let file = fs.create(&name).map_err(failed("create", &name))?;
        // Without reserved room appending is slower, not wrong; the disk may be full but for what a group needs.
        let _ = file.allocate(bytes);
        let written = write_full(&*file, &mut [IoSlice::new(&head.encode(FileKind::Segment))], 0);
        let acks = FileKind::Acks.name(head.id);
        let created = written
            .map_err(failed("write to", &name))
            .and_then(|()| file.sync().map_err(failed("sync", &name)))
            .and_then(|()| fs.create(&acks).map(drop).map_err(failed("create", &acks)))
            .and_then(|()| fs.sync_dir().map_err(failed("sync the directory after creating", &name)));
        if let Err(error) = created {
            // What stays is empty: the next start removes it.
            let _ = (fs.remove(&name), fs.remove(&acks));
            return Err(error);
        }
        let place = Place::START;
        Ok(Self { head: *head, name, file, place, durable_end: place.offset, sync_failed: false })
    }

    /// Nothing was appended yet.
    pub(super) fn is_new(&self) -> bool {
        self.place == Place::START
    }

    pub(super) fn end(&self) -> u64 {
        self.place.offset
    }

    pub(super) fn durable_end(&self) -> u64 {
        self.durable_end
    }

    /// What the frames of the next group depend on.
    pub(super) fn context(&self, now_ms: u64) -> Context {
        let (segment, seal, place) = (self.head.id, self.head.seal(), self.place);
        Context { segment, seal, place, durable_end: self.durable_end, now_ms }
    }

    /// How far it goes.
    pub(super) fn extent(&self) -> Extent {
        let Place { offset, index, items } = self.place;
        Extent { end: offset, items: items.unwrap_or(0), entries: index }
    }

    /// Writes a group.
    pub(super) fn write(&mut self, group: &mut Group<'_>, durability: Durability) -> Result<(), AppendError> {
        let written = write_full(&*self.file, &mut group.slices(), self.place.offset);
        written.map_err(failed("write to", &self.name))?;
        if durability == Durability::Synced {
            self.sync_file().map_err(failed("sync", &self.name))?;
        }
        if !self.file.is_linked().map_err(failed("look at", &self.name))? {
            return Err(AppendError::Removed { file: self.name.clone() });
        }
        self.place = group.place;
        if durability == Durability::Synced {
            self.synced();
        }
        Ok(())
    }

    /// Makes all groups durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.has_unsynced() {
            self.sync_file()?;
            self.synced();
        }
        Ok(())
    }

    /// All groups are durable. They are kept out of the system's memory: copying into fresh pages takes several times
    /// as long as writing does, and the pages would count as ours.
    fn synced(&mut self) {
        self.durable_end = self.place.offset;
        self.file.forget(self.durable_end);
    }

    /// After a failure the system may believe that everything is on disk, so asking again would prove nothing.
    fn sync_file(&mut self) -> io::Result<()> {
        if self.sync_failed {
            return Err(io::Error::other("an earlier sync of the file failed"));
        }
        self.file.sync().inspect_err(|_| self.sync_failed = true)
    }

    /// Whether a group waits for a sync.
    pub(super) fn has_unsynced(&self) -> bool {
        self.durable_end < self.place.offset
    }

    /// Cuts off everything behind the last group, reserved room too.
    pub(super) fn cut(&self) -> io::Result<()> {
        self.file.truncate(self.place.offset)
    }

    /// As [`Active::cut`], and durably.
    pub(super) fn cut_and_sync(&mut self) -> io::Result<()> {
        let cut = self.cut();
        self.sync_file()?;
        self.synced();
        cut
    }

    /// Length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.file.len().unwrap_or(self.place.offset)
    }
}

fn failed(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> AppendError {
    let file = file.to_owned();
    move |source| AppendError::Io { action, file, source }
}
