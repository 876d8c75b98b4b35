//! Small files of the data directory that outlive the process, beside the journal.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use weir_engine::settings::State;

/// A directory of its own below the data directory.
const DIRECTORY: &str = "state";

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
    fn take(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let path = self.0.join(name);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        fs::remove_file(&path)?;
        // A power loss must not bring it back.
        File::open(&self.0)?.sync_all()?;
        Ok(Some(bytes))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(new, path)?;
        File::open(&self.0)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_can_be_taken_once() {
        let dir = tempfile::TempDir::new().unwrap();
        let state = StateFiles::in_data_dir(dir.path());
        assert_eq!(state.take("a").unwrap(), None);
        state.put("a", b"one").unwrap();
        state.put("a", b"two").unwrap();
        assert_eq!(state.take("a").unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(state.take("a").unwrap(), None);
    }
}
