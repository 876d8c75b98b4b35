//! The members of a line that is a JSON object.

use std::ops::Range;

use memchr::memchr;

use crate::json::{Lexer, NotJson, unescape};

/// An object with more members is not taken apart: it stays text.
pub const MOST_MEMBERS: usize = 1024;

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
    is_gone: bool,
}

/// A name and a value, as they were written; the name without quotation marks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Member<'t> {
    pub(crate) key: &'t str,
    pub(crate) value: &'t str,
}

impl Members {
    /// Reads a text. Nothing but an object has members; of equal names the last one counts.
    pub(crate) fn read(&mut self, text: &str) -> Result<(), NotJson> {
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
                self.member(&mut lexer)?;
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

    fn member(&mut self, lexer: &mut Lexer<'_>) -> Result<(), NotJson> {
        if self.places.len() == MOST_MEMBERS {
            return Err(NotJson);
        }
        let length = lexer.string()?.len();
        let end = lexer.at() - 1;
        lexer.expect(b':')?;
        lexer.peek();
        let start = lexer.at();
        lexer.value(&mut (), 1)?;
        self.places.push(Place { key: end - length..end, value: start..lexer.at(), is_gone: false });
        Ok(())
    }

    /// Those that count, in the order of the text.
    pub(crate) fn of<'t>(&self, text: &'t str) -> impl Iterator<Item = Member<'t>> {
        let kept = self.places.iter().filter(|place| !place.is_gone);
        kept.map(|place| Member { key: &text[place.key.clone()], value: &text[place.value.clone()] })
    }

    fn forget_repeated(&mut self, text: &str) {
        let Self { places, order } = self;
        let key = |place: &Place| &text[place.key.clone()];
        if places.len() <= FEW {
            for last in 1..places.len() {
                let (before, rest) = places.split_at_mut(last);
                let same = before.iter_mut().filter(|place| is_same(key(place), key(&rest[0])));
                same.for_each(|place| place.is_gone = true);
            }
            return;
        }
        order.clear();
        order.extend(0..places.len());
        order.sort_unstable_by(|a, b| unescape(key(&places[*a])).cmp(&unescape(key(&places[*b]))).then(a.cmp(b)));
        for pair in order.windows(2) {
            if is_same(key(&places[pair[0]]), key(&places[pair[1]])) {
                places[pair[0]].is_gone = true;
            }
        }
    }
}

/// Whether two names mean the same.
fn is_same(a: &str, b: &str) -> bool {
    let has_escapes = |key: &str| memchr(b'\\', key.as_bytes()).is_some();
    if has_escapes(a) || has_escapes(b) { unescape(a) == unescape(b) } else { a == b }
}
