//! Which conversions may still be undone, and which later ones rely on them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The conversions of a converter, by number. They have a lock of their own. So whoever decides on one of them, or
/// wants to know about it, does not wait while another request is converted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversions(Arc<Mutex<Numbers>>);

#[derive(Debug, Default)]
struct Numbers {
    /// These may still be taken back.
    open: BTreeSet<u64>,
    /// How many were.
    taken_back: u64,
}

/// A conversion that may be undone. Once this is dropped, the conversion stands.
#[derive(Debug)]
pub(crate) struct Open {
    conversions: Conversions,
    number: u64,
    is_taken_back: bool,
}

/// What a conversion relies on. Points were left out because of others, whose requests may still be refused. The client
/// must not be told that its points are safe before [`Reliance::holds`] says so.
#[derive(Debug)]
pub struct Reliance {
    conversions: Conversions,
    /// Those up to this number.
    until: u64,
    /// How many had been taken back before.
    taken_back: u64,
}

impl Conversions {
    /// Whether this one may still be taken back.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.lock().open.contains(&number)
    }

    /// Whether any of those up to this one may.
    pub(crate) fn any_open(&self, until: u64) -> bool {
        self.lock().open.first().is_some_and(|first| *first <= until)
    }

    pub(crate) fn open(&self, number: u64) -> Open {
        self.lock().open.insert(number);
        Open { conversions: self.clone(), number, is_taken_back: false }
    }

    pub(crate) fn rely_on(&self, until: u64) -> Reliance {
        Reliance { conversions: self.clone(), until, taken_back: self.lock().taken_back }
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    pub(crate) fn take_back(mut self) {
        self.is_taken_back = true;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut numbers = self.conversions.lock();
        numbers.open.remove(&self.number);
        numbers.taken_back += u64::from(self.is_taken_back);
    }
}

impl Reliance {
    /// Whether what it relies on stands; `None` while that is not decided. If anything was undone meanwhile, it does
    /// not stand: that is rare, and trying again is always right.
    pub fn holds(&self) -> Option<bool> {
        let numbers = self.conversions.lock();
        if numbers.taken_back != self.taken_back {
            return Some(false);
        }
        numbers.open.first().is_none_or(|first| *first > self.until).then_some(true)
    }
}
