//! Small files of the data directory that outlive the process, beside the journal.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use weir_engine::settings::State;

/// A directory of its own below the data directory.
const DIRECTORY: &str = "state";

/// What is written at once, where pieces are small.
const WRITE_BYTES: usize = 64 << 10;

/// The files of one data directory, which the journal's lock keeps other processes out of.
#[derive(Debug)]
pub(crate) struct StateFiles(PathBuf);

impl StateFiles {
    /// The directory is made when there is something to put into it.
    pub(crate) fn in_data_dir(dir: &Path) -> Self {
        Self(dir.join(DIRECTORY))
    }
}

impl State for StateFiles {
    fn read(&self, name: &str, pay: &mut dyn FnMut(usize) -> bool) -> io::Result<Option<Vec<u8>>> {
        let path = self.0.join(name);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let length = file.metadata()?.len();
        let room = usize::try_from(length).ok().filter(|length| pay(*length));
        let Some(room) = room else {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("there is no room for {length} bytes")));
        };
        let mut bytes = Vec::with_capacity(room);
        file.take(length).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // A power loss must not bring it back.
            removed => removed.and_then(|()| File::open(&self.0)?.sync_all()),
        }
    }

    fn put(&self, name: &str, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        // One that an earlier version has made is open to others.
        fs::set_permissions(&self.0, Permissions::from_mode(0o700))?;
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let mut file = BufWriter::with_capacity(WRITE_BYTES, file);
        write(&mut file)?;
        file.into_inner()?.sync_all()?;
        fs::rename(new, path)?;
        File::open(&self.0)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_for_this_user_alone() {
        let dir = tempfile::TempDir::new().unwrap();
        let below = dir.path().join("state");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::create_dir(&below).unwrap();
        fs::set_permissions(&below, Permissions::from_mode(0o755)).unwrap();
        let (precious, new) = (dir.path().join("precious"), below.join("a.new"));
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &new).unwrap();
        StateFiles::in_data_dir(dir.path()).put("a", &mut |out| out.write_all(b"one")).unwrap();
        assert_eq!((mode(&below), mode(&below.join("a"))), (0o700, 0o600));
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious", "a link is not followed");
    }

    #[test]
    fn what_is_put_can_be_read_until_it_is_deleted() {
        let dir = tempfile::TempDir::new().unwrap();
        let state = StateFiles::in_data_dir(dir.path());
        let read = || state.read("a", &mut |bytes| bytes == 3).unwrap();
        assert_eq!(read(), None);
        state.delete("a").unwrap();
        state.put("a", &mut |out| out.write_all(b"one")).unwrap();
        state.put("a", &mut |out| out.write_all(b"two")).unwrap();
        let refused = state.put("a", &mut |out| out.write_all(b"three").and(Err(io::ErrorKind::OutOfMemory.into())));
        assert!(refused.is_err(), "what cannot be written to its end takes nothing's place");
        assert_eq!([read(), read()], [(); 2].map(|()| Some(b"two".to_vec())));
        state.delete("a").unwrap();
        assert_eq!(read(), None);
    }

    /// However long a file is, nothing of it is read that has not been paid for.
    #[test]
    fn what_there_is_no_room_for_is_not_read() {
        let dir = tempfile::TempDir::new().unwrap();
        let state = StateFiles::in_data_dir(dir.path());
        state.put("a", &mut |out| out.write_all(b"one")).unwrap();
        let file = OpenOptions::new().write(true).open(dir.path().join("state/a")).unwrap();
        file.set_len(1 << 40).unwrap();
        let refused = state.read("a", &mut |bytes| bytes < 1 << 20).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }
}
