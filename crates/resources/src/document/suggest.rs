//! "Did you mean": the nearest known name to a misspelt one.

use strsim::osa_distance;

/// Longest name that is compared; no field is longer.
const MAX_CHARS: usize = 64;

/// `one of: a, b, c (did you mean "b"?)`, or the name alone when there is one.
pub(crate) fn one_of(known: &[&str], given: &str) -> String {
    let list = match known {
        [only] => return format!("{only:?}"),
        _ => format!("one of: {}", known.join(", ")),
    };
    match nearest(known, given) {
        Some(name) => format!("{list} (did you mean {name:?}?)"),
        None => list,
    }
}

/// The known name that was probably meant.
pub(crate) fn nearest<'a>(known: &[&'a str], given: &str) -> Option<&'a str> {
    if given.chars().count() > MAX_CHARS {
        return None;
    }
    let given = given.to_lowercase();
    known
        .iter()
        .map(|name| (osa_distance(&name.to_lowercase(), &given), *name))
        .filter(|(distance, name)| *distance <= close_enough(name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
        .or_else(|| known.iter().copied().find(|name| is_longer_form(&name.to_lowercase(), &given)))
}

/// Whether a name was probably meant to be another.
pub(crate) fn is_misspelt(name: &str, given: &str) -> bool {
    given.chars().count() <= MAX_CHARS
        && osa_distance(&name.to_lowercase(), &given.to_lowercase()) <= close_enough(name)
}

/// A third of the name may be wrong, and never more than three letters.
fn close_enough(name: &str) -> usize {
    (name.len() / 3).clamp(1, 3)
}

/// Whether one name is the other with something added (`user`, `username`).
fn is_longer_form(a: &str, b: &str) -> bool {
    a.len().min(b.len()) >= 3 && (a.starts_with(b) || b.starts_with(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_nearest() {
        let known = ["grpc", "http"];
        assert_eq!(one_of(&known, "grcp"), r#"one of: grpc, http (did you mean "grpc"?)"#);
        assert_eq!(one_of(&known, "HTTP"), r#"one of: grpc, http (did you mean "http"?)"#);
        assert_eq!(one_of(&known, "kafka"), "one of: grpc, http");
        assert_eq!(one_of(&["user", "password"], "username"), r#"one of: user, password (did you mean "user"?)"#);
        assert_eq!(one_of(&["otlp"], "oltp"), r#""otlp""#);
        assert_eq!(one_of(&known, &"g".repeat(100_000)), "one of: grpc, http");
    }
}
