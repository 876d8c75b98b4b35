//! What a `LogPipeline` says to Fluent Bit: `output.http`, and texts in Fluent Bit's own language. The texts may hold
//! credentials and are never shown.

mod custom;
mod http;
mod section;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use weir_fluent_bit::filters;
use weir_plan::{Output, Section};

use crate::diagnostic::Diagnostic;
use crate::document::{Located, Node};
use crate::kinds::reference::secret_key_ref;
use crate::kinds::value::{Resolver, Value};

use custom::Custom;
pub(crate) use http::{COMPRESSIONS, FORMATS, Http};
use section::Text;

/// Plugins that the pipeline itself depends on.
const FORBIDDEN_FILTERS: &[&str] = &["kubernetes", "rewrite_tag"];

/// What has to be looked up once all Secrets are known.
pub(crate) struct FluentBit {
    /// Nothing when it was reported.
    pub(crate) to: Option<To>,
    pub(crate) filters: Vec<Text>,
    /// What texts may refer to.
    pub(crate) names: Names,
    /// What `input.runtime` says of records.
    pub(crate) records: Records,
}

/// Where records go.
pub(crate) enum To {
    Http(Box<Http>),
    Custom(Custom),
}

/// What texts may refer to by name.
#[derive(Default)]
pub(crate) struct Names {
    variables: BTreeMap<String, Value>,
    files: BTreeMap<String, Located<String>>,
    /// Files that something refers to.
    used: RefCell<BTreeSet<String>>,
}

/// What variables stand for; nothing where that was reported.
type Variables<'a> = BTreeMap<&'a str, Option<String>>;

/// What `input.runtime` says of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Records {
    pub(crate) keep_original_body: bool,
    pub(crate) keep_annotations: bool,
    pub(crate) drop_labels: bool,
}

impl FluentBit {
    /// Whether there is text in Fluent Bit's own language.
    pub(crate) fn is_unsupported_mode(&self) -> bool {
        !self.filters.is_empty() || matches!(self.to, Some(To::Custom(_)))
    }

    /// The output and the filters of a pipeline. `None` has been reported, like references that lead nowhere, and what
    /// they lead to when it cannot be used.
    pub(crate) fn compile(&self, resolver: Resolver<'_>) -> Option<(Output, Vec<Section>)> {
        let variables = self.names.resolve(resolver);
        let output = self.to.as_ref().and_then(|to| match to {
            To::Http(http) => http.compile(self.records, resolver),
            To::Custom(custom) => custom.compile(self.records, &self.names, &variables, resolver),
        });
        self.names.warn_of_unused(resolver);
        let sections: Vec<_> = self.filters.iter().map(|text| text.section(&variables, resolver)).collect();
        for (text, section) in self.filters.iter().zip(&sections) {
            text.report(section.as_ref().map(filters::check).unwrap_or_default(), resolver);
        }
        Some((output?, sections.into_iter().collect::<Option<_>>()?))
    }
}

impl Names {
    /// Reads `variables`.
    pub(crate) fn take_variables(&mut self, node: &Node<'_>) {
        for node in node.list() {
            let Some(mut fields) = node.fields() else { continue };
            let name = fields.required("name").and_then(|node| filled(&node));
            let reference = fields.required("valueFrom").and_then(|node| secret_key_ref(&node));
            fields.finish();
            let value = reference.map_or(Value::Invalid, Value::Reference);
            // One without a name is looked up all the same, so that all mistakes are found at once.
            let Some(Located { value: name, place }) = name else {
                self.variables.insert(String::new(), value);
                continue;
            };
            if self.variables.contains_key(&name) {
                let message = format!("variable {} is given twice: the last one counts", place.shown(&name));
                node.findings().push(Diagnostic::warning(&place, message, "a unique name"));
            }
            self.variables.insert(name, value);
        }
    }

    fn resolve(&self, resolver: Resolver<'_>) -> Variables<'_> {
        let resolved = |value| resolver.resolve(value).map(|resolved| resolved.text);
        self.variables.iter().map(|(name, value)| (name.as_str(), resolved(value))).collect()
    }

    /// Reads `files`.
    pub(crate) fn take_files(&mut self, node: &Node<'_>) {
        for node in node.list() {
            let Some(mut fields) = node.fields() else { continue };
            let name = fields.required("name").and_then(|node| filled(&node));
            let content = fields.required("content").and_then(|node| filled(&node));
            fields.finish();
            let Some(Located { value, place }) = name else { continue };
            if self.files.contains_key(&value) {
                let message = format!("file {} is given twice", place.shown(&value));
                node.findings().push(Diagnostic::error(&place, message).value(&value).expected("a unique name"));
            }
            let content = content.map_or_else(String::new, |content| content.value);
            self.files.insert(value, Located { value: content, place });
        }
    }

    /// The content of `/files/NAME`.
    fn file(&self, path: &str) -> Option<&Located<String>> {
        let name = path.strip_prefix("/files/")?;
        self.used.borrow_mut().insert(name.to_owned());
        self.files.get(name)
    }

    fn warn_of_unused(&self, resolver: Resolver<'_>) {
        let used = self.used.borrow();
        for (name, file) in self.files.iter().filter(|(name, _)| !used.contains(*name)) {
            let message = format!("file {} has no effect: nothing refers to it", file.place.shown(name));
            let expected = "/files/NAME as value of tls.ca_file, tls.crt_file or tls.key_file in output.custom";
            resolver.findings.push(Diagnostic::warning(&file.place, message, expected));
        }
    }
}

/// Reads an item of `filters`; nothing for one that says nothing, or was reported.
pub(crate) fn filter(node: &Node<'_>) -> Option<Text> {
    let mut fields = node.fields()?;
    let custom = fields.optional("custom");
    fields.finish();
    let custom = custom?;
    let text = Text::decode(&custom, "custom filter")?;
    if text.is_empty() {
        return None;
    }
    let plugin = text.plugin().unwrap_or_default();
    let forbidden = FORBIDDEN_FILTERS.iter().find(|name| plugin.eq_ignore_ascii_case(name));
    if let Some(name) = forbidden {
        let message = format!("custom filter plugin '{name}' is not supported");
        text.push(0, message, "another filter plugin", node.findings());
    }
    (text.check(&["match"], node.findings()) && forbidden.is_none()).then_some(text)
}

/// Reads `output.custom`.
pub(crate) fn output(custom: &Node<'_>) -> Option<To> {
    let text = Text::decode(custom, "custom output")?;
    text.check(&["match", "storage.total_limit_size"], custom.findings()).then_some(To::Custom(Custom(text)))
}

/// A string that is not empty.
fn filled(node: &Node<'_>) -> Option<Located<String>> {
    let text = node.string()?;
    if text.value.is_empty() {
        node.findings().push(node.error("should be at least 1 chars long"));
        return None;
    }
    Some(text)
}
