//! Who looks at samples of telemetry: the log says so once for each address, as long as it goes on.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Who has not looked for so long begins anew.
const PAUSE: Duration = Duration::from_secs(300);
/// Of more at once, each look is logged.
const MOST_READERS: usize = 64;

/// Those who have looked at one page lately.
#[derive(Debug, Default)]
pub struct Readers {
    /// When each of them looked last.
    last: Mutex<Vec<(IpAddr, Instant)>>,
}

impl Readers {
    /// Notes a look. Whether this is somebody who has not looked lately: the page of a browser asks every few seconds.
    pub fn is_new(&self, peer: IpAddr) -> bool {
        self.is_new_at(peer, Instant::now())
    }

    fn is_new_at(&self, peer: IpAddr, now: Instant) -> bool {
        let mut readers = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|(_, last)| now.duration_since(*last) < PAUSE);
        match readers.iter_mut().find(|(known, _)| *known == peer) {
            Some((_, last)) => {
                *last = now;
                false
            }
            None => {
                if readers.len() < MOST_READERS {
                    readers.push((peer, now));
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
        let is_new =
            |last: u8, seconds| readers.is_new_at([10, 0, 0, last].into(), begin + Duration::from_secs(seconds));
        assert_eq!([is_new(1, 0), is_new(1, 200), is_new(2, 200), is_new(1, 400)], [true, false, true, false]);
        assert_eq!([is_new(2, 600), is_new(1, 600)], [true, false]);
    }
}
