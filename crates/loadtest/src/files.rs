//! Reports on disk: complete or absent, never half written.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes `value` as JSON, as [`write`] does.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> anyhow::Result<()> {
    write(path, &json(value)?)
}

/// A value as lines of JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> anyhow::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value).context("cannot encode report as JSON")?;
    text.push(b'\n');
    Ok(text)
}

/// Writes `text` to a temporary name beside `path` and renames it into place. A pipe or a device is written to as it is: it
/// must not be replaced by a file.
pub(crate) fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(path, text).with_context(|| format!("cannot write {}", path.display()));
    }
    let mut name = path.file_name().context("a report needs a file name")?.to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, text).with_context(|| format!("cannot write {}", temporary.display()))?;
    fs::rename(&temporary, path).with_context(|| format!("cannot move report to {}", path.display()))
}

/// Reads JSON written by [`write_json`].
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot decode {} as JSON", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        let error = write_json(Path::new("/dev/full"), &"report").unwrap_err();
        assert!(format!("{error:#}").contains("No space left"), "{error:#}");
        assert!(!Path::new("/dev/full").is_file());
        write_json(Path::new("/dev/null"), &"report").unwrap();
    }
}
