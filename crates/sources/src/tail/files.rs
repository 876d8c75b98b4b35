//! The files of a container on the disk: their names, and their content, compressed or not.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::read::MultiGzDecoder;
use rustix::fs::{Advice, OFlags};
use rustix::io::Errno;

use super::chain::Seen;
use super::changed::Changed;
use super::identity::{FileId, PRINT_BYTES, Print};
use super::path::LogName;

/// What the decoder of a compressed file takes: its window, its tables, and what it has read ahead.
pub(super) const DECODER_BYTES: usize = 96 << 10;

/// So much is read at once of what comes before the wanted place.
const SKIP_BYTES: usize = 16 << 10;

/// The page cache is freed in steps of at least this size.
const LET_GO_BYTES: u64 = 1 << 20;

/// Directories that change while they are listed are listed again, so many times at most.
const LISTINGS: usize = 3;

/// The log files in a container's directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) files: Vec<Seen>,
    /// Some are links. The kernel gives no hints of what is written to the files that these lead to.
    pub(super) has_links: bool,
    /// When the directory changed last, if what changes later has another time.
    pub(super) changed: Option<Changed>,
}

/// The files in a container's directory; none when it is gone.
pub(super) fn list(directory: &Path) -> io::Result<Listing> {
    let mut files = Listing::default();
    for _ in 0..LISTINGS {
        let before = Changed::of(directory)?;
        let telling = before.filter(|changed| changed.is_over());
        files = list_once(directory)?;
        if Changed::of(directory)? == before {
            files.changed = telling;
            break;
        }
    }
    Ok(files)
}

fn list_once(directory: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().and_then(LogName::parse) else { continue };
        // Of a link, what it leads to.
        match fs::metadata(entry.path()) {
            Ok(metadata) if metadata.is_file() => {
                listing.files.push(Seen { name, id: file_id(&metadata), size: metadata.len() });
                listing.has_links |= entry.file_type()?.is_symlink();
            }
            Ok(_) => {}
            // Between the list and the look it went, or got another name; or it is a link that leads nowhere.
            Err(error) if leads_nowhere(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listing)
}

fn leads_nowhere(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

fn file_id(metadata: &Metadata) -> FileId {
    let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
    let born = metadata.created().ok().and_then(since_epoch);
    let born = born.and_then(|age| u64::try_from(age.as_nanos()).ok()).unwrap_or(0);
    FileId { device: metadata.dev(), inode: metadata.ino(), born }
}

/// How many log files are open, and how many may be when nobody reads them: the rest of the descriptors is for
/// connections and for the journal.
#[derive(Debug)]
pub(super) struct Descriptors {
    open: AtomicUsize,
    most: usize,
}

impl Descriptors {
    /// Half of what the process may have.
    pub(super) fn of_process() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        Self::new(limit.and_then(|limit| usize::try_from(limit / 2).ok()).unwrap_or(usize::MAX))
    }

    pub(super) fn new(most: usize) -> Self {
        Self { open: AtomicUsize::new(0), most }
    }

    /// Whether files are to be closed, and opened again when they are read.
    pub(super) fn are_scarce(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.most
    }
}

/// One of them.
#[derive(Debug)]
struct Descriptor(Arc<Descriptors>);

impl Descriptor {
    fn new(all: &Arc<Descriptors>) -> Self {
        all.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(all))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The size of a file on the disk.
pub(super) fn size(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.len())
}

/// A file that is open.
#[derive(Debug)]
pub(super) struct Content {
    _descriptor: Descriptor,
    file: Arc<File>,
    id: FileId,
    /// What is before it does not have to be in memory any more.
    let_go: u64,
    /// Of a compressed file that is being read. Most are not, and take no memory for it.
    inflating: Option<Box<Inflating>>,
    /// Why a compressed file gave less than was wanted when it was last read.
    damage: Option<io::Error>,
    is_compressed: bool,
}

/// What is at hand of a compressed file, and where in the content that is.
#[derive(Debug)]
struct Inflating {
    decoder: Decoder,
    at: u64,
}

type Decoder = MultiGzDecoder<FromStart>;

/// Reads a file from its beginning on.
#[derive(Debug)]
struct FromStart {
    file: Arc<File>,
    offset: u64,
}

/// Opens a file to read. A pipe may stand in its place since it was listed: to open one waits for a writer otherwise, and
/// everything else with it.
fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl Content {
    /// Opens a file of a container; `None` when there is none of this name.
    pub(super) fn open(directory: &Path, name: LogName, all: &Arc<Descriptors>) -> io::Result<Option<Self>> {
        let file = match open_at_once(&directory.join(name.to_string())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(None);
        }
        let id = file_id(&metadata);
        let _descriptor = Descriptor::new(all);
        let (file, is_compressed) = (Arc::new(file), name.is_compressed);
        Ok(Some(Self { _descriptor, file, id, let_go: 0, inflating: None, damage: None, is_compressed }))
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// The size on the disk.
    pub(super) fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The size of a file that has no name any more: the disk keeps it as long as it is open.
    pub(super) fn removed_size(&self) -> Option<u64> {
        let metadata = self.file.metadata().ok()?;
        (metadata.nlink() == 0).then_some(metadata.len())
    }

    /// When something was last written to it, in milliseconds since the Unix epoch.
    pub(super) fn written_ms(&self) -> io::Result<Option<u64>> {
        let written = self.file.metadata()?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(u64::try_from(written.as_millis()).ok())
    }

    /// Bytes before `offset` are not read again. When they are enough, they leave the kernel's page cache.
    pub(super) fn let_go(&mut self, offset: u64) {
        let length = offset.saturating_sub(self.let_go);
        if self.is_compressed || length < LET_GO_BYTES {
            return;
        }
        // A file system that has no such memory is no loss.
        let _ = rustix::fs::fadvise(&*self.file, self.let_go, std::num::NonZero::new(length), Advice::DontNeed);
        self.let_go = offset;
    }

    /// Reads the content from `offset` on; fills the buffer unless the content ends, or before its
    /// [damage](Self::take_damage).
    pub(super) fn read(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.is_compressed {
            return self.inflate(buffer, offset);
        }
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn inflate(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.damage = None;
        let mut inflating = match self.inflating.take().filter(|inflating| inflating.at <= offset) {
            Some(inflating) => inflating,
            None => {
                let reading = FromStart { file: Arc::clone(&self.file), offset: 0 };
                Box::new(Inflating { decoder: MultiGzDecoder::new(reading), at: 0 })
            }
        };
        let mut skipped = [0; SKIP_BYTES];
        while inflating.at < offset {
            let wanted = usize::try_from(offset - inflating.at).unwrap_or(SKIP_BYTES).min(SKIP_BYTES);
            let (read, end) = fill(&mut inflating.decoder, &mut skipped[..wanted]);
            inflating.at += read as u64;
            if read < wanted {
                return end.map(|()| 0);
            }
        }
        let (read, end) = fill(&mut inflating.decoder, buffer);
        if read == 0 {
            end?;
        } else {
            self.damage = end.err();
        }
        inflating.at += read as u64;
        self.inflating = Some(inflating);
        Ok(read)
    }

    /// Why the last read did not fill the buffer: what comes next in a compressed file is damaged.
    pub(super) fn take_damage(&mut self) -> Option<io::Error> {
        self.damage.take()
    }

    /// The print of the beginning of the content.
    pub(super) fn head(&mut self) -> io::Result<Print> {
        let mut head = [0; PRINT_BYTES];
        let read = self.read_head(&mut head)?;
        Ok(Print::of_head(&head[..read]))
    }

    fn read_head(&mut self, head: &mut [u8; PRINT_BYTES]) -> io::Result<usize> {
        let read = self.read(head, 0);
        // Only who reads it pays for what that takes, and many files wait to be read.
        self.end_inflating();
        read
    }

    /// Gives back the memory for inflating. The next read begins anew.
    pub(super) fn end_inflating(&mut self) {
        self.inflating = None;
    }

    /// Whether it is being inflated, so that opening it again would cost much.
    pub(super) fn is_inflating(&self) -> bool {
        self.inflating.is_some()
    }

    /// Whether the content begins with what this is the print of.
    pub(super) fn has_head(&mut self, print: Print) -> io::Result<bool> {
        let mut head = [0; PRINT_BYTES];
        let read = self.read_head(&mut head)?;
        Ok(print.is_head_of(&head[..read]))
    }

    /// The print of what is before an offset. There is none of a compressed file: nobody writes to it any more, and it
    /// would have to be inflated again.
    pub(super) fn guard(&mut self, offset: u64) -> io::Result<Print> {
        if self.is_compressed {
            return Ok(Print::default());
        }
        let mut tail = [0; PRINT_BYTES];
        Ok(Print::of_tail(self.before(offset, &mut tail)?))
    }

    /// Whether this is the print of what is before an offset. A print of nothing says only how long the file is at
    /// least.
    pub(super) fn has_guard(&mut self, offset: u64, print: Print) -> io::Result<bool> {
        let mut tail = [0; PRINT_BYTES];
        match print.length {
            0 if self.is_compressed => Ok(true),
            0 => Ok(self.size()? >= offset),
            _ => Ok(print.is_tail_of(self.before(offset, &mut tail)?)),
        }
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    fn before<'a>(&mut self, offset: u64, buffer: &'a mut [u8; PRINT_BYTES]) -> io::Result<&'a [u8]> {
        let wanted = usize::try_from(offset).unwrap_or(PRINT_BYTES).min(PRINT_BYTES);
        let read = self.read(&mut buffer[..wanted], offset - wanted as u64)?;
        // A file that is shorter has nothing there.
        Ok(if read == wanted { &buffer[..wanted] } else { &[] })
    }
}

/// Returns how much there is before the end, or before what is damaged.
fn fill(decoder: &mut Decoder, buffer: &mut [u8]) -> (usize, io::Result<()>) {
    let mut filled = 0;
    while filled < buffer.len() {
        match decoder.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(()))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    /// If it waited, the test would not end.
    #[test]
    fn a_pipe_in_the_place_of_a_file_holds_up_nobody() {
        let directory = tempfile::tempdir().unwrap();
        mkfifoat(CWD, directory.path().join("0.log"), Mode::RUSR | Mode::WUSR).unwrap();
        let name = LogName::parse("0.log").unwrap();
        let all = Arc::new(Descriptors::of_process());
        assert!(Content::open(directory.path(), name, &all).unwrap().is_none());
    }
}
