//! How much may wait for the backend of a pipeline: annotations, because the pipeline API has no field for it.

use std::time::Duration;

use weir_plan::{Backlog, Overflow};
use weir_units::quantity::{self, Wrong};

use crate::diagnostic::{Diagnostic, Findings};
use crate::document::{Fields, Located};

/// Below this a backlog does not even hold one request of a busy client.
const LEAST_BYTES: u64 = 1 << 20;

/// No disk is larger, and sums of sizes cannot overflow.
const MOST_BYTES: u64 = 1 << 60;

/// With less, data that is merely on its way would be given up.
const LEAST_AGE: Duration = Duration::from_secs(1);

/// For ever, in the life of a gateway; sums of times cannot overflow.
const MOST_AGE: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

pub(crate) const OVERFLOWS: [(&str, Overflow); 2] =
    [("drop_oldest", Overflow::DropOldest), ("refuse", Overflow::Refuse)];

/// Takes the annotations about the backlog. `None` has been reported.
pub(crate) fn decode(annotations: &mut Fields<'_>) -> Option<Backlog> {
    let findings = annotations.node().findings();
    let max_bytes = annotations.text("weir.dev/backlog-max-bytes").and_then(|text| bytes(&text, findings));
    let max_age = annotations.text("weir.dev/backlog-max-age").and_then(|text| age(&text, findings));
    let overflow = annotations.choice("weir.dev/backlog-overflow", &OVERFLOWS);
    Some(Backlog { max_bytes: max_bytes?, max_age: max_age?, overflow: overflow? })
}

fn bytes(text: &Located<String>, findings: &Findings) -> Option<u64> {
    let (complaint, expected) = match quantity::size(&text.value) {
        Ok(bytes) if bytes < LEAST_BYTES => ("is too little for a backlog", "at least 1Mi"),
        Ok(bytes) if bytes <= MOST_BYTES => return Some(bytes),
        Ok(_) | Err(Wrong::Large) => ("is too much for a backlog", "at most 1Ei"),
        Err(Wrong::Form) => {
            ("is not a size", "a number of bytes with or without a unit, such as 10Gi, 500MB or 1073741824")
        }
    };
    refuse(text, complaint, expected, findings)
}

fn age(text: &Located<String>, findings: &Findings) -> Option<Duration> {
    let (complaint, expected) = match quantity::duration(&text.value) {
        Ok(age) if age < LEAST_AGE => ("is too short for a backlog", "at least 1s"),
        Ok(age) if age <= MOST_AGE => return Some(age),
        Ok(_) | Err(Wrong::Large) => ("is too long for a backlog", "at most 3650d"),
        Err(Wrong::Form) => ("is not a duration", "numbers with the units d, h, m, s or ms, such as 24h or 1h30m"),
    };
    refuse(text, complaint, expected, findings)
}

fn refuse<T>(text: &Located<String>, complaint: &str, expected: &str, findings: &Findings) -> Option<T> {
    let Located { value, place } = text;
    let message = format!("{} {complaint}", place.shown(value));
    findings.push(Diagnostic::error(place, message).value(value).expected(expected));
    None
}
