//! Records and filters of Fluent Bit on log requests of any kind: what is written has the announced size and is valid
//! in its format, and what filters make is a valid request with the records that they did not drop.
//!
//! The input: a byte that picks format and options, lines of text, a zero, a request. Each empty line of the text begins
//! a new filter.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use weir_fluent_bit::{Filters, measure, text, write};
use weir_otlp::{Limits, Signal, validate};
use weir_plan::{Date, DateFormat, FluentBit, FluentBitFormat, Secret, Section, SectionLine, Sink};

/// What filters may take for one record, and for a request.
const MAX_SCRATCH: usize = 1 << 16;
const ROOM: usize = 1 << 24;

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let Some(end) = rest.iter().position(|byte| *byte == 0) else { return };
    let (text, request) = (String::from_utf8_lossy(&rest[..end]), &rest[end + 1..]);
    let settings = settings(*choice);
    let sections: Option<Vec<_>> = text.split("\n\n").map(section).collect();
    let filters = sections.and_then(|sections| Filters::compile(&settings, &sections).ok());
    let Some(records) = records(request) else { return };
    check_body(&settings, request, records);
    let Some(filters) = filters else { return };
    let mut room = ROOM;
    let mut pay = |bytes| room.checked_sub(bytes).map(|left| room = left).is_some();
    let Ok(filtered) = filters.apply_within(request, MAX_SCRATCH, &mut pay) else { return };
    let dropped: u64 = filtered.tallies.iter().map(|tally| tally.dropped).sum();
    let made = filtered.request.as_deref().unwrap_or(request);
    let left = self::records(made).expect("what filters make is valid");
    assert_eq!(left + dropped, records);
    check_body(&settings, made, left);
});

/// Log records of a valid request.
fn records(request: &[u8]) -> Option<u64> {
    let counts = validate(Signal::Logs, request, &Limits::default()).ok()?;
    Some(u64::from(counts.items))
}

fn section(text: &str) -> Option<Section> {
    let line = |line: text::Line<'_>| SectionLine {
        number: line.number,
        key: line.key.to_ascii_lowercase(),
        value: Secret::new(line.value),
    };
    Some(Section { lines: text::lines(text).ok()?.into_iter().map(line).collect() })
}

fn check_body(settings: &FluentBit, request: &[u8], records: u64) {
    let size = measure(settings, &[request]);
    assert_eq!(size.records as u64, records);
    let body = write(settings, &[request], size);
    assert_eq!(body.len(), size.bytes);
    let objects = match settings.format {
        FluentBitFormat::Json => serde_json::from_slice(&body).map(|list: Vec<IgnoredAny>| list.len()),
        FluentBitFormat::JsonLines | FluentBitFormat::JsonStream | FluentBitFormat::Gelf => {
            let objects: Result<Vec<IgnoredAny>, _> = Deserializer::from_slice(&body).into_iter().collect();
            objects.map(|list| list.len())
        }
        FluentBitFormat::MsgPack => return,
    };
    assert_eq!(objects.expect("valid JSON") as u64, records);
}

fn settings(choice: u8) -> FluentBit {
    let is_set = |bit: u8| choice & (1 << bit) != 0;
    let formats = [
        FluentBitFormat::Json,
        FluentBitFormat::JsonLines,
        FluentBitFormat::JsonStream,
        FluentBitFormat::MsgPack,
        FluentBitFormat::Gelf,
    ];
    FluentBit {
        to: Sink::Http,
        format: formats[usize::from(choice & 7) % formats.len()],
        date: Date { key: is_set(3).then(|| "date".to_owned()), format: DateFormat::Iso8601 },
        kyma: is_set(4),
        dedot: is_set(5),
        labels: is_set(6),
        annotations: is_set(6),
        keep_original_body: is_set(7),
    }
}
