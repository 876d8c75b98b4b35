//! Promise P3: how the memory is divided among its users, and how large a request can be with that. Every part is here,
//! with what was measured to find its size.

use weir_plan::{MEMORY_PER_PIPELINE, Pipeline, Temporality};

use crate::pipeline::MAX_IN_FLIGHT;
use crate::samples::MAX_BYTES as MAX_SAMPLES_BYTES;
use crate::settings::Settings;
use crate::taps::MAX_RECENT_BYTES;

/// What a connection without a request may cost. Measured with a thousand of each kind. Over HTTP/2: 21 KiB, 9 KiB more
/// for the buffer of a head that it remembers, 22 KiB more in the middle of a frame, and up to 72 KiB after heads as
/// large as they may be, or after hundreds of malformed ones. Over HTTP/1.1: 38 KiB after a large request, and 35 KiB
/// in the middle of a head.
const CONNECTION_BYTES: usize = 72 * 1024;
/// The same with TLS. Measured with hundreds of each kind, after heads as large as they may be: 112 KiB in the middle
/// of a record; 141 KiB in the middle of a TLS message that follows large frames; 168 KiB if the client also has as
/// many certificates as it may have.
const TLS_CONNECTION_BYTES: usize = 168 * 1024;
/// Connections to the admin port with TLS, at once.
pub(crate) const ADMIN_TLS_CONNECTIONS: usize = 8;
/// One process has no use for more connections than this.
const MAX_CONNECTIONS: usize = 16 * 1024;

/// One part in so many of the memory is set aside for streams of new connections while all else is taken. Their
/// requests are refused, which takes an answer.
const OF_MEMORY_FOR_STREAMS: usize = 64;
/// The same for the pages of those who run the gateway: they want to see them most when all else is taken.
const OF_MEMORY_FOR_PAGES: usize = 64;

/// What a piece costs beside its bytes while it is on its way or waits for its next attempt: its obligation, its entry,
/// and its place in a batch and in a request.
pub(crate) const PIECE_BYTES: usize = 512;
/// With a journal, a piece does not pay for this itself once its bytes are on disk: one part in so many of the memory
/// is set aside. Without a journal, pieces that are taken apart may take as much of the memory for payloads.
const OF_MEMORY_FOR_PIECES: usize = 32;
/// Enough to take the largest request apart to a single item, half by half.
const LEAST_FOR_HALVES: usize = 64 << 10;
/// One pipeline has no use for more than this: 16 MiB.
const MAX_PIECES: usize = 32 * 1024;

/// What a connection to a backend may cost while its answer comes, together with another connection that waits for a
/// request. Measured with 640 of them over HTTP/1.1, in the middle of answers with heads as large as they may be: 75
/// KiB, with TLS 97 KiB.
const BACKEND_CONNECTION_BYTES: usize = 160 * 1024;
/// One part in so many of the memory is set aside for these. Over HTTP/1.1 every request needs a connection. A
/// connection over HTTP/2 has many requests, and costs 65 KiB while it waits for them.
const OF_MEMORY_FOR_BACKEND_CONNECTIONS: usize = 32;

/// One part in so many of the memory is set aside for samples of what was lost.
const OF_MEMORY_FOR_SAMPLES: usize = 128;

/// One part in so many of the memory is set aside for recent items.
const OF_MEMORY_FOR_RECENT: usize = 128;

/// One part in so many of the memory is set aside for compressors at work.
const OF_MEMORY_FOR_ENCODERS: usize = 32;
/// Enough for one of the largest compressors, which may have half of it.
const LEAST_FOR_ENCODERS: usize = 3 << 20;
/// For one on each of very many processors.
const MOST_FOR_ENCODERS: usize = 64 << 20;

impl Settings {
    /// Pipelines that there can be at once.
    pub fn most_pipelines(&self) -> usize {
        self.memory / MEMORY_PER_PIPELINE
    }
}

/// How the memory budget is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Division {
    /// The number of pipelines that this is for, including those that are leaving.
    pub(crate) pipelines: usize,
    /// Payloads, from admission until the last pipeline is done with them.
    pub(crate) payloads: usize,
    /// How much of that one pipeline may hold after its clients were answered (without a journal).
    pub(crate) share: usize,
    /// How much one pipeline may read back from the journal at once.
    pub(crate) read_back: usize,
    /// Client connections at once; what they cost is set aside.
    pub(crate) connections: usize,
    /// What one of them may cost.
    connection_bytes: usize,
    /// What connections to the admin port may cost, if they have TLS.
    admin_connections: usize,
    /// What pays for streams of these connections when nothing else does.
    pub(crate) streams: usize,
    /// What pays for pages of metrics and administration before anything else does.
    pub(crate) pages: usize,
    /// Copies and compressed bodies of one pipeline's requests.
    pub(crate) encode: usize,
    /// What the compressors of all pipelines need for themselves.
    pub(crate) encoders: usize,
    /// The largest request to a backend that these parts allow.
    pub(crate) batch_bytes: usize,
    /// Most bytes unanswered by one backend.
    pub(crate) in_flight: usize,
    /// The most pieces of one pipeline whose bytes may be in the journal alone. What they cost is set aside.
    pub(crate) pieces: usize,
    /// Without a journal, how much of the payloads one pipeline may take for pieces that are taken apart, beside their
    /// bytes.
    pub(crate) halves: usize,
    /// What samples of what one pipeline has lost may take.
    pub(crate) samples: usize,
    /// What recent items of one pipeline may take.
    pub(crate) recent: usize,
    /// Connections that one pipeline may use at once. What they cost is set aside.
    pub(crate) backend_connections: usize,
    /// What the conversion of one pipeline's metrics to delta may remember.
    pub(crate) series: usize,
    /// How many pipelines convert to delta.
    deltas: usize,
}

/// A 32nd of the memory for each pipeline that converts to delta, and no more than this: 550,000 sums.
const MAX_SERIES_BYTES: usize = 64 << 20;

impl Division {
    /// The table in docs/gateway.md says what each part gets; payloads have the rest. Without a journal, three quarters
    /// of the rest may be held, so that a quarter is always left for requests on their way to a healthy backend.
    /// `leaving`: pipelines that are not in the plan any more and still use what they had. If there are too many of
    /// them, they are about to end.
    pub(crate) fn new<'a>(settings: &Settings, plan: impl IntoIterator<Item = &'a Pipeline>, leaving: usize) -> Self {
        let (mut pipelines, mut deltas) = (leaving, 0);
        for pipeline in plan {
            pipelines += 1;
            deltas += usize::from(pipeline.processing.temporality == Temporality::Delta);
        }
        Self::among(settings, pipelines.clamp(1, settings.most_pipelines()), deltas)
    }

    fn among(settings: &Settings, pipelines: usize, deltas: usize) -> Self {
        let series = (settings.memory / 32).min(MAX_SERIES_BYTES);
        // If there are very many of them, they have a quarter of the memory together.
        let series = series.min(settings.memory / 4 / deltas.max(1));
        let encode = settings.memory / 8 / pipelines;
        let connection_bytes = connection_bytes(settings);
        let connections = match (settings.grpc_port, settings.http_port) {
            (None, None) => 0,
            _ => (settings.memory / 8 / connection_bytes).min(MAX_CONNECTIONS),
        };
        let has_tls = settings.admin.security.tls.is_some();
        let admin_connections = if has_tls { ADMIN_TLS_CONNECTIONS * TLS_CONNECTION_BYTES } else { 0 };
        let (pieces, halves) = pieces_and_halves(settings, pipelines);
        let samples = (settings.memory / OF_MEMORY_FOR_SAMPLES / pipelines).min(MAX_SAMPLES_BYTES);
        let recent = (settings.memory / OF_MEMORY_FOR_RECENT / pipelines).min(MAX_RECENT_BYTES);
        let backend_connections =
            (settings.memory / OF_MEMORY_FOR_BACKEND_CONNECTIONS / BACKEND_CONNECTION_BYTES / pipelines)
                .clamp(1, MAX_IN_FLIGHT);
        let encoders = (settings.memory / OF_MEMORY_FOR_ENCODERS).clamp(LEAST_FOR_ENCODERS, MOST_FOR_ENCODERS);
        let (streams, pages) = (settings.memory / OF_MEMORY_FOR_STREAMS, settings.memory / OF_MEMORY_FOR_PAGES);
        // Half of the encoding room for each request: one can be compressed while another is on the wire.
        let batch_bytes = settings.batch_bytes.min(encode / 2);
        let aside = Self {
            pipelines,
            payloads: 0,
            share: 0,
            read_back: 0,
            connections,
            connection_bytes,
            admin_connections,
            streams,
            pages,
            encode,
            encoders,
            batch_bytes,
            in_flight: 0,
            pieces,
            halves,
            samples,
            recent,
            backend_connections,
            series,
            deltas,
        };
        aside.and_payloads(settings)
    }

    /// Payloads have what is not set aside.
    fn and_payloads(self, settings: &Settings) -> Self {
        let aside: usize = self.parts().iter().map(|(_, bytes)| bytes).sum();
        let payloads = settings.memory - aside;
        let share = payloads / 4 * 3 / self.pipelines;
        // With a journal nothing stays in memory after its client was answered. Half of that room is for reading back
        // instead.
        let read_back = if settings.journal.is_some() { share / 2 } else { 0 };
        let payloads = payloads - read_back * self.pipelines;
        // A backend that takes its time must not have all the memory that requests arrive in.
        let in_flight = if settings.journal.is_some() { payloads / 2 / self.pipelines } else { share / 4 * 3 };
        Self { payloads, share, read_back, in_flight: in_flight.max(self.batch_bytes), ..self }
    }

    /// How many parts there are.
    pub(crate) const PARTS: usize = 12;

    /// Every part of the memory and its bytes, for all pipelines together, by what it is for.
    pub(crate) fn parts(&self) -> [(&'static str, usize); Self::PARTS] {
        let each = self.pipelines;
        [
            (PAYLOADS, self.payloads),
            (READ_BACK, self.read_back * each),
            (REQUESTS, self.encode * each),
            (COMPRESSORS, self.encoders),
            ("client_connections", self.connections * self.connection_bytes + self.admin_connections),
            (STREAMS, self.streams),
            (PAGES, self.pages),
            ("backend_connections", self.backend_connections * BACKEND_CONNECTION_BYTES * each),
            ("pieces", self.pieces * PIECE_BYTES * each),
            ("samples", self.samples * each),
            ("recent", self.recent * each),
            ("series", self.series * self.deltas),
        ]
    }
}

/// Payloads, from admission until the last pipeline is done with them.
pub(crate) const PAYLOADS: &str = "payloads";
/// What is read back from the journal.
pub(crate) const READ_BACK: &str = "read_back";
/// Copies and compressed bodies of requests to backends.
pub(crate) const REQUESTS: &str = "requests";
/// Compressors at work.
pub(crate) const COMPRESSORS: &str = "compressors";
/// Streams of client connections.
pub(crate) const STREAMS: &str = "streams";
/// Pages of metrics and administration.
pub(crate) const PAGES: &str = "pages";

/// However small the part is in which a pipeline reads back, a request may be this large: larger entries wait for their
/// turn.
const LEAST_LARGEST_REQUEST: usize = 64 << 10;

/// How often a request is in memory at once, for all pipelines of its signal together, until each has what it takes of
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Copies {
    /// Some pipeline wants the noise of a service mesh, or wants to know whose noise it is.
    pub(crate) noise: bool,
    /// Some pipeline has rules.
    pub(crate) rules: bool,
    /// What pipelines keep for themselves, counted in requests.
    pub(crate) own: usize,
}

impl Copies {
    /// A request on its way in: decompressed and read from JSON, or with what enrichment adds.
    const ARRIVING: usize = 4;
    /// A request that rules work on. They may double it, have three requests of that size at a time beside the request
    /// itself, and calculate with as much memory as the request. One of these stays.
    const PROCESSED: usize = 9 - 2;

    pub(crate) fn sum(self) -> usize {
        let passing = if self.rules { Self::PROCESSED } else { Self::ARRIVING };
        passing + usize::from(self.noise) + self.own
    }
}

/// How large a request may be, and on account of what, in bytes. Larger ones are refused for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestLimits {
    /// How often a request is in memory at once, for all pipelines of its signal together.
    pub copies: usize,
    /// As it is configured.
    pub configured: usize,
    /// All pipelines together have memory for it, once nobody else needs any.
    pub memory: usize,
    /// Each pipeline can hold it, with the bookkeeping of its pieces: an eighth of the share is left for that.
    pub share: usize,
    /// Each pipeline can read it back from the journal, after enrichment, and after transforms that may double it. `None`
    /// without a journal.
    pub read_back: Option<usize>,
}

impl RequestLimits {
    /// The largest request that is taken.
    pub fn largest(&self) -> usize {
        let Self { configured, memory, share, read_back, copies: _ } = *self;
        configured.min(memory).min(share).min(read_back.unwrap_or(usize::MAX))
    }

    /// The largest request that is taken, and for which `free` bytes are enough.
    pub(crate) fn largest_within(&self, free: usize) -> usize {
        largest_for(free, self.copies).min(self.largest())
    }

    /// As it is configured, and nothing else.
    #[cfg(test)]
    pub(crate) fn configured(bytes: usize) -> Self {
        Self { copies: 1, configured: bytes, memory: bytes, share: bytes, read_back: None }
    }
}

/// The largest request of which there is room for so many copies, with the bookkeeping of its pieces: a sixteenth is left
/// for that.
fn largest_for(room: usize, copies: usize) -> usize {
    room / 16 * 15 / copies.max(1)
}

impl Division {
    /// What limits requests that need so many copies.
    pub(crate) fn request_limits(&self, configured: usize, copies: Copies) -> RequestLimits {
        let read_back = (self.read_back > 0).then(|| {
            let room = self.read_back.saturating_sub(2 * weir_journal::Journal::TAKE_OVERHEAD) / 16 * 15;
            (room / if copies.rules { 2 } else { 1 }).max(LEAST_LARGEST_REQUEST)
        });
        let copies = copies.sum();
        let memory = largest_for(self.payloads, copies);
        RequestLimits { copies, configured, memory, share: self.share / 8 * 7, read_back }
    }

    /// How much of the payloads may be taken by entries of the journal that are larger than their pipeline's part.
    pub(crate) fn oversized(&self) -> usize {
        self.payloads / 4
    }

    /// How much of the payloads may be taken by pages of administration that the part for pages has no room for.
    pub(crate) fn large_pages(&self) -> usize {
        self.payloads / 8
    }
}

/// How many pieces of one pipeline may be in the journal alone, and the bytes for those that are taken apart without one.
fn pieces_and_halves(settings: &Settings, pipelines: usize) -> (usize, usize) {
    let bytes = settings.memory / OF_MEMORY_FOR_PIECES / pipelines;
    match settings.journal {
        Some(_) => ((bytes / PIECE_BYTES).clamp(1, MAX_PIECES), 0),
        // Each is paid for beside its bytes when it arrives.
        None => (0, bytes.max(LEAST_FOR_HALVES)),
    }
}

fn connection_bytes(settings: &Settings) -> usize {
    if settings.security.tls.is_some() { TLS_CONNECTION_BYTES } else { CONNECTION_BYTES }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_plan::Secret;

    use super::*;
    use crate::settings::{Fsync, Journal, MEMORY, MEMORY_MIN, PortSecurity, PortTls};

    #[test]
    fn connections_with_tls_are_fewer() {
        let plain = Settings { memory: MEMORY, ..Settings::default() };
        let tls = PortTls { cert_pem: String::new(), key_pem: Secret::new(""), client_ca_pem: None };
        let security = PortSecurity { tls: Some(tls), ..PortSecurity::default() };
        let secured = Settings { security, ..plain.clone() };
        assert_eq!(Division::among(&plain, 1, 0).connections, 910);
        assert_eq!(Division::among(&secured, 1, 0).connections, 390);
    }

    fn journal() -> Option<Journal> {
        Some(Journal { fs: Arc::new(weir_testkit::SimFs::new(1)), fsync: Fsync::Always })
    }

    #[test]
    fn the_parts_never_exceed_the_whole() {
        const MOST: usize = usize::MAX;
        for memory in [MEMORY_MIN, 100 << 20, MEMORY, 8 << 30] {
            for (pipelines, deltas, journal) in [
                (1, 0, None),
                (1, 1, journal()),
                (3, 1, None),
                (15, 5, journal()),
                (15, 15, journal()),
                (MOST, MOST, journal()),
            ] {
                let settings = Settings { memory, journal, ..Settings::default() };
                let (pipelines, deltas) =
                    (pipelines.min(settings.most_pipelines()), deltas.min(settings.most_pipelines()));
                let has_journal = settings.journal.is_some();
                let division = Division::among(&settings, pipelines, deltas);
                assert!(division.parts().iter().map(|(_, bytes)| bytes).sum::<usize>() <= memory);
                let shared_out = division.payloads + division.read_back * pipelines;
                assert!(division.share * pipelines <= shared_out / 4 * 3);
                let largest = division.request_limits(usize::MAX, Copies::default()).largest();
                let pieces = largest / division.batch_bytes + 2;
                assert!(largest + pieces * crate::budget::OVERHEAD_BYTES <= division.share);
                assert!(pieces * pipelines * PIECE_BYTES <= division.payloads / 16);
                assert!(largest <= division.payloads / 4);
                assert_eq!(division.pieces > 0, has_journal);
                assert!(division.batch_bytes >= 64 << 10 && division.batch_bytes <= settings.batch_bytes);
            }
        }
    }
}
