//! What may be written, as plain data: a field with its type, its default, the versions that have it, and what it is
//! for.
//!
//! Documents are read by this table: it says which fields are known, required and secret, and what they are called in
//! the version of the document. Conversion between versions walks it, and a test holds the documentation against it.

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
    /// What it is when it is not given, for people.
    pub default: &'static str,
    /// What it means, for people.
    pub about: &'static str,
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
        Self { name, of, older: Older::Same, required: false, secret: None, active: true, default: "none", about }
    }

    pub(crate) const fn required(mut self) -> Self {
        (self.required, self.default) = (true, "required");
        self
    }

    pub(crate) const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
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
    /// Its fields.
    pub fn fields(&'static self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().copied().flatten()
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
