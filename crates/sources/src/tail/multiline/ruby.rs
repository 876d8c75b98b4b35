//! Traces of Ruby, as the interpreter and its Logger print them.
//!
//! ```text
//! cart.rb:3:in 'Cart#open': no cart (ArgumentError)
//! <tab>from cart.rb:7:in '<main>'
//! cart.rb:2:in 'Hash#fetch': key not found: 7 (KeyError)
//! ```

use memchr::memmem::Finder;

use super::{Grammar, Needle, Rule, States, TraceLine, is_blank, needle};

/// Behind a number.
static PLACE: Needle = needle(|| Finder::new(":in "));

/// Only the message was there.
const MESSAGE: States = States::only(10);
/// Frames follow.
const FRAMES: States = States::only(11);

pub(super) const GRAMMAR: Grammar = Grammar {
    begin,
    rules: &[
        Rule { from: MESSAGE, looks: is_blank, to: MESSAGE },
        Rule { from: MESSAGE.or(FRAMES), looks: is_frame, to: FRAMES },
        Rule { from: FRAMES, looks: is_omission, to: FRAMES },
    ],
};

fn begin(line: TraceLine<'_>) -> States {
    match line {
        _ if line.is_indented => States::NONE,
        _ if is_frame(line) => FRAMES,
        _ if is_message(line.text) => MESSAGE,
        _ => States::NONE,
    }
}

/// `cart.rb:3:in 'open'`, in older versions with another quote.
fn is_frame(TraceLine { text, .. }: TraceLine<'_>) -> bool {
    let is_place = |colon: usize| {
        let digits = text[..colon].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let is_quoted = text[colon..].starts_with(b":in `") || text[colon..].starts_with(b":in '");
        is_quoted && digits > 0 && text[..colon - digits].ends_with(b":")
    };
    PLACE.find_iter(text).any(is_place)
}

/// `no cart (ArgumentError)`, or `ArgumentError (no cart):` as Rails has it.
fn is_message(text: &[u8]) -> bool {
    let is_class = |name: &[u8]| {
        let is_name = name.first().is_some_and(u8::is_ascii_uppercase)
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'));
        is_name && (name.ends_with(b"Error") || name.ends_with(b"Exception"))
    };
    if let Some(text) = text.strip_suffix(b")") {
        return text.iter().rposition(|byte| *byte == b'(').is_some_and(|open| is_class(&text[open + 1..]));
    }
    let name = text.strip_suffix(b"):").and_then(|text| text.split(|byte| *byte == b' ').next());
    name.is_some_and(|name| is_class(name) && text[name.len()..].starts_with(b" ("))
}

/// `... 10067 levels...`
fn is_omission(line: TraceLine<'_>) -> bool {
    line.text.starts_with(b"... ") && line.text.ends_with(b" levels...")
}
