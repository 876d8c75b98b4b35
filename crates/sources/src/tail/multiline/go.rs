//! Panics and fatal errors of Go, with the stacks of all goroutines.
//!
//! ```text
//! panic: no cart [recovered]
//! <tab>panic: no cart
//! [signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48f2d1]
//!
//! goroutine 1 [running]:
//! main.open(...)
//! <tab>/src/main.go:12
//! created by main.main in goroutine 7
//! <tab>/src/main.go:5 +0x1d
//! ```

use memchr::memmem::Finder;

use super::{Grammar, Needle, Rule, States, TraceLine, is_blank, needle, starts_with_any};

/// Of a server that goes on.
static SERVED: Needle = needle(|| Finder::new("http: panic serving "));

/// What went wrong was said.
const PANIC: States = States::only(6);
/// After an empty line.
const GAP: States = States::only(7);
/// Functions follow.
const STACK: States = States::only(8);
/// A function was named, and where it stands follows.
const FUNCTION: States = States::only(9);

pub(super) const GRAMMAR: Grammar = Grammar {
    begin,
    rules: &[
        Rule { from: PANIC, looks: |line| line.is_indented || is_panic(line), to: PANIC },
        Rule { from: PANIC, looks: |line| starts_with_any(line.text, &[b"[signal ", b"PC="]), to: PANIC },
        Rule { from: PANIC.or(STACK), looks: is_blank, to: GAP },
        Rule { from: PANIC.or(GAP).or(STACK), looks: is_goroutine, to: STACK },
        Rule { from: STACK, looks: is_function, to: FUNCTION },
        Rule { from: STACK, looks: is_elision, to: STACK },
        Rule { from: FUNCTION, looks: |line| line.is_indented, to: STACK },
    ],
};

fn begin(line: TraceLine<'_>) -> States {
    match line {
        _ if is_panic(line) => PANIC,
        _ if is_goroutine(line) => STACK,
        _ => States::NONE,
    }
}

fn is_panic(TraceLine { text, is_indented }: TraceLine<'_>) -> bool {
    let is_plain = starts_with_any(text, &[b"panic: ", b"fatal error: ", b"SIGQUIT: ", b"SIGSEGV: ", b"SIGABRT: "]);
    !is_indented && (is_plain || SERVED.find(text).is_some())
}

/// `goroutine 1 [running]:`, `runtime stack:`.
fn is_goroutine(TraceLine { text, is_indented }: TraceLine<'_>) -> bool {
    let number = text.strip_prefix(b"goroutine ").and_then(<[u8]>::first);
    let is_numbered = number.is_some_and(u8::is_ascii_digit) && text.ends_with(b"]:");
    !is_indented && (is_numbered || text == b"runtime stack:")
}

/// `main.(*Cart).open(0xc000012345, {0x1, 0x2})`, `created by main.main in goroutine 1`.
fn is_function(TraceLine { text, is_indented }: TraceLine<'_>) -> bool {
    let name = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let is_call = name.contains(&b'(') && name.contains(&b'.') || name.starts_with(b"panic(");
    !is_indented && (is_call && text.ends_with(b")") || text.starts_with(b"created by "))
}

/// `...23 frames elided...`
fn is_elision(line: TraceLine<'_>) -> bool {
    line.text.starts_with(b"...") && line.text.ends_with(b" frames elided...")
}
