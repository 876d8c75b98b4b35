//! Reports on disk: complete or absent, never half written.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes `value` as JSON to a temporary name beside `path` and renames it into place.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> anyhow::Result<()> {
    let mut name = path.file_name().context("a report needs a file name")?.to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut text = serde_json::to_vec_pretty(value).context("cannot encode report as JSON")?;
    text.push(b'\n');
    fs::write(&temporary, text).with_context(|| format!("cannot write {}", temporary.display()))?;
    fs::rename(&temporary, path).with_context(|| format!("cannot move report to {}", path.display()))
}

/// Reads JSON written by [`write_json`].
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot decode {} as JSON", path.display()))
}
