//! The addresses of a backend's name, and which of them failed lately.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::resolve;

/// Addresses that one connection is tried with.
const MOST_TRIES: usize = 4;

/// The addresses of a name.
#[derive(Debug)]
pub(in crate::export) struct Addresses {
    all: Vec<Address>,
    /// The first so many are to be preferred.
    preferred: usize,
    /// None of the addresses tried for the last connection took it.
    exhausted: AtomicBool,
}

#[derive(Debug)]
struct Address {
    at: SocketAddr,
    /// The last attempt to connect failed, or took too long.
    failed: AtomicBool,
}

impl Addresses {
    /// Addresses of the first one's family are preferred: the others lead to the same machines. They are shuffled, so
    /// that gateways do not agree on a favourite.
    pub(super) fn new(mut found: Vec<SocketAddr>) -> Self {
        let family = found.first().map(SocketAddr::is_ipv4);
        fastrand::shuffle(&mut found);
        found.sort_by_key(|address| Some(address.is_ipv4()) != family);
        found.truncate(resolve::MOST_ADDRESSES);
        let preferred = found.iter().filter(|address| Some(address.is_ipv4()) == family).count();
        let all = found.into_iter().map(|at| Address { at, failed: AtomicBool::new(false) }).collect();
        Self { all, preferred, exhausted: AtomicBool::new(false) }
    }

    /// How many there are to spread connections over.
    pub(in crate::export) fn preferred(&self) -> usize {
        self.preferred
    }

    /// Whether one of them could not be connected to.
    pub(in crate::export) fn some_failed(&self) -> bool {
        self.all.iter().any(|address| address.failed.load(Ordering::Relaxed))
    }

    /// Whether the last connection could not be made. The name may have other addresses by now.
    pub(in crate::export) fn exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }

    /// A connection that was made earlier works all the same.
    pub(in crate::export) fn revive(&self) {
        self.note_last(false);
    }

    /// Whether the last connection failed at all addresses that it was tried with.
    pub(super) fn note_last(&self, failed: bool) {
        self.exhausted.store(failed, Ordering::Relaxed);
    }

    /// Whether the last attempt to connect to an address failed, or took too long.
    pub(super) fn note(&self, index: usize, failed: bool) {
        self.all[index].failed.store(failed, Ordering::Relaxed);
    }

    pub(super) fn at(&self, index: usize) -> SocketAddr {
        self.all[index].at
    }

    pub(super) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// The order in which a connection tries them: `first`, the others of its family, the other family; those that
    /// failed come last.
    pub(super) fn order(&self, first: usize) -> Vec<usize> {
        let preferred = (0..self.preferred).map(|step| (first + step) % self.preferred);
        let mut order: Vec<usize> = preferred.chain(self.preferred..self.all.len()).collect();
        order.sort_by_key(|index| self.all[*index].failed.load(Ordering::Relaxed));
        order.truncate(MOST_TRIES);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_other_family_and_those_that_failed_come_last() {
        let texts = ["[2001:db8::1]:1", "192.0.2.1:1", "[2001:db8::2]:1", "192.0.2.2:1", "[2001:db8::3]:1"];
        let addresses = Addresses::new(texts.iter().map(|text| text.parse().unwrap()).collect());
        assert_eq!(addresses.preferred(), 3);
        assert!(addresses.all[..3].iter().all(|address| address.at.is_ipv6()));
        assert_eq!(addresses.order(0), [0, 1, 2, 3]);
        assert_eq!(addresses.order(2), [2, 0, 1, 3]);
        for index in [2, 0] {
            addresses.note(index, true);
        }
        assert_eq!(addresses.order(2), [1, 3, 4, 2]);
    }
}
