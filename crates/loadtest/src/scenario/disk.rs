//! How much disk a directory takes, while somebody else works in it.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The unit in which file systems count allocated space.
const BLOCK_BYTES: u64 = 512;

/// Bytes allocated to the files below `directory`; 0 when there is no such directory. Files that vanish meanwhile do not
/// count.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn allocated_bytes(directory: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        let Some(entries) = unless_gone(fs::read_dir(directory))? else { continue };
        for entry in entries {
            let entry = entry?;
            let Some(metadata) = unless_gone(entry.metadata())? else { continue };
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                sum += metadata.blocks() * BLOCK_BYTES;
            }
        }
    }
    Ok(sum)
}

fn unless_gone<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(err) if err.kind() == ErrorKind::NotFound => Ok(None),
        Err(err) => Err(err),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_subdirectories_count_and_nothing_is_nothing() {
        let directory = std::env::temp_dir().join(format!("weir-disk-{}", std::process::id()));
        assert_eq!(allocated_bytes(&directory).unwrap(), 0);
        let inner = directory.join("inner");
        fs::create_dir_all(&inner).unwrap();
        let file = fs::File::create(inner.join("file")).unwrap();
        let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(100_000).collect();
        std::io::Write::write_all(&mut &file, &bytes).unwrap();
        file.sync_all().unwrap();
        assert!(allocated_bytes(&directory).unwrap() >= 100_000);
        fs::remove_dir_all(&directory).unwrap();
    }
}
