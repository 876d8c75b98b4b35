//! The languages whose stack traces become one log record.

use std::fmt;

/// A language, or a platform, whose stack traces are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Java, and whatever else runs there.
    Java,
    /// Python.
    Python,
    /// Go.
    Go,
    /// Ruby.
    Ruby,
    /// .NET.
    Dotnet,
}

impl Language {
    /// All there are, by the names that users write.
    pub const ALL: [(&str, Self); 5] = [
        ("java", Self::Java),
        ("python", Self::Python),
        ("go", Self::Go),
        ("ruby", Self::Ruby),
        ("dotnet", Self::Dotnet),
    ];
}

/// The languages whose stack traces are joined; none unless somebody asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Multiline {
    languages: u8,
}

impl Multiline {
    /// Of one language.
    pub const fn of(language: Language) -> Self {
        Self { languages: 1 << language as u8 }
    }

    /// The same with another language.
    #[must_use]
    pub const fn with(self, language: Language) -> Self {
        Self { languages: self.languages | Self::of(language).languages }
    }

    /// Whether stack traces of this language are joined.
    pub const fn has(self, language: Language) -> bool {
        self.languages & Self::of(language).languages != 0
    }

    /// Whether nothing is joined.
    pub const fn is_off(self) -> bool {
        self.languages == 0
    }
}

/// As users write it.
impl fmt::Display for Multiline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Language::ALL.iter().filter(|(_, language)| self.has(*language)).map(|(name, _)| *name);
        out.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

impl fmt::Debug for Multiline {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Multiline({self})")
    }
}
