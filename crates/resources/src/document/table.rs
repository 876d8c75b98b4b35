//! What may be written, as plain data: a field with its type, its default, the versions that have it, and what it is
//! for; and which fields go together.
//!
//! Documents are read by this table: it says which fields are known, required and secret, what they are when they are
//! not given, and what they are called in the version of the document. Conversion between versions walks it, and so do
//! schemas and defaults that are written. Tests hold the documentation against it.

use serde_json::Value;

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
    /// What it is when it is not given.
    pub default: DefaultValue,
    /// What is written into an object of a cluster that does not have it.
    pub written: Written,
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

impl DefaultValue {
    /// As it would be written; nothing if that depends.
    pub(crate) fn json(self) -> Option<Value> {
        match self {
            Self::Boolean(value) => Some(value.into()),
            Self::Text(text) => Some(text.into()),
            Self::None | Self::Words(_) => None,
        }
    }
}

/// What is written into an object of a cluster where a field is not given, so that whoever reads the object sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Nothing.
    Nothing,
    /// Its default.
    Default,
    /// Its default; the schema has it, too.
    DefaultInSchema,
    /// A mapping, whose fields are written in turn.
    Mapping,
    /// A selector of all namespaces but the system's.
    AllButSystem,
}

/// What a field takes.
#[derive(Clone, Copy)]
pub enum Type {
    /// Not looked at, or not by this table.
    Any,
    /// A string, and what people call the right ones.
    Text(&'static str),
    /// A string of which an API server can say whether it is a right one.
    Formed(&'static Form),
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

/// What an API server checks of a string. Code checks at least as much.
#[derive(Clone, Copy)]
pub struct Form {
    /// What people call the right ones.
    pub name: &'static str,
    /// Its least length in characters.
    pub min_length: usize,
    /// Its greatest length in characters.
    pub max_length: Option<usize>,
    /// A regular expression that it matches.
    pub pattern: Option<&'static str>,
    /// A name that OpenAPI has for such strings.
    pub format: Option<&'static str>,
    /// What must be true of it (`self`) in the Common Expression Language, and what is reported otherwise.
    pub rule: Option<(&'static str, &'static str)>,
}

/// A mapping with known fields.
pub struct Object {
    /// What people call it, if it is documented on its own; otherwise empty.
    pub name: &'static str,
    /// In the order in which messages and the documentation name them.
    pub fields: &'static [&'static [Field]],
    /// Which of its fields go together.
    pub groups: &'static [Group],
    /// What does not go together in it, at any depth.
    pub clashes: &'static [Clash],
    /// The field that a change must neither give nor take away, and what is reported otherwise.
    pub kept: Option<(&'static str, &'static str)>,
    /// The switch without which nothing else is written into it (see [`Written`]).
    pub switch: Option<&'static str>,
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

/// What must not be true of a mapping all at once.
#[derive(Clone, Copy)]
pub struct Clash {
    /// What must not be, all of it.
    pub terms: &'static [Term],
    /// What is reported.
    pub message: &'static str,
    /// The only version that has this rule; `None` if both have it.
    pub only: Option<Version>,
}

/// Something that is true of a mapping or not. Fields are named by their path in it, as [`Field::name`] has them.
#[derive(Clone, Copy)]
pub enum Term {
    /// The field is given, and is no empty text.
    Given(&'static str),
    /// It is not given.
    Missing(&'static str),
    /// The field is this text. So it is by default, if that is its default.
    Is(&'static str, &'static str),
    /// The field is given, and true.
    True(&'static str),
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
            default: DefaultValue::None,
            written: Written::Nothing,
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

    /// Where it is not given, this is written into objects of a cluster.
    pub(crate) const fn written(mut self, written: Written) -> Self {
        self.written = written;
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
        Self { name, fields, groups: &[], clashes: &[], kept: None, switch: None, open: false }
    }

    /// The same, with rules for fields that go together.
    pub(crate) const fn groups(mut self, groups: &'static [Group]) -> Self {
        self.groups = groups;
        self
    }

    /// The same, with rules for what does not go together.
    pub(crate) const fn clashes(mut self, clashes: &'static [Clash]) -> Self {
        self.clashes = clashes;
        self
    }

    /// The same: a change must not give this field, nor take it away.
    pub(crate) const fn keeping(mut self, field: &'static str, message: &'static str) -> Self {
        self.kept = Some((field, message));
        self
    }

    /// The same: unless this field is true, nothing else is written into it.
    pub(crate) const fn switched_by(mut self, field: &'static str) -> Self {
        self.switch = Some(field);
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

    /// Its clashes in a version.
    pub fn clashes_in(&self, version: Version) -> impl Iterator<Item = &'static Clash> + use<> {
        self.clashes.iter().filter(move |clash| clash.only.is_none_or(|only| only == version))
    }

    /// Its field of this name.
    pub fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.name == name)
    }

    /// The field at a path of names (`output.otlp`), with the keys on the way; nothing if a version has no such field.
    pub(crate) fn at(&'static self, path: &str, version: Version) -> Option<(Vec<&'static str>, &'static Field)> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let field = self.field(name)?;
        let key = field.key(version)?;
        match (rest, field.of) {
            (None, _) => Some((vec![key], field)),
            (Some(rest), Type::Object(object)) => {
                let (mut keys, field) = object.at(rest, version)?;
                keys.insert(0, key);
                Some((keys, field))
            }
            (Some(_), _) => None,
        }
    }

    /// Its fields.
    pub fn fields(&'static self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().copied().flatten()
    }
}

impl Form {
    /// Any string; the methods below say more.
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, min_length: 0, max_length: None, pattern: None, format: None, rule: None }
    }

    /// The same, of this length.
    pub(crate) const fn length(mut self, min: usize, max: Option<usize>) -> Self {
        self.min_length = min;
        self.max_length = max;
        self
    }

    /// The same, matching this regular expression.
    pub(crate) const fn pattern(mut self, pattern: &'static str) -> Self {
        self.pattern = Some(pattern);
        self
    }

    /// The same, of this format, in the words of OpenAPI.
    pub(crate) const fn format(mut self, format: &'static str) -> Self {
        self.format = Some(format);
        self
    }

    /// The same, with a rule in the Common Expression Language.
    pub(crate) const fn rule(mut self, rule: &'static str, message: &'static str) -> Self {
        self.rule = Some((rule, message));
        self
    }
}

impl Clash {
    pub(crate) const fn new(terms: &'static [Term], message: &'static str) -> Self {
        Self { terms, message, only: None }
    }

    /// The same, for one version.
    pub(crate) const fn only(mut self, version: Version) -> Self {
        self.only = Some(version);
        self
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
