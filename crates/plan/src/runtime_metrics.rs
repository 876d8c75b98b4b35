//! Metrics of nodes and workloads: which there are, and which of them a pipeline takes.

mod table;

use std::fmt;

use crate::RuntimeResource;

/// A metric of the input `runtime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeMetric {
    /// Its name, which is that of the Collector's receivers `kubelet_stats` and `k8s_cluster`.
    pub name: &'static str,
    /// Its unit; empty where it has none.
    pub unit: &'static str,
    /// What its points are.
    pub data: RuntimeData,
    /// With which resource a pipeline gets it; `None`: only pipelines that name it do.
    pub resource: Option<RuntimeResource>,
    /// What it says, for people.
    pub about: &'static str,
}

/// What the points of a metric are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeData {
    /// Values of a moment.
    Gauge,
    /// A cumulative sum that only grows.
    Counter,
    /// A cumulative sum that may fall.
    UpDown,
}

/// Some of all metrics of the input `runtime`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RuntimeMetrics(u128);

impl RuntimeMetric {
    /// All there are, in the order of their names.
    pub const ALL: &[Self] = table::ALL;

    /// The metric with this name, and where it stands among all.
    fn of(name: &str) -> Option<(usize, &'static Self)> {
        let index = Self::ALL.binary_search_by(|metric| metric.name.cmp(name)).ok()?;
        Some((index, &Self::ALL[index]))
    }
}

impl RuntimeMetrics {
    /// All there are.
    pub fn all() -> Self {
        RuntimeMetric::ALL.iter().map(|metric| metric.name).collect()
    }

    /// Those of some resources.
    pub fn of(resources: &[RuntimeResource]) -> Self {
        let wanted = |metric: &&RuntimeMetric| metric.resource.is_some_and(|resource| resources.contains(&resource));
        RuntimeMetric::ALL.iter().filter(wanted).map(|metric| metric.name).collect()
    }

    /// Adds a metric. Returns whether there is one of this name.
    pub fn insert(&mut self, name: &str) -> bool {
        let found = RuntimeMetric::of(name);
        if let Some((index, _)) = found {
            self.0 |= 1 << index;
        }
        found.is_some()
    }

    /// The metric with this name, if it is one of these.
    pub fn get(self, name: &str) -> Option<&'static RuntimeMetric> {
        let (index, metric) = RuntimeMetric::of(name)?;
        (self.0 >> index & 1 == 1).then_some(metric)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their names, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let metrics = RuntimeMetric::ALL.iter().enumerate();
        metrics.filter(move |(index, _)| self.0 >> index & 1 == 1).map(|(_, metric)| metric.name)
    }
}

impl<'a> FromIterator<&'a str> for RuntimeMetrics {
    /// Names that no metric has are left out.
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            all.insert(name);
        }
        all
    }
}

impl fmt::Debug for RuntimeMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_is_found_by_its_name_and_has_a_bit() {
        assert!(RuntimeMetric::ALL.is_sorted_by(|one, other| one.name < other.name));
        assert!(RuntimeMetric::ALL.len() <= 128);
        for metric in RuntimeMetric::ALL {
            let only: RuntimeMetrics = [metric.name].into_iter().collect();
            assert_eq!(only.get(metric.name), Some(metric));
            assert_eq!(only.names().collect::<Vec<_>>(), [metric.name]);
        }
        assert_eq!(RuntimeMetrics::all().names().count(), RuntimeMetric::ALL.len());
        assert!(!RuntimeMetrics::default().insert("k8s.pod.nothing"));
    }

    /// As many as the Kyma Telemetry module documents.
    #[test]
    fn each_resource_has_its_metrics() {
        let count = |resource| RuntimeMetrics::of(&[resource]).names().count();
        assert_eq!(RuntimeResource::ALL.map(count), [14, 16, 10, 5, 4, 2, 4, 5]);
        let all = RuntimeMetrics::of(&RuntimeResource::ALL);
        assert!(all.get("k8s.pod.phase").is_some() && all.get("k8s.pod.uptime").is_none());
        assert!(RuntimeMetrics::of(&[]).is_empty());
    }
}
