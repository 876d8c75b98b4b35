//! zstd: reads from the heads of frames how large a body can become, and inflates it in one step into room that was
//! paid for.

use std::io;

use zstd::zstd_safe;

use super::inflate::{InflateError, InflateLimits, RATIO_APPLIES_FROM, check};
use crate::budget::Permit;

/// zstd frames may ask their reader for a window this large (what RFC 8878 tells every reader to support).
const ZSTD_WINDOW: usize = 8 << 20;

/// A block of a zstd frame becomes no more than this.
pub(super) const ZSTD_BLOCK_BYTES: usize = 128 * 1024;

/// zstd decodes into the buffer of the result, so that there is no window beside it.
pub(super) fn inflate_zstd(body: &[u8], limits: InflateLimits, permit: &mut Permit) -> Result<Vec<u8>, InflateError> {
    let Frames { window, most } = Frames::of(body).map_err(InflateError::Corrupt)?;
    if window > ZSTD_WINDOW {
        let problem = format!("a zstd window of {window} bytes, the limit is {ZSTD_WINDOW}");
        return Err(InflateError::Corrupt(io::Error::new(io::ErrorKind::InvalidData, problem)));
    }
    let densest = body.len().saturating_mul(limits.ratio).max(RATIO_APPLIES_FROM);
    let room = most.min(limits.bytes).min(densest);
    if !permit.grow(room) {
        return Err(InflateError::NoMemory);
    }
    let mut out = Vec::with_capacity(room);
    match zstd_safe::DCtx::create().decompress(&mut out, body) {
        Ok(_) => Ok(out),
        Err(code) if room < most && is_too_long(code) => {
            check(room + 1, body.len(), limits)?;
            Err(InflateError::TooDense { limit: limits.ratio })
        }
        Err(code) => Err(InflateError::Corrupt(zstd_error(code))),
    }
}

fn zstd_error(code: zstd_safe::ErrorCode) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code))
}

/// Whether there was not enough room for the result.
fn is_too_long(code: zstd_safe::ErrorCode) -> bool {
    zstd_safe::get_error_name(code) == "Destination buffer is too small"
}

/// What the frames of a zstd body say of themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frames {
    /// The largest window that one of them wants.
    pub(super) window: usize,
    /// Most bytes that they become together.
    pub(super) most: usize,
}

impl Frames {
    /// Looks at the head of each frame, and of its blocks where it does not say its size.
    pub(super) fn of(body: &[u8]) -> io::Result<Self> {
        let (mut window, mut most, mut rest) = (0, 0usize, body);
        while !rest.is_empty() {
            let length = zstd_safe::find_frame_compressed_size(rest).map_err(zstd_error)?;
            let (frame, later) = rest.split_at(length.min(rest.len()));
            if !is_skippable(frame) {
                let size = zstd_safe::get_frame_content_size(frame).ok().flatten().map(saturated);
                window = window.max(zstd_window(frame, size));
                most = most.saturating_add(size.unwrap_or_else(|| most_in_blocks(frame)));
            }
            rest = later;
        }
        Ok(Self { window, most })
    }
}

/// RFC 8878 3.1.2: a frame that yields nothing begins with one of sixteen numbers.
fn is_skippable(frame: &[u8]) -> bool {
    matches!(frame, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// The window that a frame of this size wants, if it says its size (RFC 8878 3.1.1.1).
fn zstd_window(frame: &[u8], size: Option<usize>) -> usize {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    match frame {
        [_, _, _, _, descriptor, window, ..] if descriptor & SINGLE_SEGMENT == 0 => {
            let base = 1u64 << (10 + (window >> 3));
            let window = saturated(base + base / 8 * u64::from(window & 7));
            size.map_or(window, |size| size.min(window))
        }
        _ => size.unwrap_or(usize::MAX),
    }
}

/// The most bytes that the blocks of a frame without a declared size can yield (RFC 8878 3.1.1.2).
fn most_in_blocks(frame: &[u8]) -> usize {
    const COMPRESSED: usize = 2;
    const REPEATED: usize = 1;
    // Magic number, descriptor, window, dictionary: without a size there always is a window.
    let dictionary = frame.get(4).map_or(0, |descriptor| [0, 1, 2, 4][usize::from(descriptor & 3)]);
    let (mut most, mut at) = (0usize, 6 + dictionary);
    while let Some([low, middle, high]) = frame.get(at..).and_then(|rest| rest.first_chunk()) {
        let header = u32::from_le_bytes([*low, *middle, *high, 0]) as usize;
        let (is_last, kind, size) = (header & 1 == 1, header >> 1 & 3, header >> 3);
        most = most.saturating_add(if kind == COMPRESSED { ZSTD_BLOCK_BYTES } else { size });
        at += 3 + if kind == REPEATED { 1 } else { size };
        if is_last {
            break;
        }
    }
    most
}

fn saturated(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
