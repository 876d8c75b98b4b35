//! The members of a line that is a JSON object.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr;

use crate::json::{Lexer, NotJson, unescape};

/// An object with more members is not taken apart: it stays text.
pub const MOST_MEMBERS: usize = 1024;

/// A record has no more fields than these when filters are done with it.
pub(crate) const MOST_FIELDS: usize = 2 * MOST_MEMBERS;

/// Names are compared each with each as long as there are no more.
const FEW: usize = 24;

/// Where the members of an object are in its text. The memory is used again for the next text.
#[derive(Debug, Default)]
pub(crate) struct Members {
    places: Vec<Place>,
    /// To find equal names among many.
    order: Vec<usize>,
}

#[derive(Debug)]
struct Place {
    /// Without quotation marks.
    key: Range<usize>,
    value: Range<usize>,
    /// The key has escapes.
    is_escaped: bool,
    is_gone: bool,
}

impl Place {
    fn name<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let key = &text[self.key.clone()];
        if self.is_escaped { unescape(key) } else { Cow::Borrowed(key) }
    }

    /// Names without a bit in common are different.
    fn mark(&self, text: &str) -> u128 {
        // An escaped name may be any other.
        if self.is_escaped {
            return u128::MAX;
        }
        let key = &text.as_bytes()[self.key.clone()];
        let (Some(first), Some(last)) = (key.first(), key.last()) else { return 1 };
        let mixed =
            key.len().wrapping_mul(67) ^ usize::from(*first).wrapping_mul(29) ^ usize::from(*last).wrapping_mul(11);
        1 << (mixed % 128)
    }

    /// Whether two names mean the same.
    fn is_same(&self, other: &Self, text: &str) -> bool {
        let may_be = self.is_escaped || other.is_escaped || self.key.len() == other.key.len();
        may_be && self.name(text) == other.name(text)
    }
}

/// A name and a value, as they were written; the name without quotation marks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'t> {
    pub(crate) key: &'t str,
    pub(crate) value: &'t str,
    is_escaped: bool,
}

impl<'t> Member<'t> {
    /// What the name means.
    pub(crate) fn name(&self) -> Cow<'t, str> {
        if self.is_escaped { unescape(self.key) } else { Cow::Borrowed(self.key) }
    }
}

impl Members {
    /// Reads a text. Nothing but an object has members, and no more than `most`; of equal names the last one counts.
    pub(crate) fn read(&mut self, text: &str, most: usize) -> Result<(), NotJson> {
        self.places.clear();
        // A line feed between members would end a record in formats of lines.
        let is_line = memchr(b'\n', text.as_bytes()).is_none();
        if !is_line || !text.starts_with('{') || !text.ends_with('}') {
            return Err(NotJson);
        }
        let mut lexer = Lexer::new(text);
        lexer.expect(b'{')?;
        if !lexer.take(b'}') {
            loop {
                self.member(&mut lexer, most)?;
                if lexer.take(b'}') {
                    break;
                }
                lexer.expect(b',')?;
            }
        }
        if lexer.peek().is_some() {
            return Err(NotJson);
        }
        self.forget_repeated(text);
        Ok(())
    }

    fn member(&mut self, lexer: &mut Lexer<'_>, most: usize) -> Result<(), NotJson> {
        if self.places.len() == most {
            return Err(NotJson);
        }
        let key = lexer.string()?;
        let (end, is_escaped) = (lexer.at() - 1, memchr(b'\\', key.as_bytes()).is_some());
        lexer.expect(b':')?;
        lexer.peek();
        let start = lexer.at();
        lexer.value(&mut (), 1)?;
        self.places.push(Place { key: end - key.len()..end, value: start..lexer.at(), is_escaped, is_gone: false });
        Ok(())
    }

    /// Those that count, in the order of the text.
    pub(crate) fn of<'t>(&self, text: &'t str) -> impl Iterator<Item = Member<'t>> {
        let kept = self.places.iter().filter(|place| !place.is_gone);
        kept.map(|place| Member {
            key: &text[place.key.clone()],
            value: &text[place.value.clone()],
            is_escaped: place.is_escaped,
        })
    }

    fn forget_repeated(&mut self, text: &str) {
        let Self { places, order } = self;
        if places.len() <= FEW {
            let mut seen = 0;
            for last in 1..places.len() {
                let (before, rest) = places.split_at_mut(last);
                seen |= before[last - 1].mark(text);
                // Nearly always no name before may be the same.
                if seen & rest[0].mark(text) != 0 {
                    before
                        .iter_mut()
                        .filter(|place| place.is_same(&rest[0], text))
                        .for_each(|place| place.is_gone = true);
                }
            }
            return;
        }
        order.clear();
        order.extend(0..places.len());
        order.sort_unstable_by(|a, b| places[*a].name(text).cmp(&places[*b].name(text)).then(a.cmp(b)));
        for pair in order.windows(2) {
            if places[pair[0]].is_same(&places[pair[1]], text) {
                places[pair[0]].is_gone = true;
            }
        }
    }
}
