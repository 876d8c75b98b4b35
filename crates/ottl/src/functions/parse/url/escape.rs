//! Percent-encoding of the parts of a URL. Which characters stand for themselves is decided as in Go's `net/url`.

use crate::value::Failure;

/// A part of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    User,
    Host,
    Path,
    Query,
    Fragment,
}

impl Part {
    /// Whether a byte stands for itself when the part is written.
    fn is_plain(self, byte: u8) -> bool {
        let reserved: &[u8] = match self {
            Self::User => b"$&+,;=",
            Self::Host => b"!$&'()*+,;=:[]<>\"",
            Self::Path => b"$&+,/:;=@",
            Self::Query => b"",
            Self::Fragment => b"$&+,/:;=?@!()*",
        };
        byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || reserved.contains(&byte)
    }
}

/// A part without its percent-encoding.
pub(super) fn unescaped(text: &str, part: Part) -> Result<String, Failure> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes().iter();
    while let Some(byte) = bytes.next().copied() {
        match byte {
            b'%' => {
                let rest = bytes.as_slice().get(..2).and_then(crate::value::text::from_hex);
                let Some([decoded]) = rest.as_deref() else { return Err(invalid(text)) };
                // A host may encode only what is not ASCII.
                if part == Part::Host && decoded.is_ascii() && *decoded != b'%' {
                    return Err(invalid(text));
                }
                out.push(*decoded);
                bytes.nth(1);
            }
            b'+' if part == Part::Query => out.push(b' '),
            byte if part == Part::Host && byte.is_ascii() && !part.is_plain(byte) => return Err(invalid(text)),
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).map_err(|_| Failure::text("a part of the URL is not UTF-8 when it is decoded"))
}

fn invalid(text: &str) -> Failure {
    Failure::about(text, "is no valid part of a URL")
}

/// A part in percent-encoding.
pub(super) fn escaped(text: &str, part: Part) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if part.is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Whether a path or fragment is encoded well enough to be left as it is.
pub(super) fn is_escaped(text: &str, part: Part) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || part.is_plain(byte))
}
