//! `inspect` and `verify`.

use serde_json::Value;

use super::directory::{DataDir, SPANS, weir};

/// A large segment.
const LARGE: u64 = 1 << 20;

/// Takes two or three entries.
const SMALL: u64 = 8 << 10;

fn inspected(dir: &DataDir) -> Value {
    inspected_with(dir, "--format")
}

fn inspected_with(dir: &DataDir, flag: &str) -> Value {
    let ended = dir.weir("inspect", &[flag, "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    serde_json::from_slice(&ended.out).unwrap()
}

/// Two pipelines are owed one entry, one of them another; a third entry was completed.
fn three_entries() -> DataDir {
    let mut dir = DataDir::new(LARGE);
    dir.append(&["traces/a", "traces/b"], 7_320);
    dir.append(&["traces/b"], 60);
    let third = dir.append(&["traces/a"], 0);
    dir.complete("traces/a", &third);
    dir
}

/// Scripts were written when its name was another one than everywhere else.
#[test]
fn the_format_goes_by_its_old_name_too() {
    let dir = three_entries();
    let [now, before] = ["--format", "--output"].map(|flag| inspected_with(&dir, flag)["segments"].clone());
    assert_eq!(now, before);
    let [text, human] = [["--format", "text"], ["--output", "human"]].map(|flags| dir.weir("inspect", &flags));
    assert!(text.out.starts_with(b"/") && text.code == human.code && text.err == human.err, "{text:?} {human:?}");
}

#[test]
fn what_waits_for_whom_is_counted() {
    let dir = three_entries();
    let report = inspected(&dir);
    let pipelines = report["pipelines"].as_array().unwrap();
    let figure = |index: usize, name: &str| pipelines[index][name].as_u64().unwrap();
    let names: Vec<_> = pipelines.iter().map(|pipeline| pipeline["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["traces/a", "traces/b"]);
    assert_eq!((figure(0, "entries"), figure(0, "items")), (1, u64::from(SPANS)));
    assert_eq!((figure(1, "entries"), figure(1, "items")), (2, u64::from(2 * SPANS)));
    assert!(figure(1, "bytes") > figure(0, "bytes") && figure(0, "bytes") > 1000);
    assert!((7_320_000..7_500_000).contains(&figure(1, "oldest_age_ms")), "{report}");

    let segments = report["segments"].as_array().unwrap();
    assert_eq!(segments.len(), 1);
    assert_eq!((&segments[0]["entries"], &segments[0]["owed_entries"]), (&3.into(), &3.into()));
    assert_eq!(report["disk_bytes"], segments[0]["bytes"]);
    let age = segments[0]["newest_unix_ms"].as_u64().unwrap() - segments[0]["oldest_unix_ms"].as_u64().unwrap();
    assert!((7_320_000..7_500_000).contains(&age), "{report}");
    assert_eq!(report["damage"], Value::Array(Vec::new()));
}

#[test]
fn people_get_tables() {
    let dir = three_entries();
    let ended = dir.weir("inspect", &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let lines: Vec<Vec<&str>> = ended.text().lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines[0].ends_with(&["on", "disk", "in", "1", "segment"]), "{lines:?}");
    assert_eq!(lines[2], ["PIPELINE", "ENTRIES", "ITEMS", "SIZE", "OLDEST"]);
    let is_row = |line: &&Vec<&str>, name: &str| line.first() == Some(&name);
    let row = |name: &str| lines.iter().find(|line| is_row(line, name)).unwrap();
    assert_eq!(row("traces/a")[1..3], ["1", "10"]);
    assert_eq!(row("traces/b")[1..3], ["2", "20"]);
    assert_eq!(*row("traces/b").last().unwrap(), "2h02m");
    assert_eq!(row("SEGMENT")[1..], ["SIZE", "ENTRIES", "OWED", "OLDEST", "NEWEST"]);
    assert_eq!(lines.last().unwrap(), &["no", "damage"]);
}

#[test]
fn the_directory_of_the_journal_itself_will_do() {
    let dir = three_entries();
    let inner = weir("verify", &dir.path().join("journal"), &[]);
    assert_eq!((inner.code, inner.text()), (Some(0), dir.weir("verify", &[]).text()));
    assert!(inner.text().contains("3 entries"), "{}", inner.text());
}

#[test]
fn an_idle_journal_is_a_journal() {
    let mut dir = DataDir::new(LARGE);
    for written in [false, true] {
        if written {
            let entry = dir.append(&["traces/a"], 0);
            dir.complete("traces/a", &entry);
        }
        let ended = dir.weir("inspect", &[]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.text().contains("nothing waits for any pipeline"), "{}", ended.text());
        assert_eq!(dir.weir("verify", &[]).code, Some(0));
    }
}

#[test]
fn a_sound_journal_is_called_sound() {
    let mut dir = three_entries();
    for _ in 0..2 {
        let ended = dir.weir("verify", &[]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.text().contains("3 entries in 1 segment checked\nno damage\n"), "{}", ended.text());
        dir.close();
    }
}

#[test]
fn a_damaged_payload_is_found_by_verify() {
    let mut dir = DataDir::new(SMALL);
    for _ in 0..6 {
        dir.append(&["traces/a", "traces/b"], 0);
    }
    dir.close();
    let first = &dir.segments()[0];
    dir.damage(first, "GET /orders/1");
    let ended = dir.weir("verify", &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let file = first.file_name().unwrap().to_str().unwrap();
    let text = ended.text();
    assert!(text.contains("damage: 1 place\n") && text.contains(&format!("  {file} at byte ")), "{text}");
    assert!(text.contains("1 entry, 10 items): the payload's checksum does not match"), "{text}");

    // The heads are sound, and inspect reads no more.
    assert_eq!(inspected(&dir)["damage"], Value::Array(Vec::new()));
}

#[test]
fn damage_everybody_sees_is_in_every_report() {
    let mut dir = DataDir::new(SMALL);
    for _ in 0..6 {
        dir.append(&["traces/a"], 0);
    }
    dir.close();
    let first = &dir.segments()[0];
    let mut bytes = std::fs::read(first).unwrap();
    bytes[..4096].fill(0xff);
    std::fs::write(first, bytes).unwrap();
    let report = inspected(&dir);
    let damage = report["damage"].as_array().unwrap();
    assert!(!damage.is_empty(), "{report}");
    let file = first.file_name().unwrap().to_str().unwrap();
    assert!(damage.iter().all(|place| place["file"] == file && place["what"].is_string()), "{report}");
    let people = dir.weir("inspect", &[]);
    assert!(people.code == Some(0) && people.text().contains(file) && people.text().contains("damage: "), "{people:?}");
    assert_eq!(dir.weir("verify", &[]).code, Some(1));
}

/// After a kill, damage in what was written last cannot be told from a write that was under way; after an orderly end it
/// can.
#[test]
fn the_end_of_a_journal() {
    for killed in [true, false] {
        let mut dir = three_entries();
        dir.append_payload(&["traces/a"], 0, b"the last one".to_vec());
        if killed {
            dir.close()
        } else {
            dir.finish()
        }
        dir.damage(&dir.segments()[0], "the last one");
        let verify = dir.weir("verify", &[]);
        let (truncated, code) = if killed { (80, 0) } else { (0, 1) };
        assert_eq!((verify.code, inspected(&dir)["truncated_bytes"].as_u64()), (Some(code), Some(truncated)));
        let note = "note: 80 bytes at the end: an unfinished write, or damage that cannot be told from one\nno damage";
        let damage = "(12 bytes, 1 entry, 10 items): the payload's checksum does not match";
        assert_eq!((verify.text().contains(note), verify.text().contains(damage)), (killed, !killed), "{verify:?}");
        assert_eq!(dir.weir("inspect", &[]).text().contains(note), killed);
    }
}
