//! Bodies as Fluent Bit sends them. All that is made of a request is paid for at once, before it is made, except of a
//! single record that is larger than the room for it ([`MOST_RECORD`]).

use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};
use weir_fluent_bit::Size;
use weir_plan::{Compression, FluentBit};

use super::body::Chunks;
use super::{ANSWER_TIMEOUT, About, Exporter, INLINE_COMPRESS_BYTES, Outcome, TOO_LARGE};
use crate::budget::{self, Budget, Permit};
use crate::codec;

/// A single record is made although there is no room for it, up to this size in bytes, one at a time ([`LARGE`]).
const MOST_RECORD: usize = 4 << 20;

impl Exporter {
    /// Makes the body of a request. A request that there is no room for is refused, and halved. A single record of up to
    /// [`MOST_RECORD`] is made even without room.
    pub(super) async fn convert(
        &self,
        settings: &FluentBit,
        bodies: Vec<Bytes>,
    ) -> Result<(Chunks, Option<Permit>), Outcome> {
        let large = if self.answers.load(Ordering::Relaxed) { &LARGE.answering } else { &LARGE.others };
        let made = convert(settings, bodies, self.compression, &self.encode, large).await?;
        let Converted { body, permit, compressed } = made;
        match compressed {
            None => Ok((self.frame(vec![body], false), Some(permit))),
            Some(most) => self.compress(vec![body], most, permit).await.map_err(Outcome::unsent),
        }
    }
}

/// The body of a request.
pub(super) struct Converted {
    pub(super) body: Bytes,
    /// What is paid for beside it.
    pub(super) permit: Permit,
    /// The part of that for what compression makes of the body.
    compressed: Option<usize>,
}

/// Makes a body, which is paid for from `encode`, or by the turn in `large`.
pub(super) async fn convert(
    settings: &FluentBit,
    bodies: Vec<Bytes>,
    compression: Compression,
    encode: &Budget,
    large: &'static Semaphore,
) -> Result<Converted, Outcome> {
    let is_large = bodies.iter().map(Bytes::len).sum::<usize>() > INLINE_COMPRESS_BYTES;
    let (settings, bodies, size) = work(is_large, {
        let settings = settings.clone();
        move || {
            let size = weir_fluent_bit::measure(&settings, &bodies);
            (settings, bodies, size)
        }
    })
    .await?;
    let (mut permit, compressed) = pay(size, compression, encode).await?;
    let made = permit.part(size.bytes);
    let turn = if made.is_some() { None } else { Some(turn_in(large).await?) };
    // The work goes on when nobody waits for it any more, so it has what pays for it.
    let body = work(is_large || size.bytes > INLINE_COMPRESS_BYTES, move || {
        let body = weir_fluent_bit::write(&settings, &bodies, size);
        match (made, turn) {
            (Some(made), _) => budget::charge(body, made),
            (None, turn) => Bytes::from_owner(LargeRecord { body, _turn: turn }),
        }
    })
    .await?;
    Ok(Converted { body, permit, compressed })
}

/// A record that is larger than the room for it is not paid for. So there is one such body in the process at a time,
/// however many pipelines have such records, and another one for backends that may not answer: each of those keeps its
/// turn for as long as a request may take, and the others do not wait for them.
pub(super) static LARGE: LargeRecords =
    LargeRecords { answering: Semaphore::const_new(1), others: Semaphore::const_new(1) };

pub(super) struct LargeRecords {
    /// Of backends that answered the last request.
    answering: Semaphore,
    /// Of those that did not, or had none, and of the standard output.
    pub(super) others: Semaphore,
}

struct LargeRecord {
    body: Vec<u8>,
    _turn: Option<SemaphorePermit<'static>>,
}

impl AsRef<[u8]> for LargeRecord {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

async fn turn_in(large: &'static Semaphore) -> Result<SemaphorePermit<'static>, Outcome> {
    let turn = tokio::time::timeout(ANSWER_TIMEOUT, large.acquire()).await;
    turn.ok().and_then(Result::ok).ok_or_else(|| Outcome::unsent("a large record of another pipeline is being sent"))
}

/// Pays for a body and, beside it, for what compression makes of it; that part is returned as well.
async fn pay(size: Size, compression: Compression, encode: &Budget) -> Result<(Permit, Option<usize>), Outcome> {
    let room = encode.capacity() / 4 * 3;
    let compressed = match compression {
        Compression::None => 0,
        _ => codec::most_deflated_of(size.bytes),
    };
    let wanted = match size.bytes + compressed {
        wanted if wanted <= room => wanted,
        // Compression does with less, or the body goes as it is.
        _ if size.bytes + compressed / 2 <= room => room,
        _ if size.records <= 1 && size.bytes <= MOST_RECORD => room,
        _ => {
            let Size { bytes, records } = size;
            let message = format!(
                "{records} records take {bytes} bytes; there is room for {room}, with what they are compressed to"
            );
            return Err(Outcome::refused(About::Size, TOO_LARGE, message));
        }
    };
    let Some(permit) = encode.take(wanted, ANSWER_TIMEOUT).await else {
        return Err(Outcome::unsent("no room to encode the request"));
    };
    let left = wanted.saturating_sub(size.bytes);
    Ok((permit, (compressed > 0 && left > 0).then_some(left.min(compressed))))
}

/// Does the work, on a thread for such work if it is much.
async fn work<T: Send + 'static>(is_much: bool, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Outcome> {
    if !is_much {
        return Ok(work());
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Outcome::unsent(format!("cannot convert the request: {error}")))
}

#[cfg(test)]
mod tests {
    use bytes::Buf;
    use weir_otlp::build::Encoder;
    use weir_otlp::field::{any_value, log_record, request, resource_data, scope_data};
    use weir_plan::{Body, Date, DateFormat, Endpoint, FluentBitFormat, Output, Pipeline, Protocol, Signal, Sink};

    use super::super::BackendLimits;
    use super::*;
    use crate::settings;

    const ROOM: usize = 1 << 20;

    fn settings() -> FluentBit {
        FluentBit {
            to: Sink::Http,
            format: FluentBitFormat::Json,
            date: Date { key: Some("date".to_owned()), format: DateFormat::Iso8601 },
            kyma: true,
            dedot: false,
            labels: true,
            annotations: false,
            keep_original_body: true,
        }
    }

    fn exporter(compression: Compression) -> Exporter {
        exporter_to(443, compression, &BackendLimits::new(Budget::for_encoding(ROOM), 1))
    }

    fn exporter_to(port: u16, compression: Compression, limits: &BackendLimits) -> Exporter {
        let endpoint = Endpoint { host: "localhost".into(), port, path: "/".into() };
        let (protocol, body) = (Protocol::Http, Body::FluentBit(settings()));
        let output = Output { protocol, body, endpoint, compression, headers: Vec::new(), oauth2: None, tls: None };
        let pipeline = Pipeline::new(Signal::Logs, "backend", output);
        Exporter::new(&pipeline, limits, Budget::for_encoding(3 << 20), &settings::Proxy::default()).unwrap()
    }

    /// A large record of a backend that answered before a reload does not wait for those that do not.
    #[tokio::test]
    async fn it_is_known_after_a_reload_whether_a_backend_answers() {
        let limits = BackendLimits::new(Budget::for_encoding(ROOM), 1);
        let answers = |exporter: &Exporter| exporter.answers.load(Ordering::Relaxed);
        let first = exporter_to(443, Compression::None, &limits);
        assert!(!answers(&first));
        first.answers.store(true, Ordering::Relaxed);
        assert!(answers(&exporter_to(443, Compression::Gzip, &limits)), "to the same endpoint");
        let moved = exporter_to(444, Compression::None, &limits);
        assert!(!answers(&moved), "to another one");
        first.answers.store(true, Ordering::Relaxed);
        assert!(!answers(&moved), "requests to the old one are still under way");
    }

    fn records(count: usize, bytes: usize) -> Vec<Bytes> {
        let mut out = Encoder::default();
        let (resource, scope) = (out.open(request::RESOURCES, 0), out.open(resource_data::SCOPES, 0));
        for _ in 0..count {
            let record = out.open(scope_data::ITEMS, bytes);
            let body = out.open(log_record::BODY, bytes);
            out.bytes(any_value::STRING_VALUE, &b"x".repeat(bytes));
            out.close(body);
            out.close(record);
        }
        out.close(scope);
        out.close(resource);
        vec![out.into_bytes().into()]
    }

    #[tokio::test]
    async fn what_is_made_is_paid_for_and_what_has_no_room_is_handed_back() {
        for compression in [Compression::None, Compression::Gzip] {
            let exporter = exporter(compression);
            for (count, bytes) in [(1, 10), (100, 1000), (1, 300_000)] {
                let (body, permit) = exporter.convert(&settings(), records(count, bytes)).await.unwrap();
                let (made, used) = (body.remaining(), exporter.encode.used());
                assert!((made..ROOM).contains(&used), "{made} bytes, {used} are paid for");
                assert_eq!(body.is_compressed(), compression == Compression::Gzip);
                drop((body, permit));
                assert_eq!((exporter.encode.used(), exporter.encoders.used()), (0, 0));
            }
            let refused = exporter.convert(&settings(), records(10, 200_000)).await.unwrap_err();
            let Outcome::Refused(refusal) = refused else { panic!("{refused:?}") };
            assert_eq!((refusal.about, &*refusal.code), (About::Size, TOO_LARGE));
            assert!(refusal.message.starts_with("10 records take 2000"), "{}", refusal.message);
            // One record always goes.
            let (body, _permit) = exporter.convert(&settings(), records(1, 2_000_000)).await.unwrap();
            assert!(body.remaining() > 2_000_000 && exporter.encode.used() >= ROOM / 2);
            assert!(exporter.convert(&settings(), records(1, 5_000_000)).await.is_err(), "but not at any price");
        }
    }
}
