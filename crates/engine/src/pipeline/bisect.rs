//! Whether a batch that a backend refused for good is taken apart, to find the items that it means.
//!
//! Pure planning: it owns no batch and splits none. It is told of each refusal and each success, in any order and from
//! any number of batches at a time.
//!
//! Taking a batch of N items apart costs up to 2N requests, so it is worth it only where the refusal is about the data
//! and only while there is something to be saved. A backend that refuses everything as invalid (a tenant that does not
//! exist, a signal that is switched off) is recognised by a complete bisection of which it took nothing; from then on
//! batches are rejected whole, until the backend has taken something. Because each of those batches may hold a single
//! bad item, one in [`PROBE_EVERY`] is still sent in halves.

/// Answers that speak of the data: sent again unchanged, it would be refused again, and other data may be taken.
///
/// The OTLP specification names INVALID_ARGUMENT and 400 for data that cannot be processed; 422 is what HTTP calls
/// the same thing (RFC 9110 15.5.21). OUT_OF_RANGE is not here, because the specification lets it be tried again.
/// Neither is any answer about who asks or where (401, 403, 404, UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED),
/// about the backend (500, INTERNAL, UNKNOWN), or about the size, which is handled apart.
const ABOUT_THE_DATA: [&str; 3] = ["INVALID_ARGUMENT", "400", "422"];

/// As many refusals in a row stand for a complete bisection however large the batch was, and however many are taken apart
/// at a time: what the search may cost has to be bounded.
const ENOUGH_REFUSALS: u64 = 8192;

/// Fewer items refused one by one are no evidence, even if they are a whole batch: two bad spans may come together.
const LEAST_ISOLATED: u64 = 16;

/// Of the batches that a backend refuses while it takes nothing, one in this many is sent in halves.
const PROBE_EVERY: u32 = 16;

/// What to do with a refused batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send it again in two halves.
    Split,
    /// Count all of it as rejected.
    Reject,
}

/// What is known about a backend's taste.
#[derive(Debug, Default)]
pub(super) struct Bisect {
    /// Items of the largest batch that was taken apart.
    largest: u64,
    /// Refusals of data since the backend last took something ...
    refusals: u64,
    /// ... and items that were refused one by one.
    isolated: u64,
    /// Batches refused since the backend was found to refuse everything; none while it is not.
    mistrusted: Option<u32>,
}

impl Bisect {
    /// Judges a refusal with `code` (a gRPC status name or an HTTP status) of a batch of `pieces` with `items` in all.
    pub(super) fn verdict(&mut self, code: &str, pieces: usize, items: u64) -> Verdict {
        if !ABOUT_THE_DATA.contains(&code) {
            return Verdict::Reject;
        }
        let can_be_split = pieces > 1 || items > 1;
        self.refusals = self.refusals.saturating_add(1);
        match &mut self.mistrusted {
            None if can_be_split => self.largest = self.largest.max(items),
            None => self.isolated = self.isolated.saturating_add(items),
            Some(batches) if can_be_split => {
                *batches = batches.wrapping_add(1);
                return if batches.is_multiple_of(PROBE_EVERY) { Verdict::Split } else { Verdict::Reject };
            }
            Some(_) => return Verdict::Reject,
        }
        if self.refuses_everything() {
            self.mistrusted = Some(0);
            return Verdict::Reject;
        }
        if can_be_split { Verdict::Split } else { Verdict::Reject }
    }

    /// The backend took something.
    pub(super) fn delivered(&mut self) {
        self.refusals = 0;
        self.isolated = 0;
        self.mistrusted = None;
    }

    /// Without a success, as many single items were refused as the largest batch ever had. Fewer prove nothing: they may
    /// be the bad half of a batch whose good half was taken.
    fn refuses_everything(&self) -> bool {
        let bisected = self.largest > 0 && self.isolated >= self.largest.max(LEAST_ISOLATED);
        bisected || self.refusals >= ENOUGH_REFUSALS
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// What became of items that were sent as delivery sends them: halves join the end of the line.
    #[derive(Debug, Default, PartialEq)]
    struct Sent {
        requests: u64,
        taken: u64,
        rejected: u64,
    }

    /// Sends batches of items, each one a piece and good or not, to a backend that refuses any batch with a bad item.
    fn send(bisect: &mut Bisect, code: &str, batches: Vec<Vec<bool>>) -> Sent {
        let mut line = VecDeque::from(batches);
        let mut sent = Sent::default();
        while let Some(mut batch) = line.pop_front() {
            sent.requests += 1;
            let items = batch.len() as u64;
            if batch.iter().all(|good| *good) {
                bisect.delivered();
                sent.taken += items;
            } else if bisect.verdict(code, batch.len(), items) == Verdict::Split {
                let second = batch.split_off(batch.len() / 2);
                line.extend([batch, second]);
            } else {
                sent.rejected += items;
            }
        }
        sent
    }

    fn batch(items: usize, bad: &[usize]) -> Vec<bool> {
        (0..items).map(|item| !bad.contains(&item)).collect()
    }

    #[test]
    fn one_bad_item_costs_itself_and_a_few_requests() {
        for code in ["INVALID_ARGUMENT", "400", "422"] {
            let sent = send(&mut Bisect::default(), code, vec![batch(512, &[77])]);
            assert_eq!(sent, Sent { requests: 19, taken: 511, rejected: 1 }, "{code}");
        }
    }

    #[test]
    fn refusals_that_are_not_about_the_data_are_not_taken_apart() {
        for code in
            ["UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "INTERNAL", "UNKNOWN", "401", "404", "500"]
        {
            let sent = send(&mut Bisect::default(), code, vec![batch(512, &[77])]);
            assert_eq!(sent, Sent { requests: 1, taken: 0, rejected: 512 }, "{code}");
        }
    }

    #[test]
    fn many_bad_items_are_all_found() {
        let mut random = fastrand::Rng::with_seed(7);
        for share in [2, 5, 50] {
            let bad: Vec<usize> = (0..1000).filter(|_| random.usize(..share) == 0).collect();
            let sent = send(&mut Bisect::default(), "400", vec![batch(1000, &bad); 5]);
            assert_eq!(sent.rejected, 5 * bad.len() as u64, "one in {share}: {sent:?}");
        }
    }

    #[test]
    fn a_run_of_bad_items_is_no_proof_against_the_rest() {
        let mut bisect = Bisect::default();
        let bad: Vec<usize> = (500..1000).collect();
        for _ in 0..5 {
            let sent = send(&mut bisect, "400", vec![batch(1000, &bad)]);
            assert_eq!((sent.taken, sent.rejected), (500, 500));
        }
    }

    #[test]
    fn a_backend_that_refuses_everything_sees_one_bisection() {
        let mut bisect = Bisect::default();
        let hopeless = vec![false; 256];
        let first = send(&mut bisect, "400", vec![hopeless.clone()]);
        assert_eq!(first, Sent { requests: 511, taken: 0, rejected: 256 });
        let rest = send(&mut bisect, "400", vec![hopeless; 1000]);
        assert_eq!(rest.rejected, 256_000);
        assert!(rest.requests < 1000 + 1000 / 6, "{rest:?}");
    }

    #[test]
    fn the_search_is_bounded_in_requests() {
        for batches in [vec![vec![false; 256]; 64], vec![vec![false; 65_536]; 4]] {
            let items: usize = batches.iter().map(Vec::len).sum();
            let sent = send(&mut Bisect::default(), "400", batches);
            assert_eq!(sent.rejected, items as u64);
            assert!(sent.requests < 8192 * 5 / 2, "{sent:?}");
        }
    }

    #[test]
    fn what_is_taken_restores_the_trust() {
        let mut bisect = Bisect::default();
        send(&mut bisect, "400", vec![vec![false; 64]]);
        assert_eq!(bisect.verdict("400", 64, 64), Verdict::Reject);
        bisect.delivered();
        let sent = send(&mut bisect, "400", vec![batch(64, &[3])]);
        assert_eq!((sent.taken, sent.rejected), (63, 1));
    }

    #[test]
    fn one_bad_item_in_every_batch_does_not_keep_a_backend_mistrusted() {
        let mut bisect = Bisect::default();
        send(&mut bisect, "400", vec![vec![false; 64]]);
        let mut rejected = 0;
        for _ in 0..100 {
            rejected += send(&mut bisect, "400", vec![batch(64, &[9])]).rejected;
        }
        // The sixteenth is split; its bad half is rejected before its good half restores the trust.
        assert_eq!(rejected, 15 * 64 + 32 + 84);
    }

    #[test]
    fn pieces_without_items_are_split_as_well() {
        assert_eq!(Bisect::default().verdict("400", 2, 0), Verdict::Split);
        assert_eq!(Bisect::default().verdict("400", 1, 0), Verdict::Reject);
    }
}
