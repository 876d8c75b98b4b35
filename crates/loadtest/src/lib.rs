//! The judge: a generator, a fault-injecting sink, and scenarios that put a system under test between the two.
//!
//! It is a black box on purpose: it shares neither the wire nor the engine with the gateway. It decodes OTLP with its
//! own reduced messages, so that an error of the gateway cannot hide in code that both share. Of the workspace it uses
//! only `weir-units`: sizes and durations are typed alike for all commands, and no verdict depends on how they are read.
//! It must not know how a gateway works inside: it sees OTLP sockets, processes, and the Prometheus metrics any gateway
//! shows.
//!
//! Invariants:
//! - JUDGE-1: the generator gives every span, data point and log record an id of its own within its signal, never 0,
//!   and ids are dense: loss and duplication are counted by comparing sets, never assumed from rates.
//! - JUDGE-2: a fault is decided before data is recorded; a request the sink answers with an error records nothing.
//! - JUDGE-3: an id is "acknowledged" only after the whole OK answer was read; a request with no answer has an
//!   unknown outcome and creates no obligation.
//! - JUDGE-4: the judge says so when it is itself the bottleneck.
//! - JUDGE-5: Weir passes only when every acknowledged id was seen at every sink. What a gateway says it still holds
//!   decides how a missing id is called, lost or pending, never whether it is missing.
//! - JUDGE-6: figures of processing mean something only if it was done: what a filter is to drop must not arrive, and
//!   what a rule writes must arrive.
//! - JUDGE-7: a line of a log file is known by its own text alone, whole and unchanged or not at all. A line that did
//!   not arrive is lost, unless every file that held it was deleted before the judge could ask: those are counted apart.
//! - JUDGE-8: a sample of a page is known by its own name, labels and value, and from its value the scrape that it was
//!   made for. A page that was taken to the end arrives whole and once.

#![forbid(unsafe_code)]

mod accept;
mod chunks;
mod codec;
pub mod command;
pub mod compare;
mod cpu;
pub mod demo;
mod files;
pub mod flags;
pub mod grpc;
pub mod ids;
pub mod latency;
pub mod lines;
pub mod load;
mod marked;
pub mod output;
pub mod ports;
mod report;
mod runtime;
mod scan;
pub mod scenario;
pub mod series;
pub mod signal;
pub mod sink;
pub mod timeline;
