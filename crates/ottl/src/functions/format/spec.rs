//! Flags, width and precision of a directive.

use crate::value::Failure;
use crate::value::text::check_growing;

/// What stands between the percent sign and the verb.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spec {
    pub(super) plus: bool,
    pub(super) minus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    /// Whether values are to be written in the syntax of Go.
    pub(super) go: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
    /// Memory that what is written may take.
    pub(super) room: usize,
}

/// A number that is a width, a precision or an index; Go stops reading one before it has eight digits.
pub(super) fn size(digits: &str) -> Option<usize> {
    digits.parse().ok().filter(|size| size / 10 <= 1_000_000)
}

impl Spec {
    /// Sets a flag, if this is one.
    pub(super) fn flag(&mut self, flag: char) -> bool {
        match flag {
            '+' => self.plus = true,
            '-' => self.minus = true,
            '#' => self.sharp = true,
            ' ' => self.space = true,
            '0' => self.zero = true,
            _ => return false,
        }
        true
    }

    /// What this means for a verb: with `v`, two flags mean something else.
    pub(super) fn of(self, verb: char) -> Self {
        match verb {
            'v' => Self { go: self.sharp, sharp: false, plus: false, ..self },
            _ => self,
        }
    }

    /// The same as [`pad`](Self::pad), of a text that may be long.
    pub(super) fn append(&self, text: &str, out: &mut String) -> Result<(), Failure> {
        check_growing(out.len() + text.len(), self.room)?;
        self.pad(text, out);
        Ok(())
    }

    /// Appends a text, with spaces, or zeros on the left, up to the width.
    pub(super) fn pad(&self, text: &str, out: &mut String) {
        let missing = self.width.map_or(0, |width| width.saturating_sub(text.chars().count()));
        let zeros = self.zero && !self.minus;
        let padding = std::iter::repeat_n(if zeros { '0' } else { ' ' }, missing);
        if self.minus {
            out.push_str(text);
            out.extend(padding);
        } else {
            out.extend(padding);
            out.push_str(text);
        }
    }

    /// Appends a text, with spaces up to the width.
    pub(super) fn pad_with_spaces(&self, text: &str, out: &mut String) {
        Self { zero: false, ..*self }.pad(text, out);
    }

    /// As much of a text as the precision allows.
    pub(super) fn truncated<'t>(&self, text: &'t str) -> &'t str {
        let end = self.precision.and_then(|precision| text.char_indices().nth(precision));
        end.map_or(text, |(end, _)| &text[..end])
    }

    /// Appends an integer in a base.
    pub(super) fn integer(&self, value: i128, verb: char, out: &mut String) {
        let size = value.unsigned_abs();
        let mut digits = match verb {
            'b' => format!("{size:b}"),
            'o' | 'O' => format!("{size:o}"),
            'x' => format!("{size:x}"),
            'X' => format!("{size:X}"),
            _ => size.to_string(),
        };
        let signed = value < 0 || self.plus || self.space;
        let least = match (self.precision, self.width) {
            (Some(0), _) if size == 0 => return self.pad_with_spaces("", out),
            (Some(precision), _) => precision,
            (None, Some(width)) if self.zero && !self.minus => width - usize::from(signed && width > 0),
            _ => 0,
        };
        digits.insert_str(0, &"0".repeat(least.saturating_sub(digits.len())));
        let prefix = match verb {
            'O' if self.sharp && !digits.starts_with('0') => "0o0",
            'O' => "0o",
            'b' if self.sharp => "0b",
            'o' if self.sharp && !digits.starts_with('0') => "0",
            'x' if self.sharp => "0x",
            'X' if self.sharp => "0X",
            _ => "",
        };
        let sign = match value < 0 {
            true => "-",
            false if self.plus => "+",
            false if self.space => " ",
            false => "",
        };
        self.pad_with_spaces(&format!("{sign}{prefix}{digits}"), out);
    }

    /// Appends bytes as hexadecimal digits.
    pub(super) fn hex(&self, bytes: &[u8], verb: char, out: &mut String) -> Result<(), Failure> {
        let bytes = &bytes[..self.precision.map_or(bytes.len(), |precision| precision.min(bytes.len()))];
        // With a space and a prefix for each.
        check_growing(5 * bytes.len(), self.room)?;
        let mut text = String::new();
        for (index, byte) in bytes.iter().enumerate() {
            if self.space && index > 0 {
                text.push(' ');
            }
            if self.sharp && (self.space || index == 0) {
                text.push_str(if verb == 'X' { "0X" } else { "0x" });
            }
            text.push_str(&if verb == 'X' { format!("{byte:02X}") } else { format!("{byte:02x}") });
        }
        self.append(&text, out)
    }
}
