//! The lines in an export request of log records: in the body, or in an attribute where an agent has put it.

use bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::{Malformed, each_message, message_end};
use crate::lines::{Finding, find, find_within};

const BODY: u32 = 5;
const ATTRIBUTES: u32 = 6;
/// First byte of a value that is a text: field 1, length-delimited.
const TEXT: u8 = 1 << 3 | 2;

/// What each record of an encoded request is, in order.
///
/// # Errors
/// The bytes are not a protobuf message of that shape.
pub(crate) fn find_lines(mut request: &[u8]) -> Result<Vec<Finding>, Malformed> {
    let mut findings = Vec::new();
    each_message(&mut request, 0, &[1], &mut |resource, end| {
        each_message(resource, end, &[2], &mut |scope, end| {
            each_message(scope, end, &[2], &mut |record, end| {
                findings.push(find_line(record, end)?);
                Ok(())
            })
        })
    })?;
    Ok(findings)
}

fn find_line(record: &mut &[u8], end: usize) -> Result<Finding, Malformed> {
    let mut found = Finding::Unmarked;
    while record.remaining() > end && found == Finding::Unmarked {
        let (field, wire_type) = decode_key(record)?;
        match (wire_type, field) {
            (WireType::LengthDelimited, BODY) => found = in_body(take(record, end)?),
            (WireType::LengthDelimited, ATTRIBUTES) => found = find_within(take(record, end)?),
            _ => skip_field(wire_type, field, record, DecodeContext::default())?,
        }
    }
    record.advance(record.remaining().checked_sub(end).ok_or(Malformed::TooLong)?);
    Ok(found)
}

fn in_body(value: &[u8]) -> Finding {
    let mut text = value;
    if text.first() == Some(&TEXT) {
        text.advance(1);
        if decode_varint(&mut text).is_ok_and(|length| length == text.len() as u64) {
            return find(text);
        }
    }
    find_within(value)
}

/// The bytes of a length-delimited field.
fn take<'a>(record: &mut &'a [u8], end: usize) -> Result<&'a [u8], Malformed> {
    let inner_end = message_end(record, end)?;
    let (value, rest) = record.split_at(record.len() - inner_end);
    *record = rest;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, KeyValueList};
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use prost::Message;

    use super::*;
    use crate::lines::example::{ID, line};

    fn value(value: Value) -> Option<AnyValue> {
        Some(AnyValue { value: Some(value) })
    }

    fn attribute(key: &str, text: String) -> KeyValue {
        KeyValue { key: key.to_owned(), value: value(Value::StringValue(text)), ..KeyValue::default() }
    }

    fn request(log_records: Vec<LogRecord>) -> Vec<u8> {
        let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
        let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
        ExportLogsServiceRequest { resource_logs }.encode_to_vec()
    }

    #[test]
    fn a_line_is_found_in_the_body_or_in_an_attribute() {
        let in_attribute = vec![attribute("log.iostream", "stdout".to_owned()), attribute("message", line())];
        let map = KeyValueList { values: in_attribute.clone() };
        let records = vec![
            LogRecord { body: value(Value::StringValue(line())), ..LogRecord::default() },
            LogRecord {
                body: value(Value::StringValue(format!(r#"{{"message":"{}"}}"#, line()))),
                ..LogRecord::default()
            },
            LogRecord { body: value(Value::KvlistValue(map)), ..LogRecord::default() },
            LogRecord {
                attributes: in_attribute,
                body: value(Value::StringValue("x".to_owned())),
                ..LogRecord::default()
            },
            LogRecord { body: value(Value::StringValue("other".to_owned())), ..LogRecord::default() },
            LogRecord { body: value(Value::StringValue(line()[..100].to_owned())), ..LogRecord::default() },
            LogRecord::default(),
        ];
        let line = Finding::Line(ID);
        let expected = [line, line, line, line, Finding::Unmarked, Finding::Damaged, Finding::Unmarked];
        assert_eq!(find_lines(&request(records)).unwrap(), expected);
    }

    #[test]
    fn damaged_requests_do_not_panic() {
        let record = LogRecord { attributes: vec![attribute("message", line())], ..LogRecord::default() };
        let whole = request(vec![record.clone(), record]);
        for length in 1..whole.len() {
            assert!(find_lines(&whole[..length]).is_err(), "{length}");
        }
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len());
                bytes[at] = rng.u8(..);
            }
            let _ = find_lines(&bytes);
        }
    }
}
