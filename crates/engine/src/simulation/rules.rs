//! The rules of some pipelines: one that changes every span, and one that removes some.

use std::sync::Arc;

use weir_plan::{Body, Compression, Endpoint, Filter, Output, Pipeline, PipelineId, Processing, Protocol, Transform};

use crate::rules::{Memory, Rules};

/// Whether the rules remove the span with this id.
pub(super) fn remove(id: u64) -> bool {
    id % 10 == 7
}

pub(super) fn compile(id: &PipelineId) -> Arc<Rules> {
    let endpoint = Endpoint { host: "simulated".into(), port: 1, path: String::new() };
    let (protocol, compression) = (Protocol::Grpc, Compression::None);
    let output =
        Output { protocol, body: Body::Otlp, endpoint, compression, headers: Vec::new(), oauth2: None, tls: None };
    let transforms =
        vec![Transform { conditions: vec![], statements: vec![r#"set(span.attributes["seen"], "yes")"#.into()] }];
    let filters = vec![Filter { conditions: vec![r#"IsMatch(span.name, "7$")"#.into()] }];
    let processing = Processing { transforms, filters, ..Processing::default() };
    let pipeline = Pipeline { processing, ..Pipeline::new(id.signal, id.name.as_str(), output) };
    let memory = Memory { before: None, bytes: 0 };
    Arc::new(Rules::compile(&pipeline, memory, &|| None, 0).unwrap().unwrap())
}
