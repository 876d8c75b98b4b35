//! Published figures of the same scenarios, measured elsewhere: context, never a comparison on equal terms.

use anyhow::Context;
use serde::Deserialize;

use super::script::Variant;

const DATA: &str = include_str!("../../data/published-kpis.json");

#[derive(Deserialize)]
struct Data {
    traces: Vec<Release>,
}

#[derive(Deserialize)]
struct Release {
    version: String,
    single: Kpis,
    multi: Kpis,
    backpressure: Kpis,
    multi_backpressure: Kpis,
}

#[derive(Deserialize)]
struct Kpis {
    accepted_per_s: f64,
    exported_per_s: f64,
    queue_size: f64,
    memory_mb_per_pod: Vec<f64>,
    cpu_cores_per_pod: Vec<f64>,
}

/// One published row; memory and CPU are summed over its pods.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    pub(crate) version: String,
    pub(crate) accepted_per_s: f64,
    pub(crate) exported_per_s: f64,
    pub(crate) queue_size: f64,
    pub(crate) memory_mb: f64,
    pub(crate) cpu_cores: f64,
}

/// The row of the newest version for a variant of the traces scenario.
pub(crate) fn newest(variant: Variant) -> anyhow::Result<Published> {
    let data: Data = serde_json::from_str(DATA).context("cannot decode published figures")?;
    let newest = data.traces.into_iter().max_by_key(|release| version_key(&release.version));
    let release = newest.context("cannot find a published row: no data")?;
    let kpis = match (variant.multi, variant.backpressure) {
        (false, false) => release.single,
        (true, false) => release.multi,
        (false, true) => release.backpressure,
        (true, true) => release.multi_backpressure,
    };
    Ok(Published {
        version: release.version,
        accepted_per_s: kpis.accepted_per_s,
        exported_per_s: kpis.exported_per_s,
        queue_size: kpis.queue_size,
        memory_mb: kpis.memory_mb_per_pod.iter().sum(),
        cpu_cores: kpis.cpu_cores_per_pod.iter().sum(),
    })
}

/// Orders `0.97`, `0.118.0` and `0.102.1 (new)` by their numbers.
fn version_key(version: &str) -> Vec<u32> {
    let numbers = version.split_whitespace().next().unwrap_or_default();
    numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_row_of_each_variant_is_found() {
        let row = |multi, backpressure| newest(Variant { multi, backpressure }).unwrap();
        let single = row(false, false);
        assert_eq!((single.version.as_str(), single.accepted_per_s, single.memory_mb), ("0.158.0", 24378.0, 222.0));
        assert_eq!(row(true, false).exported_per_s, 49951.0);
        assert_eq!(row(false, true).exported_per_s, 306.0);
        assert_eq!(row(true, true).accepted_per_s, 27405.0);
    }

    #[test]
    fn versions_order_by_number_not_by_text() {
        assert!(version_key("0.118.0") > version_key("0.97 w. GOMEMLIMIT"));
        assert!(version_key("0.102.1 (new)") > version_key("0.100.0"));
    }
}
