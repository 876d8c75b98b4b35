//! What may be written, as plain data: a field with its type, its default, the versions that have it, and what it is
//! for; and which fields go together.
//!
//! Documents are read by this table: it says which fields are known, required and secret, what they are when they are
//! not given, and what they are called in the version of the document. Conversion between versions walks it. Tests hold
//! the documentation against it, and make schemas of it.

/// Version of an API a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Deprecated.
    V1Alpha1,
    /// Current.
    V1Beta1,
}

impl Version {
    /// `v1alpha1` or `v1beta1`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// What a document is written for.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    /// Empty for the core of Kubernetes.
    pub(crate) group: &'static str,
    pub(crate) version: Version,
}

/// A field of a mapping.
pub struct Field {
    /// Its key in the current version, or in the only one that has it.
    pub name: &'static str,
    /// What it takes.
    pub of: Type,
    /// How the older version has it.
    pub older: Older,
    /// Whether a document without it is wrong.
    pub required: bool,
    /// Whether its values are secret; `None` if that is as for its mapping.
    pub secret: Option<bool>,
    /// Whether it has an effect. If not, it is read and checked, and does nothing yet.
    pub active: bool,
    /// What it is when it is not given.
    pub default: DefaultValue,
    /// What it means, for people.
    pub about: &'static str,
}

/// What a field is when it is not given. Code takes values from here and does not repeat them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// Nothing.
    None,
    /// True or false.
    Boolean(bool),
    /// A text, as people would write it.
    Text(&'static str),
    /// Not one value that could be written: it follows from other fields, the signal or the surroundings. In words, for
    /// people.
    Words(&'static str),
}

/// What a field takes.
#[derive(Clone, Copy)]
pub enum Type {
    /// Not looked at, or not by this table.
    Any,
    /// A string, and what people call the right ones.
    Text(&'static str),
    /// True or false.
    Boolean,
    /// A whole number from 1.
    Count,
    /// A string that is one of these, and what messages call them ("protocol").
    OneOf(&'static str, &'static [&'static str]),
    /// A sequence of these.
    List(&'static Type),
    /// A mapping with keys of the user's choice.
    Map(&'static Type),
    /// A mapping with known fields.
    Object(&'static Object),
}

/// A mapping with known fields.
pub struct Object {
    /// What people call it, if it is documented on its own; otherwise empty.
    pub name: &'static str,
    /// In the order in which messages and the documentation name them.
    pub fields: &'static [&'static [Field]],
    /// Which of its fields go together.
    pub groups: &'static [Group],
    /// Whether others write to it as well: it takes any text under a key that is not ours.
    pub open: bool,
}

/// Fields of a mapping that go together, or not.
#[derive(Clone, Copy)]
pub struct Group {
    /// How many of them may be given.
    pub rule: Rule,
    /// Their names, as [`Field::name`] has them.
    pub names: &'static [&'static str],
    /// What is reported otherwise. `{field}` stands for the key of the mapping.
    pub message: &'static str,
    /// The only version that has this rule; `None` if both have it.
    pub only: Option<Version>,
    /// Whether a field counts as not given if its text is empty, or has no text but empty ones in it.
    pub empty_is_missing: bool,
}

/// How many fields of a group may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// None or one.
    AtMostOne,
    /// One or more.
    AtLeastOne,
    /// One.
    ExactlyOne,
    /// None or all.
    AllOrNone,
}

/// A field in the older version.
#[derive(Clone, Copy)]
pub enum Older {
    /// As it is.
    Same,
    /// Of another name.
    Named(&'static str),
    /// It has another name, and is true where this field is false.
    Opposite(&'static str),
    /// Not there.
    Missing,
    /// There, and not in the current version.
    Only,
}

impl Field {
    pub(crate) const fn new(name: &'static str, of: Type, about: &'static str) -> Self {
        Self {
            name,
            of,
            older: Older::Same,
            required: false,
            secret: None,
            active: true,
            default: DefaultValue::None,
            about,
        }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Without it, a field is this text.
    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.default = DefaultValue::Text(text);
        self
    }

    /// Without it, a field is true or false.
    pub(crate) const fn default_is(mut self, value: bool) -> Self {
        self.default = DefaultValue::Boolean(value);
        self
    }

    /// What it is without it, in words.
    pub(crate) const fn default_in_words(mut self, words: &'static str) -> Self {
        self.default = DefaultValue::Words(words);
        self
    }

    pub(crate) const fn older(mut self, older: Older) -> Self {
        self.older = older;
        self
    }

    pub(crate) const fn secret(mut self) -> Self {
        self.secret = Some(true);
        self
    }

    pub(crate) const fn inactive(mut self) -> Self {
        self.active = false;
        self
    }

    pub(crate) const fn public(mut self) -> Self {
        self.secret = Some(false);
        self
    }

    /// Its key in a version that has it.
    pub fn key(&self, version: Version) -> Option<&'static str> {
        match (version, self.older) {
            (Version::V1Alpha1, Older::Missing) | (Version::V1Beta1, Older::Only) => None,
            (Version::V1Alpha1, Older::Named(older) | Older::Opposite(older)) => Some(older),
            _ => Some(self.name),
        }
    }

    /// Whether it says the opposite in a version.
    pub(crate) fn is_opposite(&self, version: Version) -> bool {
        version == Version::V1Alpha1 && matches!(self.older, Older::Opposite(_))
    }
}

impl Object {
    /// A mapping that is documented where it stands.
    pub(crate) const fn plain(fields: &'static [&'static [Field]]) -> Self {
        Self::named("", fields)
    }

    /// A mapping that is documented on its own.
    pub(crate) const fn named(name: &'static str, fields: &'static [&'static [Field]]) -> Self {
        Self { name, fields, groups: &[], open: false }
    }

    /// The same, with rules for fields that go together.
    pub(crate) const fn groups(mut self, groups: &'static [Group]) -> Self {
        self.groups = groups;
        self
    }

    /// The same, to which others write as well.
    pub(crate) const fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Its groups in a version.
    pub fn groups_in(&self, version: Version) -> impl Iterator<Item = &'static Group> + use<> {
        self.groups.iter().filter(move |group| group.only.is_none_or(|only| only == version))
    }

    /// Its fields.
    pub fn fields(&'static self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().copied().flatten()
    }
}

impl Group {
    pub(crate) const fn new(rule: Rule, names: &'static [&'static str], message: &'static str) -> Self {
        Self { rule, names, message, only: None, empty_is_missing: false }
    }

    /// The same, for one version.
    pub(crate) const fn only(mut self, version: Version) -> Self {
        self.only = Some(version);
        self
    }

    /// The same: a field that is empty counts as not given.
    pub(crate) const fn empty_is_missing(mut self) -> Self {
        self.empty_is_missing = true;
        self
    }

    /// Whether so many of its fields may be given.
    pub(crate) fn allows(&self, given: usize) -> bool {
        match self.rule {
            Rule::AtMostOne => given <= 1,
            Rule::AtLeastOne => given >= 1,
            Rule::ExactlyOne => given == 1,
            Rule::AllOrNone => given == 0 || given == self.names.len(),
        }
    }
}

/// The names among which people choose.
pub(crate) const fn names<T, const N: usize>(choices: &[(&'static str, T); N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut index = 0;
    while index < N {
        names[index] = choices[index].0;
        index += 1;
    }
    names
}
