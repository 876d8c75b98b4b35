//! Enrichment of whole requests, checked against what prost decodes.

#[cfg(test)]
mod access_logs;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod metric_noise;
#[cfg(test)]
mod model;
#[cfg(test)]
mod noise;
#[cfg(test)]
mod pods;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod service;
#[cfg(test)]
mod support;
