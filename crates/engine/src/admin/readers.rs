//! Who looks at samples of telemetry: the log says so once for each reader and what it looks at, as long as it goes on.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Who has not looked for so long begins anew.
const PAUSE: Duration = Duration::from_secs(300);
/// Of more at once, each look is logged.
const MOST_READERS: usize = 64;

/// Somebody who looks, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// The address. All who forward a port of a pod have that of the pod itself.
    pub peer: IpAddr,
    /// Which token, if one is needed: the line of the file that it is on, counted from 1.
    pub token: Option<u32>,
    /// How often the rules of the port had been replaced. The same line may have the token of somebody else since then,
    /// so everybody begins anew.
    pub edition: u64,
}

/// Those who have looked at samples lately.
#[derive(Debug, Default)]
pub struct Readers {
    /// When each of them looked last, and at what.
    last: Mutex<Vec<(Reader, String, Instant)>>,
}

impl Readers {
    /// Notes a look. Whether this is somebody who has not looked at the same lately: the page of a browser asks every few
    /// seconds.
    pub fn note(&self, from: Reader, what: &str) -> bool {
        self.note_at(from, what, Instant::now())
    }

    fn note_at(&self, from: Reader, what: &str, now: Instant) -> bool {
        let mut readers = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|(.., last)| now.duration_since(*last) < PAUSE);
        match readers.iter_mut().find(|(known, of, _)| *known == from && of == what) {
            Some((.., last)) => {
                *last = now;
                false
            }
            None => {
                if readers.len() < MOST_READERS {
                    readers.push((from, what.to_owned(), now));
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
        let looks = |last: u8, token: Option<u32>, what: &str, seconds| {
            let reader = Reader { peer: [10, 0, 0, last].into(), token, edition: 0 };
            readers.note_at(reader, what, begin + Duration::from_secs(seconds))
        };
        let is_new = |last, what, seconds| looks(last, None, what, seconds);
        let first =
            [is_new(1, "a", 0), is_new(1, "a", 200), is_new(2, "a", 200), is_new(1, "b", 300), is_new(1, "a", 400)];
        assert_eq!(first, [true, false, true, true, false]);
        assert_eq!([is_new(2, "a", 600), is_new(1, "a", 600)], [true, false]);
        assert_eq!([Some(1), Some(2), Some(1)].map(|token| looks(1, token, "a", 600)), [true, true, false]);
    }
}
