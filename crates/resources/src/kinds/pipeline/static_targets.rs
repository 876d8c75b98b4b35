//! The annotation that names what a MetricPipeline scrapes where no cluster says it.

use http::Uri;

use crate::document::Node;

/// Reads addresses with commas between them. What is wrong has been reported.
pub(crate) fn decode(node: &Node<'_>) -> Option<Vec<String>> {
    let text = node.string()?;
    let mut targets = Vec::new();
    for url in text.value.split(',').map(str::trim) {
        let parsed: Option<Uri> = url.parse().ok();
        let is_whole =
            parsed.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some());
        if !is_whole {
            let message = format!("{} is not the address of a page of metrics", text.place.shown(url));
            let expected = "addresses with commas between them, for example http://localhost:9100/metrics";
            node.findings().push(node.error(message).value(url).expected(expected));
            return None;
        }
        targets.push(url.to_owned());
    }
    Some(targets)
}
