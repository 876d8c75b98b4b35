//! Who looks at samples of telemetry: the log says so once for each address and what it looks at, as long as it goes on.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Who has not looked for so long begins anew.
const PAUSE: Duration = Duration::from_secs(300);
/// Of more at once, each look is logged.
const MOST_READERS: usize = 64;

/// Those who have looked at samples lately.
#[derive(Debug, Default)]
pub struct Readers {
    /// When each of them looked last, and at what.
    last: Mutex<Vec<(IpAddr, String, Instant)>>,
}

impl Readers {
    /// Notes a look. Whether this is somebody who has not looked at the same lately: the page of a browser asks every few
    /// seconds.
    pub fn note(&self, peer: IpAddr, what: &str) -> bool {
        self.note_at(peer, what, Instant::now())
    }

    fn note_at(&self, peer: IpAddr, what: &str, now: Instant) -> bool {
        let mut readers = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|(.., last)| now.duration_since(*last) < PAUSE);
        match readers.iter_mut().find(|(known, of, _)| *known == peer && of == what) {
            Some((.., last)) => {
                *last = now;
                false
            }
            None => {
                if readers.len() < MOST_READERS {
                    readers.push((peer, what.to_owned(), now));
                }
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_is_logged_once_as_long_as_it_goes_on() {
        let (readers, begin) = (Readers::default(), Instant::now());
        let is_new = |last: u8, what: &str, seconds| {
            readers.note_at([10, 0, 0, last].into(), what, begin + Duration::from_secs(seconds))
        };
        let looks =
            [is_new(1, "a", 0), is_new(1, "a", 200), is_new(2, "a", 200), is_new(1, "b", 300), is_new(1, "a", 400)];
        assert_eq!(looks, [true, false, true, true, false]);
        assert_eq!([is_new(2, "a", 600), is_new(1, "a", 600)], [true, false]);
    }
}
