//! `/api/sample`: a refused request as `/rejected` has it, made a sample for `weir try`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_otlp::Signal;

use super::json::{Refusal, document, show};

/// See the module.
#[derive(Debug)]
pub(super) struct SamplePage;

/// What `/rejected` has of a sample.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    signal: String,
    /// OTLP protobuf in base64.
    otlp: String,
    #[serde(default = "super::json::yes")]
    redact: bool,
}

impl Page for SamplePage {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST]
    }

    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        match sample(asked.body) {
            Ok(sample) => show(body, &sample),
            Err(refusal) => refusal.show(body),
        }
    }
}

fn sample(request: &[u8]) -> Result<Value, Refusal> {
    let Refused { signal, otlp, redact } = serde_json::from_slice(request)
        .map_err(|error| Refusal::wrong(format!("cannot read what was refused: {error}")))?;
    let known = Signal::ALL
        .into_iter()
        .find(|known| known.name() == signal)
        .ok_or_else(|| Refusal::wrong(format!("there is no signal {signal:?}: it is traces, metrics or logs")))?;
    let request = STANDARD.decode(otlp).map_err(|error| Refusal::wrong(format!("otlp is not in base64: {error}")))?;
    match document(known, &request, redact) {
        Value::Null => Err(Refusal::wrong("otlp is no OTLP of that signal: was it cut, because it was too long?")),
        sample => Ok(json!({"sample": sample})),
    }
}
