//! Bodies as Fluent Bit sends them. All that is made of a request is paid for at once, before it is made.

use bytes::Bytes;
use weir_fluent_bit::Size;
use weir_plan::{Compression, FluentBit};

use super::body::Chunks;
use super::{ANSWER_TIMEOUT, About, Exporter, INLINE_COMPRESS_BYTES, Outcome};
use crate::budget::{self, Permit};
use crate::codec;

/// The code of a request that is not sent, because its records take more memory than there is.
const TOO_LARGE: &str = "too_large";

impl Exporter {
    /// Makes the body of a request. One that there is no room for is handed back, to be halved. A single record is made
    /// even so: no line is longer than the tailer reads.
    pub(super) async fn convert(
        &self,
        settings: &FluentBit,
        bodies: Vec<Bytes>,
    ) -> Result<(Chunks, Option<Permit>), Outcome> {
        let is_large = bodies.iter().map(Bytes::len).sum::<usize>() > INLINE_COMPRESS_BYTES;
        let (settings, bodies, size) = work(is_large, {
            let settings = settings.clone();
            move || {
                let size = weir_fluent_bit::measure(&settings, &bodies);
                (settings, bodies, size)
            }
        })
        .await?;
        let (mut permit, compressed) = self.pay(size).await?;
        let made = permit.part(size.bytes);
        let body = work(is_large, move || weir_fluent_bit::write(&settings, &bodies, size)).await?;
        let body = match made {
            Some(made) => budget::charge(body, made),
            // What one record takes beyond the room is not paid for.
            None => Bytes::from(body),
        };
        match compressed {
            None => Ok((self.frame(vec![body], false), Some(permit))),
            Some(most) => self.compress(vec![body], most, permit).await.map_err(Outcome::unsent),
        }
    }

    /// Pays for a body and, beside it, for what compression makes of it; that part is returned as well.
    async fn pay(&self, size: Size) -> Result<(Permit, Option<usize>), Outcome> {
        let room = self.encode.capacity() / 4 * 3;
        let compressed = match self.compression {
            Compression::None => 0,
            _ => codec::most_deflated_of(size.bytes),
        };
        let wanted = match size.bytes + compressed {
            wanted if wanted <= room => wanted,
            // Compression does with less, or the body goes as it is.
            _ if size.bytes + compressed / 2 <= room => room,
            _ if size.records <= 1 => room,
            wanted => {
                let message = format!("{} records take {wanted} bytes, and there is room for {room}", size.records);
                return Err(Outcome::refused(About::Size, TOO_LARGE, message));
            }
        };
        let Some(permit) = self.encode.take(wanted, ANSWER_TIMEOUT).await else {
            return Err(Outcome::unsent("no room to encode the request"));
        };
        let left = wanted.saturating_sub(size.bytes);
        Ok((permit, (compressed > 0 && left > 0).then_some(left.min(compressed))))
    }
}

/// Does the work, on a thread for such work if it is much.
async fn work<T: Send + 'static>(is_much: bool, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Outcome> {
    if !is_much {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Outcome::unsent(format!("cannot convert the request: {error}")))
}
