//! `weir crds`: what a cluster has to know of the kinds.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use weir_loadtest::output::printed;
use weir_resources::schema::{ConversionWebhook, custom_resource_definitions};

use crate::cli::{CrdsArgs, ManifestFormat};
use crate::yaml;

/// The path of the webhook that converts.
const CONVERT: &str = "/convert";

/// Prints the CustomResourceDefinitions.
pub(crate) fn run(args: &CrdsArgs) -> anyhow::Result<ExitCode> {
    let conversion = ConversionWebhook::service(&args.namespace, &args.service, CONVERT);
    let definitions = custom_resource_definitions(&conversion);
    let text = match args.format {
        ManifestFormat::Yaml => yaml::documents(&definitions),
        ManifestFormat::Json => format!("{:#}\n", list(definitions)),
    };
    printed(io::stdout().write_all(text.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

/// One document, as programs want it.
fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
