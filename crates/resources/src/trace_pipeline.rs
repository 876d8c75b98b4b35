//! `TracePipeline`: its fields, and its pipeline in the plan.

use weir_plan::{Backlog, Pipeline, Signal};

use crate::Version;
use crate::backlog;
use crate::node::{Fields, Node};
use crate::object::{self, Metadata};
use crate::otlp_output::{self, OtlpOutput};
use crate::value::Resolver;

/// What OTLP/HTTP appends to an endpoint for spans.
const SIGNAL_PATH: &str = "/v1/traces";

/// A checked document.
pub(crate) struct TracePipeline {
    pub(crate) metadata: Metadata,
    /// Nothing when it was reported.
    output: Option<OtlpOutput>,
    backlog: Backlog,
}

impl TracePipeline {
    /// Reads a document of this kind. Nothing comes back only for a document without a valid name, which is reported.
    pub(crate) fn decode(mut document: Fields<'_>, version: Version) -> Option<Self> {
        let mut backlog = Backlog::default();
        let metadata = object::metadata(&mut document, |annotations| backlog = backlog::decode(annotations));
        let output = document.required("spec").and_then(|spec| decode_spec(&spec, version));
        document.ignore(&["status"]);
        document.finish();
        Some(Self { metadata: metadata?, output, backlog })
    }

    /// Follows references. `None` has been reported.
    pub(crate) fn compile(&self, resolver: Resolver<'_>) -> Option<Pipeline> {
        let output = otlp_output::compile(self.output.as_ref()?, SIGNAL_PATH, resolver)?;
        let name = self.metadata.name.value.clone();
        Some(Pipeline { backlog: self.backlog, ..Pipeline::new(Signal::Traces, name, output) })
    }
}

fn decode_spec(spec: &Node<'_>, version: Version) -> Option<OtlpOutput> {
    let mut fields = spec.fields()?;
    let output = fields.required("output").and_then(|output| {
        let mut fields = output.fields()?;
        let otlp = fields.required("otlp").and_then(|otlp| OtlpOutput::decode(&otlp, version));
        fields.finish();
        otlp
    });
    for key in ["transform", "filter"] {
        if let Some(node) = fields.optional(key).filter(|node| !node.is_empty_list()) {
            spec.findings()
                .push(node.error(format!("{key} is not yet supported")).expected("the field to be left out"));
        }
    }
    fields.finish();
    output
}
