//! Which of two pods is the newer one: a file in the data directory has their ids in the order in which they came.
//!
//! A container that is started again belongs to the same pod, so an old pod never takes the directory from a newer one.
//! Clocks are not asked, nor is the API server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

const NAME: &str = "generations";
const NEW: &str = "generations.new";

/// Those before are gone for long.
const MOST: usize = 16;

/// What is read of the file: more than so many ids have.
const MAX_BYTES: u64 = 16 << 10;

/// Notes that the pod with this id is there, unless that is noted already.
pub(crate) fn enter(dir: &Path, id: &str) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // For a moment only: two that come at the same time come one after the other.
    let lock = File::open(dir)?;
    lock.lock()?;
    let Some(after) = with(&read(dir)?, id) else { return Ok(()) };
    // A new file in its place: on a full disk the old one stays as it is.
    let new = dir.join(NEW);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(after.as_bytes())?;
    file.sync_all()?;
    fs::rename(new, dir.join(NAME))?;
    lock.sync_all()
}

/// Whether one pod is newer than another. Nobody is who did not enter.
pub(super) fn is_newer(dir: &Path, one: &str, other: &str) -> bool {
    is_after(&read(dir).unwrap_or_default(), one, other)
}

/// Nothing if there is no file.
fn read(dir: &Path) -> io::Result<String> {
    let file = match File::open(dir.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Nothing if it is there already.
fn with(text: &str, id: &str) -> Option<String> {
    let ids: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    if ids.contains(&id) {
        return None;
    }
    let kept = ids.len().saturating_sub(MOST - 1);
    Some(ids[kept..].iter().chain([&id]).map(|id| format!("{id}\n")).collect())
}

fn is_after(text: &str, one: &str, other: &str) -> bool {
    let place = |id: &str| text.lines().position(|line| line == id);
    place(one).is_some_and(|one| place(other).is_none_or(|other| one > other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_in_the_order_in_which_they_came() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("below");
        for id in ["a", "b", "a"] {
            enter(&dir, id).unwrap();
        }
        assert!(is_newer(&dir, "b", "a"));
        assert!(!is_newer(&dir, "a", "b"), "its container was started again");
        assert!(!is_newer(&dir, "a", "a"));
        assert!(!is_newer(&dir, "unknown", "a"));
        assert!(is_newer(&dir, "a", "forgotten"));
    }

    #[test]
    fn pods_that_are_gone_for_long_are_forgotten() {
        let mut text = String::new();
        for id in 0..100 {
            text = with(&text, &id.to_string()).unwrap();
        }
        assert_eq!(text.lines().collect::<Vec<_>>(), (84..100).map(|id| id.to_string()).collect::<Vec<_>>());
        assert_eq!(with(&text, "99"), None);
    }
}
