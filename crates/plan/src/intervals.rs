//! How often metrics are fetched.

use std::time::Duration;

/// The time between two looks, of each input that fetches metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionIntervals {
    /// Metrics of nodes and workloads.
    pub runtime: Duration,
    /// Annotated pods and services.
    pub prometheus: Duration,
    /// Istio's proxies.
    pub istio: Duration,
}

impl CollectionIntervals {
    /// What the pipeline API promises where nothing is said.
    pub const DEFAULT: Duration = Duration::from_secs(30);
}

impl Default for CollectionIntervals {
    fn default() -> Self {
        Self { runtime: Self::DEFAULT, prometheus: Self::DEFAULT, istio: Self::DEFAULT }
    }
}
