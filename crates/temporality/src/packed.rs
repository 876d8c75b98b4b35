//! Numbers as varints, one after the other. A list of small counts takes no more memory than on the wire, and a request
//! no more than its own size, whatever it holds.

use std::fmt;

use weir_otlp::build::Encoder;
use weir_otlp::cursor::Cursor;

/// Numbers that are read in order.
#[derive(Clone, PartialEq, Default)]
pub(crate) struct Packed(Box<[u8]>);

impl Packed {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let mut cursor = Cursor::new(&self.0);
        std::iter::from_fn(move || cursor.varint().ok())
    }

    /// How many they are: each has one byte without the bit that says there are more.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().filter(|byte| **byte < 0x80).count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes, as a packed repeated field has them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Encoder> for Packed {
    /// Takes what was written with [`Encoder::element`].
    fn from(elements: Encoder) -> Self {
        Self(elements.into_bytes().into())
    }
}

impl FromIterator<u64> for Packed {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        let mut elements = Encoder::default();
        numbers.into_iter().for_each(|number| elements.element(number));
        elements.into()
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
