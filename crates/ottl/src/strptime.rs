//! Formats of times in strptime directives.
//!
//! Source: `timeutils` in `internal/coreinternal` of the reference. It turns a format into a layout of Go's `time`
//! package. So a format means what that package reads and writes for the layout.

mod parse;
mod print;

/// A format, taken apart.
#[derive(Debug)]
pub(crate) struct Format(Vec<Piece>);

/// What stands in a format.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// Text for itself.
    Text(String),
    Year,
    /// The last two digits of the year.
    ShortYear,
    /// Four digits; two are read as well.
    AnyYear,
    Month(Pad),
    MonthName(Length),
    Day(Pad),
    DayName(Length),
    Hour,
    /// The hour of twelve.
    HalfHour(Pad),
    /// AM and PM, or am and pm.
    Half {
        upper: bool,
    },
    Minute,
    Second,
    /// A point or a comma, and at most so many digits of a second. Without any digits, the separator is left out as
    /// well.
    Fraction {
        separator: char,
        digits: usize,
    },
    /// What a zone is called.
    ZoneName,
    Offset(Offset),
}

impl Piece {
    fn is_number(&self) -> bool {
        match self {
            Self::Year | Self::ShortYear | Self::AnyYear | Self::Month(_) | Self::Day(_) => true,
            Self::Hour | Self::HalfHour(_) | Self::Minute | Self::Second => true,
            Self::Text(_) | Self::MonthName(_) | Self::DayName(_) | Self::Half { .. } => false,
            Self::Fraction { .. } | Self::ZoneName | Self::Offset(_) => false,
        }
    }
}

/// How a number of one digit is written. Reading is the same for all of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pad {
    Zero,
    Space,
    /// The reference means a space but writes this, even in front of two digits.
    Underscore,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Short,
    Long,
}

/// How an offset from UTC is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offset {
    /// `Z` or `+hhmm`; `+hh:mm` and `+hh` are read as well.
    Iso,
    /// `+hh`
    Hours,
    /// `+hh:mm`
    Minutes,
    /// `+hh:mm:ss`
    Seconds,
    /// `+hhmmss`
    Digits,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Format {
    /// Takes a format apart.
    ///
    /// # Errors
    /// When it is empty, has a directive that does not exist, or what the reference does not allow in one.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("the format must not be empty".to_owned());
        }
        if let Some(digit) = text.chars().find(char::is_ascii_digit) {
            return Err(format!("a format must not have digits, like {digit}"));
        }
        let mut format = Self(Vec::new());
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            let directive = if char == '%' { rest.chars().nth(1).filter(|directive| *directive != '\n') } else { None };
            rest = match (directive, word(rest)) {
                (Some(directive), _) => {
                    format.directive(directive)?;
                    &rest[1 + directive.len_utf8()..]
                }
                (None, Some((piece, length))) => {
                    format.0.push(piece);
                    &rest[length..]
                }
                (None, None) => {
                    format.text(char);
                    &rest[char.len_utf8()..]
                }
            };
        }
        let mut neighbours = format.0.iter().zip(format.0.iter().skip(1));
        if neighbours.any(|(left, right)| matches!(left, Piece::Fraction { .. }) && right.is_number()) {
            return Err("parts of a second must not stand right before another number".to_owned());
        }
        Ok(format)
    }

    fn text(&mut self, char: char) {
        match self.0.last_mut() {
            Some(Piece::Text(text)) => text.push(char),
            _ => self.0.push(Piece::Text(char.into())),
        }
    }

    fn directive(&mut self, directive: char) -> Result<(), String> {
        if let Some(several) = expanded(directive) {
            for part in several.chars() {
                match (part, directive) {
                    ('/' | ':' | '-' | ' ', _) => self.text(part),
                    ('Y', 'D' | 'x') => self.0.push(Piece::AnyYear),
                    _ => self.directive(part)?,
                }
            }
            return Ok(());
        }
        match directive {
            '%' => self.text('%'),
            'n' => self.text('\n'),
            't' => self.text('\t'),
            'L' => self.fraction(directive, 3)?,
            'f' => self.fraction(directive, 6)?,
            's' => self.fraction(directive, 9)?,
            _ => self.0.push(piece(directive).ok_or_else(|| format!("the directive %{directive} is not supported"))?),
        }
        Ok(())
    }

    /// Parts of a second belong together with what separates them from the second.
    fn fraction(&mut self, directive: char, digits: usize) -> Result<(), String> {
        let last = match self.0.last_mut() {
            Some(Piece::Text(text)) => text.pop(),
            _ => None,
        };
        match last {
            Some(separator @ ('.' | ',')) => self.0.push(Piece::Fraction { separator, digits }),
            _ => return Err(format!("%{directive} must stand after a point or a comma")),
        }
        Ok(())
    }
}

/// The single directives, and the text between them, that a directive is short for.
fn expanded(directive: char) -> Option<&'static str> {
    Some(match directive {
        'D' | 'x' => "m/d/Y",
        'F' => "Y-m-d",
        'T' | 'X' => "H:M:S",
        'r' => "I:M:S P",
        'R' => "H:M",
        'c' => "a b d H:M:S Y",
        _ => return None,
    })
}

fn piece(directive: char) -> Option<Piece> {
    Some(match directive {
        'Y' => Piece::Year,
        'y' => Piece::ShortYear,
        'm' => Piece::Month(Pad::Zero),
        'o' => Piece::Month(Pad::Underscore),
        'q' => Piece::Month(Pad::None),
        'b' | 'h' => Piece::MonthName(Length::Short),
        'B' => Piece::MonthName(Length::Long),
        'd' => Piece::Day(Pad::Zero),
        'e' => Piece::Day(Pad::Space),
        'g' => Piece::Day(Pad::None),
        'a' => Piece::DayName(Length::Short),
        'A' => Piece::DayName(Length::Long),
        'H' => Piece::Hour,
        'I' => Piece::HalfHour(Pad::Zero),
        'l' => Piece::HalfHour(Pad::None),
        'p' => Piece::Half { upper: true },
        'P' => Piece::Half { upper: false },
        'M' => Piece::Minute,
        'S' => Piece::Second,
        'Z' => Piece::ZoneName,
        'z' => Piece::Offset(Offset::Iso),
        'i' => Piece::Offset(Offset::Hours),
        'j' => Piece::Offset(Offset::Minutes),
        'k' => Piece::Offset(Offset::Seconds),
        'w' => Piece::Offset(Offset::Digits),
        _ => return None,
    })
}

/// Words of Go's layouts, and how long they are. Between directives they mean the same as in a layout.
fn word(text: &str) -> Option<(Piece, usize)> {
    let words = [
        ("January", Piece::MonthName(Length::Long)),
        ("Jan", Piece::MonthName(Length::Short)),
        ("Monday", Piece::DayName(Length::Long)),
        ("Mon", Piece::DayName(Length::Short)),
        ("MST", Piece::ZoneName),
        ("PM", Piece::Half { upper: true }),
        ("pm", Piece::Half { upper: false }),
    ];
    let goes_on = |rest: &str| rest.starts_with(|char: char| char.is_ascii_lowercase());
    let found = words.into_iter().find(|(word, piece)| {
        let is_short = matches!(piece, Piece::MonthName(Length::Short) | Piece::DayName(Length::Short));
        text.strip_prefix(word).is_some_and(|rest| !is_short || !goes_on(rest))
    });
    found.map(|(word, piece)| (piece, word.len()))
}
