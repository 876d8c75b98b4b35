//! Converters from and to encodings: base64, hexadecimal digits, character sets.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use encoding_rs::{Encoding, WINDOWS_1252, WINDOWS_1254};

use super::{Function, Kind, STRING, function, optional, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::text::to_hex;
use crate::value::{Failure, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("Base64Decode", &[required("target", STRING)], |arguments, scene| {
        let text = arguments.text(0, scene)?;
        scene.check_length(2 * text.len())?;
        Ok(Value::text(from_base64(&PADDED, text.as_bytes())?))
    }),
    function("Base64Encode", &[required("target", STRING), optional("variant", STRING)], base64_encode).checked(
        |arguments| match arguments.constant_text(1) {
            Some(variant) if base64_variant(variant).is_none() => Err(format!("\"{variant}\" {NO_VARIANT}")),
            _ => Ok(()),
        },
    ),
    function("Decode", &[required("target", Kind::Any), required("encoding", STRING)], decode).checked(|arguments| {
        match arguments.constant_text(1) {
            Some(name) if charset(name).is_none() => Err(format!("the encoding \"{name}\" is not supported")),
            _ => Ok(()),
        }
    }),
    function("Hex", &[required("target", Kind::Like)], |arguments, scene| {
        let bytes = arguments.value(0, scene)?.into_bytes_like()?.unwrap_or_default();
        // Text that is put together moves to a buffer twice as large as it grows.
        scene.check_length(3 * 2 * bytes.len())?;
        Ok(Value::text(to_hex(&bytes)))
    }),
];

// As Go's `encoding/base64`: bits that are left over at the end may be anything.
const PADDING: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
const NO_PADDING: GeneralPurposeConfig =
    PADDING.with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::RequireNone);
static PADDED: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PADDING);
static RAW: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, NO_PADDING);
static URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, PADDING);
static RAW_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, NO_PADDING);

fn base64_variant(name: &str) -> Option<&'static GeneralPurpose> {
    Some(match name {
        "base64" => &PADDED,
        "base64-raw" => &RAW,
        "base64-url" => &URL,
        "base64-raw-url" => &RAW_URL,
        _ => return None,
    })
}

const NO_VARIANT: &str = "is none of base64, base64-raw, base64-url and base64-raw-url";

fn base64_encode<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let text = arguments.text(0, scene)?;
    let variant = if arguments.has(1) { arguments.text(1, scene)? } else { Cow::Borrowed("base64") };
    let engine = base64_variant(&variant).ok_or_else(|| Failure::about(&variant, NO_VARIANT))?;
    scene.check_length(text.len().div_ceil(3) * 4)?;
    Ok(Value::text(engine.encode(text.as_bytes())))
}

/// The text in base64 digits; line ends between them are passed over.
fn from_base64(engine: &GeneralPurpose, digits: &[u8]) -> Result<String, Failure> {
    let is_line_end = |digit: &u8| matches!(digit, b'\r' | b'\n');
    let decoded = if digits.iter().any(is_line_end) {
        engine.decode(digits.iter().copied().filter(|digit| !is_line_end(digit)).collect::<Vec<u8>>())
    } else {
        engine.decode(digits)
    };
    // The error says which byte it is that does not fit.
    let bytes = decoded.map_err(|_| Failure::new(format!("{} bytes are not base64 of that kind", digits.len())))?;
    // The reference passes on what is no UTF-8, which no receiver of OTLP would take.
    String::from_utf8(bytes).map_err(|_| NOT_TEXT)
}

const NOT_TEXT: Failure = Failure::text("what was decoded is not UTF-8 text");

/// What text is decoded with.
enum Charset {
    Base64(&'static GeneralPurpose),
    /// UTF-8, taken as it is.
    Raw,
    /// ASCII: every other byte stands for the replacement character.
    Ascii,
    /// As the Encoding Standard has it.
    Standard(&'static Encoding),
    /// As in the Encoding Standard, except for the control characters from 0x80 to 0x9f, whose bytes the standard uses
    /// for other characters.
    Iso(&'static Encoding),
}

impl Charset {
    /// What decoding so many bytes takes at most.
    fn most_bytes(&self, encoded: usize) -> usize {
        match self {
            // The digits without line ends, and what they say.
            Self::Base64(_) => 2 * encoded,
            Self::Raw => encoded,
            // A byte becomes a character of at most three bytes, in a buffer that may be twice as large as the text,
            // and is moved from one of that size.
            Self::Ascii | Self::Standard(_) | Self::Iso(_) => 3 * 3 * encoded,
        }
    }
}

/// The charset of a name from the character sets of IANA; the reference gives some names another meaning.
fn charset(name: &str) -> Option<Charset> {
    if let Some(engine) = base64_variant(name) {
        return Some(Charset::Base64(engine));
    }
    Some(match name.to_ascii_lowercase().as_str() {
        "" | "ascii" | "us-ascii" => Charset::Standard(encoding_rs::UTF_8),
        "ansi_x3.4-1968" | "iso-ir-6" | "iso_646.irv:1991" | "iso646-us" | "us" | "ibm367" | "cp367" | "csascii" => {
            Charset::Ascii
        }
        "utf-8-raw" | "utf8-raw" | "nop" => Charset::Raw,
        "utf16" => Charset::Standard(encoding_rs::UTF_16LE),
        "iso-8859-11" | "tis-620" => return None,
        lower => match Encoding::for_label(lower.as_bytes())? {
            encoding if encoding == encoding_rs::REPLACEMENT || encoding == encoding_rs::X_USER_DEFINED => return None,
            // The Encoding Standard has Latin-1 and Latin-5 mean their successors.
            encoding if encoding == WINDOWS_1252 && !lower.contains("1252") => Charset::Iso(encoding),
            encoding if encoding == WINDOWS_1254 && !lower.contains("1254") => Charset::Iso(encoding),
            encoding => Charset::Standard(encoding),
        },
    })
}

fn decode<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    let target = arguments.value(0, scene)?;
    let name = arguments.text(1, scene)?;
    let bytes = match &target {
        Value::String(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        other => return Err(Failure::new(format!("expected a string or bytes but got a {}", other.type_name()))),
    };
    let charset = charset(&name).ok_or_else(|| Failure::about(&name, "is no encoding that is supported"))?;
    scene.check_length(charset.most_bytes(bytes.len()))?;
    Ok(Value::text(match charset {
        Charset::Base64(engine) => from_base64(engine, bytes)?,
        Charset::Raw => std::str::from_utf8(bytes).map_err(|_| NOT_TEXT)?.to_owned(),
        Charset::Ascii => {
            let char = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { char::REPLACEMENT_CHARACTER };
            bytes.iter().map(char).collect()
        }
        Charset::Standard(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
        Charset::Iso(encoding) => iso(encoding, bytes),
    }))
}

fn iso(encoding: &'static Encoding, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for run in bytes.chunk_by(|left, right| is_control(*left) == is_control(*right)) {
        if run.first().copied().is_some_and(is_control) {
            text.extend(run.iter().copied().map(char::from));
        } else {
            text.push_str(&encoding.decode_without_bom_handling(run).0);
        }
    }
    text
}

fn is_control(byte: u8) -> bool {
    (0x80..0xa0).contains(&byte)
}
