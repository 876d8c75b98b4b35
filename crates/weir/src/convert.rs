//! `weir convert`: documents in another version of their API.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::Value;
use weir_loadtest::output::printed;
use weir_resources::{Files, Source, Version};

use crate::cli::{ApiVersion, ConvertArgs};
use crate::{configuration, findings};

/// What findings about the output call it.
const OUTPUT: &str = "output";

/// Prints all documents, converted where they have versions. Nothing is printed unless all can be. What the other version
/// does not allow is printed as well, and named.
pub(crate) fn convert(args: &ConvertArgs) -> anyhow::Result<ExitCode> {
    let to = match args.to {
        ApiVersion::V1alpha1 => Version::V1Alpha1,
        ApiVersion::V1beta1 => Version::V1Beta1,
    };
    let files = Files::read(&args.paths);
    let documents = match files.documents() {
        Ok(documents) => documents,
        Err(report) => {
            findings::print(&report.diagnostics, &files.sources)?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut converted = Vec::new();
    for (source, documents) in documents {
        converted.extend(convert_all(source, documents, to)?);
    }
    let text = converted.iter().map(|document| format!("---\n{document:#}\n")).collect();
    let output = Source { name: OUTPUT.to_owned(), text };
    printed(io::stdout().write_all(output.text.as_bytes()))?;
    let errors = weir_resources::errors(&output, &configuration::options(false));
    if errors.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    findings::print(&errors, &[output])?;
    bail!("`weir check` refuses the output as it is; the lines named are those of the output")
}

fn convert_all(source: &Source, documents: Vec<Value>, to: Version) -> anyhow::Result<Vec<Value>> {
    let convert = |document| convert_one(document, to).with_context(|| source.name.clone());
    documents.into_iter().map(convert).collect()
}

/// A document, or each item of a list.
fn convert_one(mut document: Value, to: Version) -> anyhow::Result<Value> {
    if weir_resources::is_convertible(&document) {
        return Ok(weir_resources::convert(document, to)?);
    }
    if document.get("kind").is_some_and(|kind| kind == "List")
        && let Some(items) = document.get_mut("items").and_then(Value::as_array_mut)
    {
        for item in items {
            *item = convert_one(item.take(), to)?;
        }
    }
    Ok(document)
}
