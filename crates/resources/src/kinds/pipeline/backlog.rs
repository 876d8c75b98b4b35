//! How much may wait for the backend of a pipeline: annotations, because the pipeline API has no field for it.

use std::time::Duration;

use weir_plan::{Backlog, Overflow};

use crate::diagnostic::Diagnostic;
use crate::document::quantity::{self, Wrong};
use crate::document::{Fields, Node};

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

/// Takes the annotations about the backlog. What is wrong has been reported.
pub(crate) fn decode(annotations: &mut Fields<'_>) -> Backlog {
    let default = Backlog::default();
    let max_bytes = annotations.optional("weir.dev/backlog-max-bytes");
    let max_age = annotations.optional("weir.dev/backlog-max-age");
    let overflow = annotations.optional("weir.dev/backlog-overflow");
    Backlog {
        max_bytes: max_bytes.and_then(|node| bytes(&node)).unwrap_or(default.max_bytes),
        max_age: max_age.and_then(|node| age(&node)).unwrap_or(default.max_age),
        overflow: overflow.and_then(|node| node.choice(&OVERFLOWS)).unwrap_or(default.overflow),
    }
}

fn bytes(node: &Node<'_>) -> Option<u64> {
    let text = node.string()?;
    let (complaint, expected) = match quantity::size(&text.value) {
        Ok(bytes) if bytes < LEAST_BYTES => ("is too little for a backlog", "at least 1Mi"),
        Ok(bytes) if bytes <= MOST_BYTES => return Some(bytes),
        Ok(_) | Err(Wrong::Large) => ("is too much for a backlog", "at most 1Ei"),
        Err(Wrong::Form) => {
            ("is not a size", "a number of bytes with or without a unit, such as 10Gi, 500MB or 1073741824")
        }
    };
    refuse(node, &text.value, complaint, expected)
}

fn age(node: &Node<'_>) -> Option<Duration> {
    let text = node.string()?;
    let (complaint, expected) = match quantity::duration(&text.value) {
        Ok(age) if age < LEAST_AGE => ("is too short for a backlog", "at least 1s"),
        Ok(age) if age <= MOST_AGE => return Some(age),
        Ok(_) | Err(Wrong::Large) => ("is too long for a backlog", "at most 3650d"),
        Err(Wrong::Form) => ("is not a duration", "numbers with the units d, h, m, s or ms, such as 24h or 1h30m"),
    };
    refuse(node, &text.value, complaint, expected)
}

fn refuse<T>(node: &Node<'_>, value: &str, complaint: &str, expected: &str) -> Option<T> {
    let place = node.place();
    let message = format!("{} {complaint}", place.shown(value));
    node.findings().push(Diagnostic::error(&place, message).value(value).expected(expected));
    None
}
