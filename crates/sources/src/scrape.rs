//! Scraping: pages of metrics that targets serve over HTTP, in Prometheus's formats.
//!
//! The core is pure: `text`, `number`, `sample` and `series` read lines, `family` says what a sample is, `draft` encodes
//! metrics, `known` compares a page with the last one, and `page` puts them together.

mod draft;
mod edit;
mod family;
mod known;
mod number;
mod page;
mod previous;
mod sample;
mod series;

mod text;

pub use page::{Format, Known, PageError, PageRules, Taken, memory};
