//! What a target is asked for, and what its answer says of itself.
//!
//! Pages are asked for as they are: to inflate a page costs more than to compare it with the last one, and a target is
//! near. What a server compresses all the same is inflated, to the size of a page at most.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use tokio::task;
use weir_engine::{Encoding, InflateError, Permit};

use super::failure::FetchError;
use super::page::Format;
use super::target::Target;

/// What we read, what we like best first: of texts, the next one can be compared with the last.
pub(super) const TEXTS: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.8,\
                     application/openmetrics-text;version=0.0.1;q=0.7,\
                     text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";

/// What we like better where native histograms are wanted, which no text has.
const PROTOBUF: &str =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;escaping=allow-utf-8";

/// The compression that a target is asked for.
pub(super) const NOT_COMPRESSED: &str = "identity";

/// The formats that a target is asked for.
pub(super) fn accepted(target: &Target) -> String {
    if target.has_native_histograms() { format!("{PROTOBUF};q=0.9,{TEXTS}") } else { TEXTS.to_owned() }
}

/// What a page is written in. Without a word about it, it is Prometheus's own format.
pub(super) fn format(headers: &HeaderMap) -> Result<Format, FetchError> {
    let Some(value) = headers.get(CONTENT_TYPE) else { return Ok(Format::Text) };
    let text = String::from_utf8_lossy(value.as_bytes());
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    match kind.as_str() {
        "application/openmetrics-text" => Ok(Format::OpenMetrics),
        "" | "text/plain" => Ok(Format::Text),
        "application/vnd.google.protobuf" if parts.all(is_of_delimited_families) => Ok(Format::Protobuf),
        _ => Err(FetchError::of_content_type(&text)),
    }
}

/// Whether a parameter of the content type of a page in protobuf does not say that there is something else on it.
fn is_of_delimited_families(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    match name.trim().to_ascii_lowercase().as_str() {
        "proto" => value.trim().trim_matches('"') == "io.prometheus.client.MetricFamily",
        "encoding" => value.trim().trim_matches('"') == "delimited",
        _ => true,
    }
}

/// How a page is compressed.
pub(super) struct Compressed {
    /// As the server says it.
    name: String,
    encoding: Encoding,
}

impl Compressed {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, FetchError> {
        let name = headers.get(CONTENT_ENCODING).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let name = name.unwrap_or_default();
        match Encoding::from_header(&name.to_ascii_lowercase()) {
            Some(encoding) => Ok(Self { name, encoding }),
            None => Err(FetchError::of_content_encoding(&name)),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.encoding == Encoding::Identity
    }

    /// The page as it was before. The permit pays for the body, and then for the page.
    pub(super) async fn undo(
        self,
        body: Vec<u8>,
        mut permit: Permit,
        most: usize,
    ) -> Result<(Vec<u8>, Permit), FetchError> {
        if self.is_none() {
            return Ok((body, permit));
        }
        let Self { name, encoding } = self;
        let work = task::spawn_blocking(move || {
            let page = encoding.inflate(&body, most, &mut permit)?;
            permit.shrink_to(page.capacity());
            Ok((page, permit))
        });
        let corrupt = |cause| FetchError::Corrupt { encoding: name, cause };
        match work.await.unwrap_or_else(|error| Err(InflateError::Corrupt(error.into()))) {
            Ok(page) => Ok(page),
            Err(InflateError::TooLarge { limit }) => Err(FetchError::TooLarge(limit)),
            Err(InflateError::NoMemory) => Err(FetchError::NoMemory),
            Err(InflateError::Corrupt(error)) => Err(corrupt(error.to_string())),
            Err(error) => Err(corrupt(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::target::Job;
    use super::*;

    fn format_of(content_type: &'static str) -> Option<Format> {
        format(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))])).ok()
    }

    #[test]
    fn content_types_say_what_a_page_is_written_in() {
        assert_eq!(format(&HeaderMap::new()).ok(), Some(Format::Text));
        for (content_type, expected) in [
            ("", Some(Format::Text)),
            ("text/plain; version=0.0.4; charset=utf-8", Some(Format::Text)),
            ("Text/Plain;version=1.0.0;escaping=allow-utf-8", Some(Format::Text)),
            ("application/openmetrics-text; version=0.0.1", Some(Format::OpenMetrics)),
            ("application/vnd.google.protobuf", Some(Format::Protobuf)),
            (PROTOBUF, Some(Format::Protobuf)),
            ("application/vnd.google.protobuf; encoding=\"delimited\"", Some(Format::Protobuf)),
            ("application/vnd.google.protobuf; encoding=text", None),
            ("application/vnd.google.protobuf; proto=io.prometheus.client.Metric; encoding=delimited", None),
            ("text/html", None),
            ("application/json", None),
        ] {
            assert_eq!(format_of(content_type), expected, "{content_type}");
        }
    }

    #[test]
    fn protobuf_is_asked_for_where_native_histograms_are_wanted() {
        let target = Target::new("http://a/", Job::Static).unwrap();
        assert!(!accepted(&target).contains("protobuf"));
        assert!(accepted(&target.with_native_histograms()).starts_with(PROTOBUF));
    }
}
