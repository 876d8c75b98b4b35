//! `weir convert`: documents in another version of their API; and documents of files for whoever needs them in one version.

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
    let Some(converted) = documents(&Files::read(&args.paths), to)? else { return Ok(ExitCode::FAILURE) };
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

/// All documents of these files, in this version where they have versions. `None` when they cannot be read; why is printed.
pub(crate) fn documents(files: &Files, to: Version) -> anyhow::Result<Option<Vec<Value>>> {
    let documents = match files.documents() {
        Ok(documents) => documents,
        Err(report) => {
            findings::print(&report.diagnostics, &files.sources)?;
            return Ok(None);
        }
    };
    let mut converted = Vec::new();
    for (source, documents) in documents {
        converted.extend(convert_all(source, documents, to)?);
    }
    Ok(Some(converted))
}

/// With the items of a list in the place of the list.
pub(crate) fn unlisted(documents: Vec<Value>) -> Vec<Value> {
    let each = |mut document: Value| match items_of(&mut document) {
        Some(items) => unlisted(std::mem::take(items)),
        None => vec![document],
    };
    documents.into_iter().flat_map(each).collect()
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
    for item in items_of(&mut document).into_iter().flatten() {
        *item = convert_one(item.take(), to)?;
    }
    Ok(document)
}

/// Nothing of a document that is no list.
fn items_of(document: &mut Value) -> Option<&mut Vec<Value>> {
    let is_list = document.get("kind").is_some_and(|kind| kind == "List");
    document.get_mut("items").filter(|_| is_list)?.as_array_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_in_lists_is_converted_and_found() {
        let of = |version: &str, name: &str| {
            let api_version = format!("telemetry.kyma-project.io/{version}");
            json!({"apiVersion": api_version, "kind": "TracePipeline", "metadata": {"name": name}})
        };
        let list = |items: Value| json!({"apiVersion": "v1", "kind": "List", "items": items});
        let of_version = |version| {
            let inner = list(json!([of(version, "b")]));
            vec![of(version, "a"), list(json!([inner, of(version, "c"), 7])), json!({"kind": "List"})]
        };
        let source = Source { name: "a.yaml".to_owned(), text: String::new() };
        let converted = convert_all(&source, of_version("v1alpha1"), Version::V1Beta1).unwrap();
        assert_eq!(converted, of_version("v1beta1"), "in their lists");
        let all = ["a", "b", "c"].map(|name| of("v1beta1", name));
        let found = unlisted(converted).into_iter().filter(weir_resources::is_convertible);
        assert_eq!(found.collect::<Vec<_>>(), all);
    }
}
