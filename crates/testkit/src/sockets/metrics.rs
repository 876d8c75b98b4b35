//! Reading a Prometheus page.

use std::cell::RefCell;
use std::net::SocketAddr;

use super::{eventually_or, http};

/// One scrape.
#[derive(Debug)]
pub struct Scrape {
    samples: Vec<(String, f64)>,
}

/// A number of items or bytes, which has no fraction.
pub fn whole(value: f64) -> u64 {
    // The sum of nothing is -0.
    (value + 0.0).to_string().parse().unwrap()
}

/// What a scrape says about a pipeline's items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Books {
    /// Taken from clients.
    pub accepted: u64,
    /// Found in the journal at the start.
    pub recovered: u64,
    /// Taken by the backend.
    pub delivered: u64,
    /// Left out by rules.
    pub filtered: u64,
    /// For whatever reason.
    pub dropped: u64,
    /// With whatever code.
    pub rejected: u64,
    /// Still owed.
    pub pending: u64,
}

impl Scrape {
    /// What an engine says of itself now.
    pub async fn of(address: SocketAddr) -> Self {
        let page = http::get(address, "/metrics").await;
        assert_eq!(page.status, 200);
        let text = page.text();
        assert!(text.ends_with("# EOF\n"), "the page is complete");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.trim_end_matches("{}").to_owned(), value.parse().unwrap())
        });
        Self { samples: samples.collect() }
    }

    /// Waits until nothing of a pipeline is pending; its books then.
    pub async fn settled(address: SocketAddr, pipeline: &str) -> Books {
        let page = RefCell::new(Self::of(address).await);
        let failure = || format!("nothing is pending: {:#?}", page.borrow().of_pipeline(pipeline));
        eventually_or(failure, async || {
            page.replace(Self::of(address).await);
            page.borrow().books(pipeline).pending == 0
        })
        .await;
        page.into_inner().books(pipeline)
    }

    /// What says something of a pipeline, or of the journal, and is not zero.
    fn of_pipeline(&self, pipeline: &str) -> Vec<&(String, f64)> {
        let label = format!("pipeline=\"{pipeline}\"");
        let tells = |name: &str| name.contains(&label) || name.starts_with("weir_journal_");
        self.samples.iter().filter(|(name, value)| *value != 0.0 && tells(name)).collect()
    }

    /// All samples of a metric, by their labels.
    pub fn rows(&self, metric: &str) -> Vec<(&str, f64)> {
        let labels = |name: &'_ str| name.strip_prefix(metric).is_some_and(|rest| rest.starts_with('{'));
        let rows = self.samples.iter().filter(|(name, _)| labels(name));
        rows.map(|(name, value)| (&name[metric.len()..], *value)).collect()
    }

    /// The value of a sample by its full name with labels.
    pub fn get(&self, sample: &str) -> f64 {
        match self.samples.iter().find(|(name, _)| name == sample) {
            Some((_, value)) => *value,
            None => panic!("no {sample} in {:?}", self.samples),
        }
    }

    /// A sample of `pipeline`.
    pub fn figure(&self, metric: &str, pipeline: &str) -> f64 {
        self.get(&format!("{metric}{{pipeline=\"{pipeline}\",signal=\"traces\"}}"))
    }

    /// The books of a pipeline; they balance (promise P4).
    pub fn books(&self, pipeline: &str) -> Books {
        let label = format!("pipeline=\"{pipeline}\"");
        let sum = |metric: &str| whole(self.sum(metric, &label));
        let books = Books {
            accepted: sum("weir_pipeline_accepted_items_total"),
            recovered: sum("weir_pipeline_recovered_items_total"),
            delivered: sum("weir_pipeline_delivered_items_total"),
            filtered: sum("weir_pipeline_filtered_items_total"),
            dropped: sum("weir_pipeline_dropped_items_total"),
            rejected: sum("weir_pipeline_rejected_items_total"),
            pending: sum("weir_pipeline_pending_items"),
        };
        let ended = books.delivered + books.filtered + books.dropped + books.rejected;
        assert_eq!(books.accepted + books.recovered, ended + books.pending, "{pipeline}: {books:?}");
        assert_eq!(sum("weir_books_mismatches_total"), 0, "{pipeline}: {books:?}");
        books
    }

    /// The sum of all samples of a metric that carry `label` (written `name="value"`).
    pub fn sum(&self, metric: &str, label: &str) -> f64 {
        let prefix = format!("{metric}{{");
        let rows = self.samples.iter().filter(|(name, _)| name.starts_with(&prefix) && name.contains(label));
        rows.map(|(_, value)| value).sum()
    }
}
