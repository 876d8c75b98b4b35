//! The frames that one side of a connection sends (RFC 9113), and which of their bytes are fields.

/// What a client of HTTP/2 says first (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What is before the payload of a frame.
const FRAME_HEAD_BYTES: usize = 9;
/// Types of frames, and flags (RFC 9113 6.1, 6.2, 6.10).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
/// What a priority takes before the fields.
const PRIORITY_BYTES: usize = 5;

/// The frames of one side, as far as they were read.
#[derive(Debug)]
pub(crate) struct Frames {
    place: Place,
    /// The payload of the frame.
    length: usize,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Fragment<'a> {
    /// Nothing of a head.
    Other,
    /// A frame of a body begins, with so many bytes. The last frame ends the body.
    Data { length: usize, is_last: bool },
    /// A frame of a head begins, of this stream. The last frame ends the head.
    Begins { stream: u32, is_last: bool },
    /// So many bytes of such a frame, and those of them that belong to fields.
    Head { length: usize, fields: &'a [u8] },
    /// A head has ended.
    Ends,
}

/// Where in what was said the next byte is.
#[derive(Debug)]
enum Place {
    /// So many bytes of a client's preface have come, all as HTTP/2 demands.
    Preface(usize),
    /// Before the first byte of a server.
    Greeting,
    /// In the head of a frame, of which so many bytes have come.
    Frame([u8; FRAME_HEAD_BYTES], usize),
    /// In a frame that has so many bytes more and is no head.
    Payload(usize),
    /// In a frame of a head.
    Head(Head),
    /// In another protocol.
    Elsewhere,
}

/// A frame with a head, or a part of one.
#[derive(Debug, Clone, Copy)]
struct Head {
    left: usize,
    /// The next byte says how much of the end is padding.
    is_padded: bool,
    /// Before the fields.
    skipped: usize,
    padding: usize,
    is_last: bool,
}

impl Frames {
    pub(crate) fn of_client() -> Self {
        Self { place: Place::Preface(0), length: 0 }
    }

    pub(crate) fn of_server() -> Self {
        Self { place: Place::Greeting, length: 0 }
    }

    /// Takes some of `bytes`; `None` when they tell nothing more.
    pub(crate) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Fragment<'a>> {
        if let Place::Head(Head { left: 0, is_last, .. }) = self.place {
            self.place = payload(0);
            return Some(if is_last { Fragment::Ends } else { Fragment::Other });
        }
        let first = *bytes.first()?;
        let (mut step, mut fragment) = (1, Fragment::Other);
        match &mut self.place {
            Place::Preface(at) if PREFACE[*at] != first => self.place = Place::Elsewhere,
            Place::Preface(at) if *at + 1 == PREFACE.len() => self.place = payload(0),
            Place::Preface(at) => *at += 1,
            // A frame of settings is short; another protocol begins with a letter.
            Place::Greeting if first == 0 => self.place = Place::Frame([0; FRAME_HEAD_BYTES], 1),
            Place::Greeting => self.place = Place::Elsewhere,
            Place::Frame(head, at) => {
                head[*at] = first;
                *at += 1;
                if *at == FRAME_HEAD_BYTES {
                    let head = *head;
                    fragment = self.enter(head);
                }
            }
            Place::Payload(left) => {
                step = (*left).min(bytes.len());
                self.place = payload(*left - step);
            }
            Place::Head(head) => {
                let (length, fields) = head.read(bytes);
                step = length;
                fragment = Fragment::Head { length, fields };
            }
            Place::Elsewhere => step = bytes.len(),
        }
        *bytes = &bytes[step..];
        Some(fragment)
    }

    /// Bytes that are here of a frame that is not complete.
    pub(crate) fn held(&self) -> usize {
        match self.place {
            Place::Frame(_, at) => at,
            Place::Payload(left) | Place::Head(Head { left, .. }) => FRAME_HEAD_BYTES + self.length - left,
            Place::Preface(_) | Place::Greeting | Place::Elsewhere => 0,
        }
    }

    /// Goes on after the head of a frame.
    fn enter(&mut self, head: [u8; FRAME_HEAD_BYTES]) -> Fragment<'static> {
        let [high, middle, low, kind, flags, stream @ ..] = head;
        self.length = u32::from_be_bytes([0, high, middle, low]) as usize;
        if kind != HEADERS && kind != CONTINUATION {
            self.place = payload(self.length);
            let data = Fragment::Data { length: self.length, is_last: flags & END_STREAM != 0 };
            return if kind == DATA { data } else { Fragment::Other };
        }
        let has = |flag| kind == HEADERS && flags & flag != 0;
        let skipped = if has(PRIORITY) { PRIORITY_BYTES } else { 0 };
        let is_last = flags & END_HEADERS != 0;
        self.place = Place::Head(Head { left: self.length, is_padded: has(PADDED), skipped, padding: 0, is_last });
        // The first bit means nothing.
        Fragment::Begins { stream: u32::from_be_bytes(stream) & (u32::MAX >> 1), is_last }
    }
}

impl Head {
    /// Reads some bytes. Returns how many, and those of them that belong to fields.
    fn read<'a>(&mut self, bytes: &'a [u8]) -> (usize, &'a [u8]) {
        let unpadded = self.left.saturating_sub(self.padding);
        let mut fields: &[u8] = &[];
        let step = if self.is_padded {
            (self.is_padded, self.padding) = (false, usize::from(bytes[0]));
            1
        } else if self.skipped > 0 {
            let step = self.skipped.min(self.left).min(bytes.len());
            self.skipped -= step;
            step
        } else if unpadded > 0 {
            fields = &bytes[..unpadded.min(bytes.len())];
            fields.len()
        } else {
            self.left.min(bytes.len())
        };
        self.left -= step;
        (step, fields)
    }
}

fn payload(left: usize) -> Place {
    if left > 0 { Place::Payload(left) } else { Place::Frame([0; FRAME_HEAD_BYTES], 0) }
}
