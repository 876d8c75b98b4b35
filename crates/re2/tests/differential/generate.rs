//! Patterns that are likely to mean different things to different engines, and texts that they may match.

use fastrand::Rng;

/// What both sides are asked.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) pattern: String,
    pub(crate) texts: Vec<String>,
    pub(crate) template: String,
}

/// Characters of patterns and texts: some of them are one letter but for case, `k` and `s` with three forms each.
const CHARS: [&str; 24] = [
    "a", "b", "A", "B", "k", "K", "\u{212a}", "s", "\u{17f}", "0", "9", "_", "-", ".", " ", "\n", "\t", "é", "α", "Ω",
    "ς", "٤", "²", "!",
];
const ESCAPES: [&str; 40] = [
    r"\d",
    r"\D",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    r"\pL",
    r"\PL",
    r"\pN",
    r"\n",
    r"\t",
    r"\v",
    r"\a",
    r"\.",
    r"\-",
    r"\]",
    r"\[",
    r"\^",
    r"\_",
    r"\<",
    r"\x41",
    r"\x{3b1}",
    r"\x{}",
    r"\x4",
    r"\x{D800}",
    r"\x{110000}",
    r"\101",
    r"\0",
    r"\08",
    r"\1",
    r"\8",
    r"\u{41}",
    r"\z",
    r"\Z",
    r"\A",
    r"\b",
    r"\B",
    r"\C",
    r"\q",
    r"\é",
];
const UNICODE: [&str; 36] = [
    "L",
    "Lu",
    "Ll",
    "lu",
    "N",
    "Nd",
    "P",
    "S",
    "Z",
    "C",
    "Cc",
    "Cn",
    "Cs",
    "Greek",
    "greek",
    "Latin",
    "G-r_e ek",
    "^Greek",
    "^Lu",
    "Common",
    "Inherited",
    "Any",
    "Assigned",
    "ASCII",
    "Letter",
    "uppercase_letter",
    "LC",
    "Cased_Letter",
    "cntrl",
    "digit",
    "punct",
    "Grek",
    "Alphabetic",
    "IsGreek",
    "sc=Greek",
    "",
];
const NAMED: [&str; 12] =
    ["alnum", "alpha", "ascii", "^alpha", "blank", "cntrl", "^digit", "punct", "space", "word", "^word", "foo"];
const REPETITIONS: [&str; 20] = [
    "*", "+", "?", "*?", "+?", "??", "{0}", "{1}", "{2}", "{2,}", "{0,}", "{0,3}", "{1,2}?", "{3,2}", "{1001}", "{01}",
    "{,2}", "{2", "{30}", "{40,}",
];
const FLAGS: [&str; 24] = [
    "i", "i", "i", "i", "i", "m", "m", "s", "s", "U", "U", "im", "i-s", "s-i", "-i", "-i", "-i", "-im", "ii", "i-i",
    "", "i-", "x", "i--s",
];
const NAMES: [&str; 10] = ["n", "n", "m", "1n", "n_1", "a-b", "", "é", "N", "n]"];
const TEMPLATES: [&str; 24] = [
    "$0",
    "$1",
    "$2",
    "${1}",
    "${2}",
    "$1x",
    "$n",
    "${n}",
    "$m",
    "${1n}",
    "$$",
    "$",
    "${",
    "${n",
    "$-",
    "$01",
    "$10",
    "$é",
    "$1²",
    "$n٤",
    "x",
    "{",
    "-",
    "$999999999999999999999",
];

/// What patterns are damaged with.
const SYNTAX: &[u8] = b"()[]{}*+?|^$\\-:<>,01aP";

/// A pattern, texts and a template.
pub(crate) fn question(rng: &mut Rng) -> Question {
    let mut generator = Generator { rng };
    let mut pattern = generator.alternatives(3);
    if generator.one_in(8) {
        pattern = generator.damaged(&pattern);
    }
    let texts = (0..5).map(|_| generator.text(&pattern)).collect();
    let template = generator.some(&TEMPLATES, 1..4);
    Question { pattern, texts, template }
}

struct Generator<'r> {
    rng: &'r mut Rng,
}

impl Generator<'_> {
    fn one_in(&mut self, times: u8) -> bool {
        self.rng.u8(..times) == 0
    }

    fn pick<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices[self.rng.usize(..choices.len())]
    }

    /// Some of the choices, one after the other.
    fn some(&mut self, choices: &[&str], count: std::ops::Range<usize>) -> String {
        (0..self.rng.usize(count)).map(|_| self.pick(choices)).collect()
    }

    fn alternatives(&mut self, depth: u32) -> String {
        let count = if self.one_in(3) { self.rng.usize(2..4) } else { 1 };
        let all: Vec<String> = (0..count).map(|_| self.sequence(depth)).collect();
        all.join("|")
    }

    fn sequence(&mut self, depth: u32) -> String {
        let mut sequence = String::new();
        for _ in 0..self.rng.u8(0..5) {
            sequence += &self.piece(depth);
            while self.one_in(3) {
                sequence += self.pick(&REPETITIONS);
                // Another one right behind is refused, and tells nothing else of the pattern.
                if !self.one_in(20) {
                    break;
                }
            }
        }
        sequence
    }

    fn piece(&mut self, depth: u32) -> String {
        match self.rng.u8(..20) {
            0 => self.escape(),
            1..3 => self.pick(&["^", "$", r"\b", r"\B", r"\A", r"\z"]).to_owned(),
            3 => ".".to_owned(),
            4..7 => self.class(),
            7 if self.one_in(4) => self.pick(&["{", "}", "]", "{2", "{,3}", ")", "(", "*", "\\"]).to_owned(),
            8 => format!("(?{})", self.pick(&FLAGS)),
            9 if self.one_in(3) => format!(r"\Q{}\E", self.some(&[".", "a", "*", "k", "[", r"\"], 0..3)),
            10..14 if depth > 0 => self.group(depth - 1),
            _ => self.pick(&CHARS).replace('.', r"\."),
        }
    }

    /// An escape that is mostly valid.
    fn escape(&mut self) -> String {
        match self.rng.u8(..4) {
            0 => format!(r"\{}{{{}}}", self.pick(&["p", "P"]), self.pick(&UNICODE)),
            1 => self.pick(&ESCAPES).to_owned(),
            _ => self.pick(&ESCAPES[..24]).replace(r"\x{}", r"\x{61}").replace(r"\x4", r"\x4b"),
        }
    }

    fn group(&mut self, depth: u32) -> String {
        let inner = self.alternatives(depth);
        match self.rng.u8(..12) {
            0..3 => format!("(?:{inner})"),
            3 => format!("(?{}:{inner})", self.pick(&FLAGS)),
            4 => format!("(?P<{}>{inner})", self.pick(&NAMES[..5])),
            5 => format!("(?<{}>{inner})", self.pick(&NAMES)),
            6 if self.one_in(8) => format!("(?{}{inner})", self.pick(&["=", "!", "<=", "<!", "P=", "#", ">"])),
            _ => format!("({inner})"),
        }
    }

    fn class(&mut self) -> String {
        let mut class = String::from(self.pick(&["[", "[", "[^"]));
        for _ in 0..self.rng.u8(1..5) {
            class += &match self.rng.u8(..16) {
                0 => self.pick(&["&&", "~~", "--", "[", "^", "&", "#", "[a"]).to_owned(),
                1..3 => "-".to_owned(),
                3 => format!("[:{}:]", self.pick(&NAMED)),
                4..7 => self.escape(),
                7 => format!("{}-{}", self.pick(&CHARS), self.pick(&CHARS)),
                8..10 => self.pick(&["a-k", "0-9", "A-Z", "!--", "α-ω", "é-ς", "a-", "-a"]).to_owned(),
                10 if self.one_in(4) => self.pick(&["]", "[:", "[:]", "[.a.]", r"\Q", "b-a"]).to_owned(),
                _ => self.pick(&CHARS).to_owned(),
            };
        }
        class + "]"
    }

    /// A pattern with a few characters removed, added or doubled.
    fn damaged(&mut self, pattern: &str) -> String {
        let mut chars: Vec<char> = pattern.chars().collect();
        for _ in 0..self.rng.u8(1..4) {
            let place = self.rng.usize(..chars.len() + 1);
            match chars.get(place).copied() {
                Some(_) if self.rng.bool() => drop(chars.remove(place)),
                Some(char) if self.rng.bool() => chars.insert(place, char),
                _ => chars.insert(place, char::from(SYNTAX[self.rng.usize(..SYNTAX.len())])),
            }
        }
        chars.into_iter().collect()
    }

    /// A text, of the characters of the pattern for the most part.
    fn text(&mut self, pattern: &str) -> String {
        let own: Vec<char> =
            pattern.chars().filter(|char| char.is_alphanumeric() || "-_ .\n".contains(*char)).collect();
        let mut text = String::new();
        for _ in 0..self.rng.usize(..9) {
            match self.rng.choice(&own).filter(|_| self.rng.bool()) {
                Some(char) => text.push(*char),
                None => text += self.pick(&CHARS),
            }
        }
        text
    }
}
