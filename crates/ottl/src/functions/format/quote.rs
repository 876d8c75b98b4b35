//! Text in quotes, as Go writes it in programs.

use crate::value::Failure;
use crate::value::text::check_growing;

/// A text in double quotes, if there is room for it.
pub(super) fn text(text: &str, ascii: bool, room: usize) -> Result<String, Failure> {
    let mut out = String::from('"');
    for char in text.chars() {
        escaped(char, '"', ascii, &mut out);
        check_growing(out.len(), room)?;
    }
    out.push('"');
    Ok(out)
}

/// A character in single quotes.
pub(super) fn char(char: char, ascii: bool) -> String {
    let mut out = String::from('\'');
    escaped(char, '\'', ascii, &mut out);
    out.push('\'');
    out
}

/// Whether a text can stand between backquotes.
pub(super) fn is_raw(text: &str) -> bool {
    text.chars().all(|char| (char >= ' ' || char == '\t') && !matches!(char, '`' | '\u{7f}' | '\u{feff}'))
}

fn escaped(char: char, quote: char, ascii: bool, out: &mut String) {
    let short = match char {
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        '\\' => "\\\\",
        _ => "",
    };
    let code = u32::from(char);
    match char {
        _ if !short.is_empty() => out.push_str(short),
        _ if char == quote => out.extend(['\\', char]),
        ' '..='~' => out.push(char),
        '\0'..='\u{7f}' => out.push_str(&format!("\\x{code:02x}")),
        _ if !ascii && is_printable(char) => out.push(char),
        _ if code < 0x10000 => out.push_str(&format!("\\u{code:04x}")),
        _ => out.push_str(&format!("\\U{code:08x}")),
    }
}

/// Whether a character beyond ASCII can be seen.
pub(super) fn is_printable(char: char) -> bool {
    // After another character, where marks that join it count as well.
    format!("a{char}").escape_debug().nth(1) != Some('\\')
}
