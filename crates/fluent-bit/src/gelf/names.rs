//! The names that the fields of a record get, listed before it is written: of equal ones, the last one counts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;

use super::Gelf;
use crate::members::Member;
use crate::origin::Origin;
use crate::record::{self, Fields, Notation, Record};
use crate::sink::{Length, Sink};

/// Fields of the container begin like this.
const CONTAINER: &str = "_kubernetes_";

/// The names of a record.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Nothing is written: each name is noted in `noted`.
    is_listing: bool,
    noted: Vec<u128>,
    /// Some name is one that a field of the container may have.
    is_of_container: bool,
    /// Names that come more than once, and how often they are still to come.
    repeated: Vec<(u128, usize)>,
}

/// Stands for a name. Names are not kept, because together they may be longer than the record.
fn mark(name: &str) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, name).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

impl Names {
    /// Whether a field is to be written: no other one of this name follows.
    pub(super) fn is_last(&mut self, name: &str) -> bool {
        if self.is_listing {
            self.noted.push(mark(name));
            self.is_of_container |= name.starts_with(CONTAINER);
            return false;
        }
        if self.repeated.is_empty() {
            return true;
        }
        let mark = mark(name);
        let Some((_, left)) = self.repeated.iter_mut().find(|(repeated, _)| *repeated == mark) else { return true };
        *left = left.saturating_sub(1);
        *left == 0
    }

    fn find_repeated(&mut self) {
        self.noted.sort_unstable();
        let repeated = self.noted.chunk_by(|one, other| one == other).filter(|equal| equal.len() > 1);
        self.repeated.extend(repeated.map(|equal| (equal[0], equal.len())));
    }
}

impl<S: Sink> Gelf<'_, S> {
    /// Finds out which fields of a record get the same name. Only members of a line do that: everything else has names
    /// of its own.
    pub(super) fn list_names(&mut self, record: &Record<'_>) {
        self.fields = 0;
        self.names.repeated.clear();
        if record.members.is_none() {
            return;
        }
        let mut listing = Gelf::new(Length::default(), self.settings);
        listing.names = mem::take(&mut self.names);
        listing.names.noted.clear();
        (listing.names.is_listing, listing.names.is_of_container) = (true, false);
        record.give(self.settings, &mut Listed { listing: &mut listing, origin: record.origin });
        listing.names.is_listing = false;
        listing.names.find_repeated();
        self.names = listing.names;
    }
}

/// Fields whose names are listed.
struct Listed<'l, 's, 'r> {
    listing: &'l mut Gelf<'s, Length>,
    origin: Origin<'r>,
}

impl<'r> Fields<'r> for Listed<'_, '_, 'r> {
    fn time(&mut self, name: &'static str) {
        self.listing.text(name, "");
    }

    fn text(&mut self, name: &'static str, _: &'r str) {
        self.listing.text(name, "");
    }

    fn member(&mut self, member: Member<'r>) {
        self.listing.member(member);
    }

    fn cluster(&mut self, _: &'r str) {
        self.listing.text(record::CLUSTER, "");
    }

    /// They are the last ones of their names, so members before give place to them.
    fn kubernetes(&mut self) {
        if self.listing.names.is_of_container {
            let settings = self.listing.settings;
            record::kubernetes(self.listing, settings, self.origin);
        }
    }
}
