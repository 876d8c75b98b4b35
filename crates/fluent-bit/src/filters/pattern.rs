//! Regular expressions as Fluent Bit reads them: those of Ruby (Onigmo), translated for the `regex` crate, which matches
//! in linear time.
//!
//! What takes more than linear time has no translation and is refused: look-around, backreferences, atomic groups,
//! possessive repetition, calls of groups and conditions. `\d`, `\s`, `\w` and `\h` mean characters of ASCII, and `^` and
//! `$` the ends of lines, as they do in Ruby.

#[cfg(test)]
mod tests;

use std::fmt;
use std::iter::Peekable;
use std::str::Chars;

use regex::{Regex, RegexBuilder};

/// The longest pattern.
const LONGEST: usize = 16 << 10;

/// What a pattern may take when it is compiled.
pub(super) const MOST_COMPILED: usize = 1 << 20;

/// What a pattern may keep of states that it has been in, for each thread that matches.
const MOST_STATES: usize = 256 << 10;

/// Groups in each other.
const DEEPEST: u32 = 64;

/// A compiled pattern.
#[derive(Clone)]
pub(crate) struct Pattern(Regex);

/// A Secret may be part of it.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pattern(***)")
    }
}

impl Pattern {
    /// Compiles a pattern, which may stand between slashes, with options behind them.
    ///
    /// # Errors
    /// Why it is refused, without a word of the pattern.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("is longer than {LONGEST} bytes"));
        }
        let (pattern, options) = take_options(text);
        let translated = Translation::of(pattern)?;
        let has = |option| options.contains(option);
        let mut builder = RegexBuilder::new(&translated);
        builder.multi_line(true).case_insensitive(has('i')).dot_matches_new_line(has('m')).ignore_whitespace(has('x'));
        builder.size_limit(MOST_COMPILED).dfa_size_limit(MOST_STATES).nest_limit(DEEPEST);
        builder.build().map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "is too large when compiled".to_owned(),
            error => {
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("cannot be read: {reason}")
            }
        })
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// `/pattern/` and `/pattern/imx`. What is behind the last slash and is no option belongs to the pattern.
fn take_options(text: &str) -> (&str, &str) {
    let Some((pattern, options)) = text.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')) else {
        return (text, "");
    };
    if options.chars().all(|option| matches!(option, 'i' | 'm' | 'x' | 'o')) { (pattern, options) } else { (text, "") }
}

struct Translation<'p> {
    letters: Peekable<Chars<'p>>,
    out: String,
    /// What was written last repeats something.
    repeats: bool,
    /// For the pattern and each group that is open: what ends with it.
    ends: Vec<String>,
}

const DIGIT: &str = "0-9";
const SPACE: &str = r"\x20\t\r\n\x0B\x0C";
const WORD: &str = "a-zA-Z0-9_";
const HEX: &str = "0-9a-fA-F";

fn refused(what: &str) -> String {
    format!("has {what}, which cannot be matched in linear time")
}

impl<'p> Translation<'p> {
    fn of(pattern: &'p str) -> Result<String, String> {
        let (letters, ends) = (pattern.chars().peekable(), vec![String::new()]);
        let mut translation = Self { letters, out: String::new(), repeats: false, ends };
        while let Some(letter) = translation.letters.next() {
            translation.letter(letter)?;
        }
        translation.out.push_str(&translation.ends[0]);
        Ok(translation.out)
    }

    fn letter(&mut self, letter: char) -> Result<(), String> {
        let repeated = std::mem::take(&mut self.repeats);
        match letter {
            '\\' => self.escape()?,
            '[' => self.class()?,
            '(' => self.group()?,
            ')' => self.end_group(),
            '{' => self.braces()?,
            '+' if repeated => return Err(refused("a possessive repetition")),
            '*' | '+' | '?' => {
                self.out.push(letter);
                self.repeats = true;
            }
            letter => self.out.push(letter),
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let letter = self.letters.next().ok_or("ends with a backslash")?;
        match letter {
            'R' => self.out.push_str(r"(?:\r\n|[\n\x0B\x0C\r\u{85}\u{2028}\u{2029}])"),
            'Z' => self.out.push_str(r"(?:\n?\z)"),
            'A' | 'z' | 'b' | 'B' => self.out.extend(['\\', letter]),
            '1'..='9' | 'k' => return Err(refused("a backreference")),
            'g' => return Err(refused("a call of a group")),
            'G' | 'K' | 'X' | 'c' | 'C' | 'M' => return Err(format!("has \\{letter}, which is not supported")),
            letter => return self.common_escape(letter),
        }
        Ok(())
    }

    /// What means the same within a class and elsewhere.
    fn common_escape(&mut self, letter: char) -> Result<(), String> {
        let (set, is_not) = match letter.to_ascii_lowercase() {
            'd' => (DIGIT, letter == 'D'),
            's' => (SPACE, letter == 'S'),
            'w' => (WORD, letter == 'W'),
            'h' => (HEX, letter == 'H'),
            _ => ("", false),
        };
        if !set.is_empty() {
            self.out.push_str(if is_not { "[^" } else { "[" });
            self.out.push_str(set);
            self.out.push(']');
            return Ok(());
        }
        match letter {
            'e' => self.out.push_str(r"\x1B"),
            '0' if !self.letters.peek().is_some_and(char::is_ascii_digit) => self.out.push_str(r"\x00"),
            '0'..='9' => return Err("has a character in octal, which is not supported".to_owned()),
            'x' => self.hex()?,
            'p' | 'P' | 'u' | 't' | 'n' | 'r' | 'f' | 'v' | 'a' => self.out.extend(['\\', letter]),
            letter if letter.is_ascii_alphanumeric() || matches!(letter, '<' | '>') || !letter.is_ascii() => {
                self.out.push(letter);
            }
            letter => self.out.extend(['\\', letter]),
        }
        Ok(())
    }

    /// A byte: in UTF-8, only those of ASCII are characters.
    fn hex(&mut self) -> Result<(), String> {
        let mut value = 0;
        let mut digits = 0;
        while digits < 2
            && let Some(digit) = self.letters.peek().and_then(|letter| letter.to_digit(16))
        {
            value = value * 16 + digit;
            digits += 1;
            self.letters.next();
        }
        if digits == 0 || value >= 0x80 {
            return Err("has a byte that is not a character of ASCII, which is not supported".to_owned());
        }
        self.out.push_str(&format!("\\x{{{value:x}}}"));
        Ok(())
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        self.ends.push(String::new());
        if self.letters.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.out.push('?');
        match self.letters.next().ok_or("ends within a group")? {
            ':' => self.out.push(':'),
            '=' | '!' => return Err(refused("a look-ahead")),
            '>' => return Err(refused("an atomic group")),
            '~' => return Err(refused("an absent operator")),
            '(' => return Err(refused("a condition")),
            '<' if matches!(self.letters.peek(), Some('=' | '!')) => return Err(refused("a look-behind")),
            '<' => self.name('>'),
            '\'' => self.name('\''),
            '#' => self.comment(),
            letter => self.options(letter)?,
        }
        Ok(())
    }

    fn name(&mut self, end: char) {
        self.out.push('<');
        self.out.extend(self.letters.by_ref().take_while(|letter| *letter != end));
        self.out.push('>');
    }

    fn comment(&mut self) {
        self.out.truncate(self.out.len() - 2);
        self.ends.pop();
        self.letters.by_ref().find(|letter| *letter == ')');
    }

    /// `(?i:a)`, or `(?i)`, which is a group up to the end of the one that it is in: `a(?i)b|c` is `a(?i:b|c)`.
    fn options(&mut self, first: char) -> Result<(), String> {
        let mut next = Some(first).filter(|first| *first != ')');
        let start = self.out.len();
        while let Some(letter) = next {
            match letter {
                'i' | 'x' | '-' => self.out.push(letter),
                // There, it means that a dot is any character.
                'm' => self.out.push('s'),
                ':' => {
                    self.out.push(':');
                    return Ok(());
                }
                ')' => {
                    // A comment goes on to the end of its line.
                    let end = if self.out[start..].contains('x') { "\n)" } else { ")" };
                    self.out.push(':');
                    self.ends.pop();
                    if let Some(ends) = self.ends.last_mut() {
                        ends.insert_str(0, end);
                    }
                    return Ok(());
                }
                _ => break,
            }
            next = self.letters.next();
        }
        Err("has an option or a kind of group that is not supported".to_owned())
    }

    fn end_group(&mut self) {
        if self.ends.len() > 1
            && let Some(ends) = self.ends.pop()
        {
            self.out.push_str(&ends);
        }
        self.out.push(')');
    }

    /// `{2,3}` repeats; other braces are characters.
    fn braces(&mut self) -> Result<(), String> {
        let counts = |letter: &char| letter.is_ascii_digit() || *letter == ',';
        let inside: String = self.letters.clone().take_while(counts).collect();
        let (least, most) = inside.split_once(',').unwrap_or((&inside, "0"));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let mut behind = self.letters.clone().skip(inside.len());
        let is_closed = behind.next() == Some('}');
        let counts = is_closed && is_number(least) && is_number(most) && !(least.is_empty() && most.is_empty());
        if !counts || inside.is_empty() {
            self.out.push_str("\\{");
            return Ok(());
        }
        if !inside.contains(',') && behind.next() == Some('?') {
            return Err("has a repetition that is optional, which is not supported".to_owned());
        }
        self.out.push_str(if least.is_empty() { "{0" } else { "{" });
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        let mut depth = 1;
        let mut is_start = true;
        while depth > 0 {
            let letter = self.letters.next().ok_or("has a class of characters that does not end")?;
            let was_start = std::mem::replace(&mut is_start, false);
            match letter {
                '^' if was_start => {
                    self.out.push('^');
                    is_start = true;
                }
                ']' if was_start => self.out.push_str("\\]"),
                ']' => {
                    self.out.push(']');
                    depth -= 1;
                }
                '[' if self.letters.peek() == Some(&':') => self.named_class(),
                '[' => {
                    self.out.push('[');
                    (depth, is_start) = (depth + 1, true);
                }
                '\\' => match self.letters.next().ok_or("ends with a backslash")? {
                    'b' => self.out.push_str(r"\x08"),
                    letter @ ('R' | 'X' | 'c' | 'C' | 'M') => {
                        return Err(format!("has a class with \\{letter}, which is not supported"));
                    }
                    letter => self.common_escape(letter)?,
                },
                // They say nothing where white space is ignored.
                ' ' | '\t' | '\n' | '#' => self.out.push_str(&format!("\\x{:02X}", u32::from(letter))),
                // Two of them would be an operation on sets.
                '~' => self.out.push_str("\\~"),
                '-' if self.letters.peek() == Some(&'-') => self.out.push_str("\\-"),
                letter => self.out.push(letter),
            }
        }
        Ok(())
    }

    /// `[:alpha:]`, or a class in a class that begins with a colon.
    fn named_class(&mut self) {
        self.out.push('[');
        let name: String = self.letters.clone().skip(1).take_while(|letter| *letter != ':').collect();
        let end: String = self.letters.clone().skip(name.chars().count() + 1).take(2).collect();
        if end != ":]" {
            return;
        }
        self.out.extend(self.letters.by_ref().take(name.chars().count() + 3));
    }
}
