//! The examples that ship with the project load, without a warning.

use std::path::PathBuf;

use std::time::{Duration, SystemTime};

/// The day on which certificates are judged.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_272_000)
}

use weir_resources::{load, read};

fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

#[test]
fn every_example_loads_without_warnings() {
    let sources = read(&[examples()]).unwrap();
    assert!(sources.len() >= 3, "examples are missing");
    for source in sources {
        let name = source.name.clone();
        let loaded = load(&[source], now()).unwrap_or_else(|report| panic!("{name}:\n{report}"));
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
    }
}
