//! Traces of .NET.
//!
//! ```text
//! Unhandled exception. System.InvalidOperationException: no cart
//!  ---> System.ArgumentNullException: Value cannot be null. (Parameter 'id')
//!    at Shop.Cart.Open() in /src/Cart.cs:line 12
//!    --- End of inner exception stack trace ---
//!    at Shop.Program.Main()
//! ```

use memchr::memmem::Finder;

use super::{Grammar, Needle, Rule, States, TraceLine, is_blank, names, needle, starts_with_any};

/// What the names of what is thrown end with.
static CLASS: Needle = needle(|| Finder::new("Exception"));

const TRACE: States = States::only(12);
/// After an empty line: another exception of several may follow.
const GAP: States = States::only(13);

pub(super) const GRAMMAR: Grammar = Grammar {
    begin,
    rules: &[
        Rule { from: TRACE, looks: is_frame, to: TRACE },
        Rule { from: TRACE, looks: is_blank, to: GAP },
        Rule { from: GAP, looks: is_inner, to: TRACE },
    ],
};

/// Loggers indent what they print behind their first line.
fn begin(line: TraceLine<'_>) -> States {
    let is_exception = !is_inner(line) && names(line.text, &CLASS);
    if is_exception { TRACE } else { States::NONE }
}

fn is_frame(line: TraceLine<'_>) -> bool {
    let is_call = line.is_indented && line.text.starts_with(b"at ");
    is_call || is_inner(line) || line.text.starts_with(b"--- End of ")
}

fn is_inner(line: TraceLine<'_>) -> bool {
    starts_with_any(line.text, &[b"---> "])
}
