//! Patterns in Go's syntax to patterns of the `regex` crate.
//!
//! Source of the rules: the documentation and the behaviour of Go's `regexp/syntax`. Where both engines say the same in
//! different words, the translation uses words that need no context: `^` becomes `\A` or `(?m:^)`, and of Go's flags
//! only the one for case stays.

use crate::Error;
use crate::class::{self, push_literal};
use crate::escape;

/// The most copies that repetitions make of what they repeat.
const MAX_COPIES: u32 = 1000;

/// A pattern of the `regex` crate.
pub(crate) struct Translation {
    pub(crate) pattern: String,
    /// Names of the groups by number, which the pattern itself does not have: that crate wants them to be different.
    pub(crate) groups: Vec<String>,
}

pub(crate) fn translate(source: &str, max_nesting: usize) -> Result<Translation, Error> {
    let mut translator = Translator {
        rest: source,
        out: String::with_capacity(source.len() + 16),
        groups: vec![String::new()],
        flags: Flags::default(),
        folds: false,
        around: Vec::new(),
        last: None,
        copies: 1,
        max_nesting,
    };
    let mut after_repetition = false;
    while let Some(char) = translator.rest.chars().next() {
        after_repetition = translator.token(char, after_repetition)?;
    }
    match translator.around.is_empty() {
        true => Ok(Translation { pattern: translator.out, groups: translator.groups }),
        false => Err(Error::invalid("a group lacks its closing parenthesis")),
    }
}

/// What the flags `i`, `m`, `s` and `U` say.
#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_matches_all: bool,
    lazy: bool,
}

struct Translator<'s> {
    rest: &'s str,
    out: String,
    groups: Vec<String>,
    flags: Flags,
    /// Whether `out` ignores case at its end. It follows the flag only when something is written for which that
    /// matters: a repetition behind flags repeats what stands before them.
    folds: bool,
    around: Vec<Group>,
    /// What a repetition would repeat.
    last: Option<Piece>,
    /// Most copies that repetitions make of anything in the group before that.
    copies: u32,
    max_nesting: usize,
}

/// How it was where a group began.
struct Group {
    start: usize,
    flags: Flags,
    folds: bool,
    copies: u32,
}

/// Something that can be repeated.
struct Piece {
    /// Where it starts in what was written.
    start: usize,
    /// Most copies that repetitions make of anything in it.
    copies: u32,
    is_repetition: bool,
}

impl<'s> Translator<'s> {
    /// Translates what comes next. Returns whether it was a repetition.
    fn token(&mut self, char: char, after_repetition: bool) -> Result<bool, Error> {
        match char {
            '(' => self.open()?,
            ')' => self.close()?,
            '|' => {
                self.out.push('|');
                self.next(None);
                self.take(1);
            }
            '^' => self.piece(if self.flags.multi_line { "(?m:^)" } else { "\\A" }, 1),
            '$' => self.piece(if self.flags.multi_line { "(?m:$)" } else { "\\z" }, 1),
            '.' => self.piece(if self.flags.dot_matches_all { "(?s:.)" } else { "." }, 1),
            '[' => {
                let (class, length) = class::class(self.rest)?;
                self.piece(&class, length);
            }
            '\\' => self.escape()?,
            '*' | '+' | '?' => {
                self.repeat(1, 1, after_repetition)?;
                return Ok(true);
            }
            '{' => {
                if let Some(counted) = Counted::at(self.rest)? {
                    self.repeat(counted.length, counted.copies, after_repetition)?;
                    return Ok(true);
                }
                self.literal(u32::from(char), 1);
            }
            char => self.literal(u32::from(char), char.len_utf8()),
        }
        Ok(false)
    }

    fn take(&mut self, length: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Writes the translation of so many bytes of the source.
    fn piece(&mut self, text: &str, length: usize) {
        self.take(length);
        self.start_piece();
        self.out.push_str(text);
    }

    fn literal(&mut self, code: u32, length: usize) {
        self.take(length);
        self.start_piece();
        push_literal(&mut self.out, code);
    }

    fn start_piece(&mut self) {
        if self.folds != self.flags.fold_case {
            self.folds = self.flags.fold_case;
            self.out.push_str(if self.folds { "(?i)" } else { "(?-i)" });
        }
        self.next(Some(Piece { start: self.out.len(), copies: 1, is_repetition: false }));
    }

    /// From now on nothing repeats what a repetition could have repeated so far.
    fn next(&mut self, piece: Option<Piece>) {
        let done = std::mem::replace(&mut self.last, piece);
        self.copies = self.copies.max(done.map_or(1, |piece| piece.copies));
    }

    fn escape(&mut self) -> Result<(), Error> {
        match self.rest.as_bytes().get(1) {
            Some(b'A') => self.piece("\\A", 2),
            Some(b'z') => self.piece("\\z", 2),
            Some(b'b') => self.piece("(?-u:\\b)", 2),
            Some(b'B') => self.piece("(?-u:\\B)", 2),
            Some(b'Q') => self.quoted(),
            _ => match escape::class(self.rest)? {
                Some((class, length)) => self.piece(&class, length),
                None => {
                    let (code, length) = escape::character(self.rest)?;
                    self.literal(code, length);
                }
            },
        }
        Ok(())
    }

    /// `\Q...\E`; the end may be missing.
    fn quoted(&mut self) {
        self.take(2);
        let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
        quoted.chars().for_each(|char| self.literal(u32::from(char), char.len_utf8()));
        self.rest = rest;
    }

    fn open(&mut self) -> Result<(), Error> {
        let name = match self.rest.strip_prefix("(?") {
            None => {
                self.take(1);
                ""
            }
            Some(after) => match after.strip_prefix("P<").or_else(|| after.strip_prefix('<')) {
                Some(after) => self.name(after)?,
                None => return self.flags(),
            },
        };
        self.groups.push(name.to_owned());
        self.group("(")
    }

    /// The name of a group; everything up to its end is taken.
    fn name(&mut self, text: &'s str) -> Result<&'s str, Error> {
        let is_of_name = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '.');
        if text.starts_with(['=', '!']) {
            return Err(Error::invalid("looking behind, as with \"(?<=\", is not supported"));
        }
        let Some((name, rest)) = text.split_once('>') else {
            return Err(Error::invalid(format!("the name of the group \"{}\" has no end", self.rest)));
        };
        if name.is_empty() || !name.chars().all(is_of_name) {
            let reason = "is no name of a group: letters, digits and underscores";
            return Err(Error::invalid(format!("\"{name}\" {reason}")));
        }
        self.rest = rest;
        Ok(name)
    }

    fn group(&mut self, text: &str) -> Result<(), Error> {
        if self.around.len() == self.max_nesting {
            return Err(Error::invalid(format!("groups stand in each other more than {} deep", self.max_nesting)));
        }
        self.next(None);
        let Self { flags, folds, copies, .. } = *self;
        self.around.push(Group { start: self.out.len(), flags, folds, copies });
        self.copies = 1;
        self.out.push_str(text);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(group) = self.around.pop() else {
            return Err(Error::invalid("a closing parenthesis has no group to close"));
        };
        self.take(1);
        self.out.push(')');
        self.next(None);
        self.last = Some(Piece { start: group.start, copies: self.copies, is_repetition: false });
        (self.flags, self.folds, self.copies) = (group.flags, group.folds, group.copies);
        Ok(())
    }

    /// `(?i)` or `(?i:`
    fn flags(&mut self) -> Result<(), Error> {
        let mut flags = self.flags;
        let (mut value, mut any) = (true, false);
        for (index, char) in self.rest.char_indices().skip(2) {
            let flag = match char {
                'i' => &mut flags.fold_case,
                'm' => &mut flags.multi_line,
                's' => &mut flags.dot_matches_all,
                'U' => &mut flags.lazy,
                '-' if value => {
                    (value, any) = (false, false);
                    continue;
                }
                ':' | ')' if value || any => {
                    self.take(index + 1);
                    if char == ':' {
                        self.group("(?:")?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                '=' | '!' => return Err(Error::invalid("looking ahead, as with \"(?=\", is not supported")),
                _ => {
                    let start = &self.rest[..index + char.len_utf8()];
                    return Err(Error::invalid(format!("\"{start}\" starts no group; the flags are i, m, s and U")));
                }
            };
            (*flag, any) = (value, true);
        }
        Err(Error::invalid(format!("the group \"{}\" has no end", self.rest)))
    }

    /// A repetition of so many bytes, that makes so many copies.
    fn repeat(&mut self, length: usize, copies: u32, after_repetition: bool) -> Result<(), Error> {
        let operator = self.take(length);
        let marked = self.rest.starts_with('?');
        self.take(usize::from(marked));
        if after_repetition {
            let reason = "repeats a repetition; put what is before it into a group";
            return Err(Error::invalid(format!("\"{operator}\" {reason}")));
        }
        let Some(piece) = &mut self.last else {
            return Err(Error::invalid(format!("there is nothing before \"{operator}\" that it could repeat")));
        };
        piece.copies = if copies == 0 { 1 } else { piece.copies * copies };
        if piece.copies > MAX_COPIES {
            let reason = "with the repetitions inside";
            return Err(Error::invalid(format!("\"{operator}\" makes more than {MAX_COPIES} copies {reason}")));
        }
        if std::mem::replace(&mut piece.is_repetition, true) {
            self.out.insert_str(piece.start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(operator);
        if marked != self.flags.lazy {
            self.out.push('?');
        }
        Ok(())
    }
}

/// A repetition like `{2,3}`.
struct Counted {
    length: usize,
    /// How many copies it makes of what it repeats.
    copies: u32,
}

impl Counted {
    /// What a text starts with, if that is a repetition: a brace that starts none stands for itself.
    fn at(text: &str) -> Result<Option<Self>, Error> {
        let length = text[1..].find(|char: char| !char.is_ascii_digit() && char != ',').unwrap_or_default();
        let (inner, rest) = text[1..].split_at(length);
        if !rest.starts_with('}') {
            return Ok(None);
        }
        let (least, most) = match inner.split_once(',') {
            Some((least, "")) => (least, None),
            Some((least, most)) => (least, Some(most)),
            None => (inner, Some(inner)),
        };
        if !is_count(least) || !most.is_none_or(is_count) {
            return Ok(None);
        }
        let whole = &text[..inner.len() + 2];
        let count = |digits: &str| digits.parse::<u32>().ok().filter(|count| *count <= MAX_COPIES);
        let too_many = || Error::invalid(format!("\"{whole}\" asks for more than {MAX_COPIES} repetitions"));
        let least = count(least).ok_or_else(too_many)?;
        let most = most.map(|most| count(most).ok_or_else(too_many)).transpose()?;
        if most.is_some_and(|most| most < least) {
            return Err(Error::invalid(format!("\"{whole}\" asks for at most less than at least")));
        }
        // One without an upper limit repeats its last copy.
        let copies = most.unwrap_or(least.max(1));
        Ok(Some(Self { length: whole.len(), copies }))
    }
}

/// Whether a text is a number without leading zeros.
fn is_count(text: &str) -> bool {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number && (text == "0" || !text.starts_with('0'))
}
