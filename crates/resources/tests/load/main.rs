//! Configurations as a user writes them, and what becomes of them.

mod convert;
mod enrichment;
mod examples;
mod plan;
mod reference;
mod render;
mod robust;
mod rules;
mod schema;
mod scrapables;
mod signals;
mod state;

use std::time::{Duration, SystemTime};

use weir_plan::Plan;
use weir_resources::{Loaded, Options, Source, load};

/// Outside of a cluster, on 2026-06-01, the day on which certificates are judged.
fn options() -> Options {
    Options::at(SystemTime::UNIX_EPOCH + Duration::from_secs(1_780_272_000))
}

/// The plan of a configuration in one file.
fn plan(text: &str) -> Plan {
    loaded(text).plan
}

/// All that comes of it.
fn loaded(text: &str) -> Loaded {
    let source = Source { name: "x.yaml".to_owned(), text: text.to_owned() };
    load(&[source], &options()).unwrap_or_else(|report| panic!("{report}\n{text}"))
}

/// A pipeline and this document.
fn with_pipeline(document: &str) -> String {
    format!(
        "{document}\n---\napiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\nmetadata: {{name: x}}\n\
         spec: {{output: {{otlp: {{endpoint: {{value: 'b:1'}}}}}}}}\n"
    )
}
