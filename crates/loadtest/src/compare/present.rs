//! A comparison for people, and what of it JSON needs.

use serde::Serializer;
use serde::ser::SerializeMap;

use super::statistics::Ratio;
use super::{Comparison, Row, Verdict};
use crate::report::markdown;

const HEADER: [&str; 6] = ["figure", "base", "new", "new / base", "with noise", "verdict"];

/// Zero is what is hoped for.
const ALWAYS: [&str; 4] = ["lost", "pending", "duplicated", "refused"];

/// Tables, one for each scenario and system.
pub(super) fn text(comparison: &Comparison, assumed_noise: u8) -> String {
    let mut text = format!("base: {}\nnew: {}\n", comparison.base.join(", "), comparison.new.join(", "));
    for group in comparison.rows.chunk_by(|a, b| (&a.scenario, &a.system) == (&b.scenario, &b.system)) {
        text += &table(group);
    }
    text.push('\n');
    if comparison.rows.iter().any(|row| !row.is_repeated()) {
        text +=
            &format!("where there is one run of each, {assumed_noise} % are taken for noise: repeat runs to know it\n");
    }
    for (what, subjects) in [("base", &comparison.only_in_base), ("new", &comparison.only_in_new)] {
        text.extend(subjects.iter().map(|subject| format!("only in {what}: {subject}\n")));
    }
    text.extend(comparison.doubts.iter().map(|doubt| format!("doubt: {doubt}\n")));
    let word = if comparison.gate.is_some() { "FAILED" } else { "doubt" };
    text.extend(comparison.mismatches.iter().map(|mismatch| format!("{word}: not the same test: {mismatch}\n")));
    text.extend(comparison.failures.iter().map(|failure| format!("{word}: {failure}\n")));
    if let Some(gate) = &comparison.gate {
        text.extend(gate.violations.iter().map(|violation| format!("FAILED: {}\n", violation.text)));
        text += if gate.passed { "the gate is passed\n" } else { "" };
    }
    text
}

fn table(group: &[Row]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let (base, new) = (first.base.runs.len(), first.new.runs.len());
    let runs = |count: usize| if count == 1 { "1 run".to_owned() } else { format!("{count} runs") };
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    // Of what never happens, nothing is to be seen, but of what everybody looks for.
    let is_seen = |row: &&Row| row.base.mean != 0.0 || row.new.mean != 0.0 || ALWAYS.contains(&row.figure.as_str());
    let seen = group.iter().filter(is_seen);
    rows.extend(seen.map(cells));
    format!("\n{}, {}: {} and {}\n{}", first.scenario, first.system, runs(base), runs(new), markdown::table(&rows))
}

fn cells(row: &Row) -> Vec<String> {
    let Ratio { value, low, high } = row.ratio;
    let noise = if low < high { format!("{low:.2} to {high:.2}") } else { String::new() };
    let verdict = match row.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::Noise => "within noise",
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
    };
    let value = if value.is_finite() { format!("{value:.3}") } else { "from nothing".to_owned() };
    vec![row.figure.clone(), short(row.base.mean), short(row.new.mean), value, noise, verdict.to_owned()]
}

/// Four digits, or all of a large number.
fn short(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        some if some >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// A ratio as three keys; JSON knows no infinity, which is null.
pub(super) fn ratio<S: Serializer>(ratio: &Ratio, serializer: S) -> Result<S::Ok, S::Error> {
    let finite = |value: f64| Some(value).filter(|value| value.is_finite());
    let mut map = serializer.serialize_map(Some(3))?;
    map.serialize_entry("ratio", &finite(ratio.value))?;
    map.serialize_entry("low", &finite(ratio.low))?;
    map.serialize_entry("high", &finite(ratio.high))?;
    map.end()
}
