//! Scraping: pages of metrics that targets serve over HTTP, in Prometheus's formats.
//!
//! The core is pure: `text`, `number`, `sample` and `series` read lines, `family` says what a sample is, `draft` encodes
//! metrics, `known` compares a page with the last one, and `page` puts them together.

//!
//! Around it: `target` is what is scraped, `fetch` gets its page, `request` puts metrics into requests, and `scraper` does
//! it again and again for each target.

mod draft;
mod edit;
mod family;
mod fetch;
mod known;
mod number;
mod page;
mod previous;
mod request;
mod sample;
mod scraper;
mod series;
mod target;

mod text;

pub use fetch::FetchError;
pub use page::{Format, Known, PageError, PageRules, Taken, memory};
pub use scraper::{BODY_LIMIT, LastScrape, SAMPLE_LIMIT, Scraper, TargetBoard};
pub use target::{NoTarget, Target};
