//! The two files of a segment, opened: what their heads say, and what is done without a sound head.

use std::io;
use std::sync::Arc;

use crate::acks::{self, Acks};
use crate::format::{FILE_HEAD, FileHead, FileKind, HeadFault, MAX_SEGMENT, Seal};
use crate::fs::{File, Fs, read_full};
use crate::model::DamageReport;
use crate::walk::is_blank;

/// No longer file of completions is read. This is many times what the entries of the longest segment could need.
const MAX_ACKS: u64 = 256 << 20;

/// Both files of a segment, opened, and what their heads say.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) id: u64,
    pub(crate) file: Arc<dyn File>,
    pub(crate) length: u64,
    pub(crate) head: FileHead,
    /// The head comes from the file of completions, because that of the segment is damaged.
    pub(super) head_damaged: bool,
    pub(crate) acks: Acks,
    pub(crate) ack_length: u64,
    pub(crate) has_ack_file: bool,
    pub(crate) ack_head_is_sound: bool,
    /// The file of completions cannot be read now.
    pub(crate) acks_unread: bool,
    /// What is wrong with the file of completions.
    pub(super) ack_fault: Option<String>,
}

/// Why a segment is not read.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// No frame was ever acknowledged in it.
    Blank,
    /// Its head is damaged; it stays as it is.
    Headless(DamageReport),
    /// It stays as it is.
    Aside(DamageReport),
}

impl Files {
    /// Opens a segment. Errors are those of a file that has vanished.
    pub(crate) fn open(fs: &dyn Fs, id: u64) -> io::Result<Result<Self, Unusable>> {
        let seen = Self::look(fs, id)?;
        let is_headless = match &seen {
            Ok(files) => files.head_damaged,
            Err(unusable) => matches!(unusable, Unusable::Headless(_)),
        };
        // A file that is being created gets its head after its name, and before anything else: by now it has one.
        if is_headless { Self::look(fs, id) } else { Ok(seen) }
    }

    fn look(fs: &dyn Fs, id: u64) -> io::Result<Result<Self, Unusable>> {
        let name = FileKind::Segment.name(id);
        let file = match fs.open(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
            file => file,
        };
        let opened = file.and_then(|file| {
            let length = file.len()?.min(MAX_SEGMENT);
            let mut head = [0; FILE_HEAD];
            let filled = read_full(&*file, &mut head, 0)?;
            Ok((length, FileHead::decode(&head[..filled], FileKind::Segment, id), file))
        });
        let (length, head, file) = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(Unusable::Aside(aside(id, 0, format!("it cannot be read: {error}"))))),
        };
        let mut ack_file = FoundAckFile::open(fs, id);
        let ack_head = ack_file.head(id);
        // Without its own head the records can still be read: they carry the same seal.
        let acks = head.or(ack_head).map(|head| ack_file.read(id, head.seal()));
        // Whoever deletes a segment does so when nobody is owed it, which its completions need not say; and removes it
        // before these.
        if matches!(file.is_linked(), Ok(false)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(match (head.or(ack_head), acks) {
            (Ok(usable), Ok(acks)) => {
                let mut files = Self {
                    id,
                    file,
                    length,
                    head: usable,
                    head_damaged: head.is_err(),
                    acks,
                    ack_length: ack_file.length,
                    has_ack_file: ack_file.exists,
                    ack_head_is_sound: ack_head == Ok(usable),
                    acks_unread: ack_file.unread,
                    ack_fault: ack_file.fault,
                };
                files.judge_ack_head(&ack_file.head);
                Ok(files)
            }
            _ => Err(unusable(&*file, id, length, head.err())),
        })
    }

    fn judge_ack_head(&mut self, head: &[u8]) {
        if self.ack_head_is_sound {
            return;
        }
        let content_end = head.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        if self.acks.end > FILE_HEAD as u64 {
            if content_end > 0 {
                self.ack_fault.get_or_insert_with(|| "its head is damaged".to_owned());
            }
        } else {
            // The first write to it was under way.
            let behind = self.acks.torn_bytes;
            self.acks.torn_bytes = if behind > 0 { FILE_HEAD as u64 + behind } else { content_end };
        }
    }
}

/// A file of completions as it is found.
#[derive(Default)]
pub(crate) struct FoundAckFile {
    pub(crate) exists: bool,
    file: Option<Arc<dyn File>>,
    /// How much of it is read.
    length: u64,
    head: Vec<u8>,
    /// It cannot be read now.
    pub(crate) unread: bool,
    /// What is wrong with it.
    pub(crate) fault: Option<String>,
}

impl FoundAckFile {
    pub(crate) fn open(fs: &dyn Fs, id: u64) -> Self {
        let opened = fs.open(&FileKind::Acks.name(id)).and_then(|file| {
            let mut head = vec![0; FILE_HEAD];
            let length = file.len()?;
            let filled = read_full(&*file, &mut head, 0)?;
            head.truncate(filled);
            Ok((file, length, head))
        });
        match opened {
            Ok((file, length, head)) => {
                let too_long =
                    || format!("the file is longer than any should be, and not read beyond {MAX_ACKS} bytes");
                let fault = (length > MAX_ACKS).then(too_long);
                let (file, length) = (Some(file), length.min(MAX_ACKS));
                Self { exists: true, file, length, head, unread: false, fault }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                let mut unread = Self { exists: true, ..Self::default() };
                unread.give_up(&error);
                unread
            }
        }
    }

    pub(crate) fn head(&self, id: u64) -> Result<FileHead, HeadFault> {
        FileHead::decode(&self.head, FileKind::Acks, id)
    }

    /// Its records; none when they cannot be read now.
    pub(crate) fn read(&mut self, id: u64, seal: Seal) -> Acks {
        let Some(file) = &self.file else { return Acks::none() };
        match acks::read(&**file, id, self.length, seal) {
            Ok(acks) => {
                if acks.is_full {
                    self.fault.get_or_insert_with(|| "there are more of them than are kept in memory".to_owned());
                }
                acks
            }
            Err(error) => {
                self.give_up(&error);
                Acks::none()
            }
        }
    }

    /// What was read before is not used either.
    fn give_up(&mut self, error: &io::Error) {
        let fault = Some(format!("it cannot be read: {error}"));
        *self = Self { exists: true, unread: true, fault, ..Self::default() };
    }
}

/// What becomes of a segment without a sound head of a version that is known.
fn unusable(file: &dyn File, id: u64, length: u64, fault: Option<HeadFault>) -> Unusable {
    if let Some(HeadFault::Version(version)) = fault {
        let why = format!("its format version {version} is not known to this version of weir");
        return Unusable::Aside(aside(id, length, why));
    }
    match is_blank(file, length) {
        Ok(true) => Unusable::Blank,
        _ => Unusable::Headless(aside(id, length, "its head is damaged".to_owned())),
    }
}

fn aside(id: u64, bytes: u64, why: String) -> DamageReport {
    DamageReport {
        file: FileKind::Segment.name(id),
        segment: id,
        offset: 0,
        bytes,
        places: 1,
        entries: None,
        items: None,
        what: format!("{why}; the file is left where it is and not used"),
    }
}
