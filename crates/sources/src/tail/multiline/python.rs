//! Traces of Python, with chained exceptions and groups of them.
//!
//! ```text
//! Traceback (most recent call last):
//!   File "cart.py", line 3, in open
//!     return carts[id]
//! KeyError: 7
//!
//! During handling of the above exception, another exception occurred:
//!
//! Traceback (most recent call last):
//! ```

use super::{Grammar, Rule, States, TraceLine, is_blank, starts_with_any};

/// Frames follow, and at last the exception.
const FRAMES: States = States::only(1);
/// In a group of exceptions, where each line is indented.
const GROUP: States = States::only(2);
/// The exception was named.
const NAMED: States = States::only(3);
/// And there was an empty line.
const GAP: States = States::only(4);
/// The next trace is of the same chain.
const CHAINED: States = States::only(5);

pub(super) const GRAMMAR: Grammar = Grammar {
    begin,
    rules: &[
        Rule { from: FRAMES, looks: |line| line.is_indented, to: FRAMES },
        Rule { from: FRAMES, looks: is_exception, to: NAMED },
        Rule { from: GROUP, looks: |line| line.is_indented, to: GROUP },
        Rule { from: NAMED.or(GROUP), looks: is_blank, to: GAP },
        Rule { from: GAP, looks: is_link, to: CHAINED },
        Rule { from: CHAINED, looks: is_blank, to: CHAINED },
        Rule { from: CHAINED, looks: |line| begin(line) == FRAMES, to: FRAMES },
        Rule { from: CHAINED, looks: |line| begin(line) == GROUP, to: GROUP },
    ],
};

fn begin(line: TraceLine<'_>) -> States {
    match line.text.strip_suffix(b"Traceback (most recent call last):") {
        Some(before) if before.ends_with(b"Exception Group ") => GROUP,
        Some(_) => FRAMES,
        None => States::NONE,
    }
}

/// `KeyError: 7`, `json.decoder.JSONDecodeError: …`, `KeyboardInterrupt`.
fn is_exception(line: TraceLine<'_>) -> bool {
    let is_inner =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'<' | b'>') || !byte.is_ascii();
    let name = line.text.iter().take_while(|byte| is_inner(byte)).count();
    let is_name = line.text.first().is_some_and(|first| !first.is_ascii_digit()) && name > 0;
    !line.is_indented && is_name && matches!(line.text.get(name), None | Some(b':'))
}

fn is_link(line: TraceLine<'_>) -> bool {
    starts_with_any(
        line.text,
        &[b"During handling of the above exception, ", b"The above exception was the direct cause "],
    )
}
