//! Reading a Prometheus page.

use std::net::SocketAddr;

use super::http;

/// One scrape.
#[derive(Debug)]
pub(crate) struct Scrape {
    samples: Vec<(String, f64)>,
}

impl Scrape {
    pub(crate) async fn of(address: SocketAddr) -> Self {
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

    /// The value of a sample by its full name with labels.
    pub(crate) fn get(&self, sample: &str) -> f64 {
        match self.samples.iter().find(|(name, _)| name == sample) {
            Some((_, value)) => *value,
            None => panic!("no {sample} in {:?}", self.samples),
        }
    }

    /// The sum of all samples of a metric that carry `label` (written `name="value"`).
    pub(crate) fn sum(&self, metric: &str, label: &str) -> f64 {
        let prefix = format!("{metric}{{");
        let rows = self.samples.iter().filter(|(name, _)| name.starts_with(&prefix) && name.contains(label));
        rows.map(|(_, value)| value).sum()
    }
}
