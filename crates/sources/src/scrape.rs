//! Scraping: pages of metrics that targets serve over HTTP, in Prometheus's formats.
//!
//! The core is pure: `text`, `number`, `sample` and `series` read lines, `family` says what a sample is, `draft` encodes
//! metrics, `known` compares a page with the last one, whose metrics are kept compressed (`packed`), `reader` reads a page
//! that differs, copying what was there (`previous`), and `page` puts them together. `protobuf` does all of this for pages
//! in protobuf. `relabel` has Prometheus's rules for the labels of targets and samples, `rules` what becomes of labels by
//! them, and `home` which resource and scope a sample is of. `stale` marks series that are gone, and `exemplars` adds
//! exemplars. `own_times` has what a page says of the time, `start_time` when counters began, and `unit` translates units.
//! `discovery` finds what is scraped in a cluster.
//!
//! Around it: `target` is what is scraped, `fetch` gets its page, as `negotiation` asks for it, also from behind Istio's
//! sidecars (`mesh`) and where it redirects (`redirect`), and `failure` says why there is none. `request` puts metrics into
//! requests (`inputs`: which input takes which), `schedule` says when a target is due, and `scraper` does it again and
//! again for each target. How that goes is on the crate's `board`. `raw_page` reads a page for people.

mod discovery;
mod draft;
mod exemplars;
mod failure;
mod family;
mod fetch;
mod home;
mod inputs;
mod known;
mod mesh;
mod negotiation;
mod number;
mod own_times;
mod packed;
mod page;
mod previous;
mod protobuf;
mod raw_page;
mod reader;
mod redirect;
mod relabel;
mod request;
mod rules;
mod sample;
mod schedule;
mod scraper;
mod series;
mod stale;
mod start_time;
mod target;
mod text;
mod unit;

pub use crate::board::{DroppedTarget, Failure, LastScrape, TargetBoard};
pub use crate::inlet::{Loss, Lost};
pub use discovery::{Discovered, discover};
pub use failure::FetchError;
pub use mesh::ISTIO_CERTIFICATES;
pub use page::{Format, LastPage, OverLimit, PageError, PageRules, Taken};
pub(crate) use raw_page::PageReader;
pub use raw_page::{RawPage, SHOWN_BYTES, Viewing};
pub use redirect::BadRedirect;
pub use relabel::{Action, BadRule, Labels, Relabeling, Rule};
pub use scraper::{BODY_LIMIT, ReadyToScrape, SAMPLE_LIMIT, Scraper, Settings};
pub use target::{Job, NoTarget, Target};
