//! What functions take on the way to their results, counted by the allocator: a rule takes no more than it may.

use weir_testkit::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

#[cfg(test)]
mod functions {
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value};
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use prost::Message;
    use weir_ottl::{Limits, Options, Signal, Transform};

    use super::ALLOCATOR;

    const SCRATCH: usize = 4 << 20;

    fn log(body: String) -> Vec<u8> {
        let body = Some(AnyValue { value: Some(any_value::Value::StringValue(body)) });
        let log_records = vec![LogRecord { body, ..LogRecord::default() }];
        let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
        ExportLogsServiceRequest { resource_logs: vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }] }
            .encode_to_vec()
    }

    /// The most memory that the expression takes on the way, beside the request and what it becomes.
    fn taken(expression: &str, body: String) -> (usize, bool) {
        let statement = format!("set(log.attributes[\"n\"], Len({expression}))");
        let transform = Transform::compile(Signal::Logs, &Options::transform(Signal::Logs), &[], &[statement]).unwrap();
        let request = log(body);
        let limits = Limits { now_unix_nano: 0, max_growth: 1 << 24, max_scratch: SCRATCH };
        let before = ALLOCATOR.begin();
        let done = transform.apply(&request, &limits);
        let most = ALLOCATOR.most() - before;
        (most.saturating_sub(done.request.map_or(0, |made| 2 * made.len())), done.statements[0].matched == 1)
    }

    /// A million bytes of the shapes that become the most memory. In one test, as there is one allocator.
    #[test]
    fn functions_take_no_more_memory_than_they_may() {
        let filled = |unit: &str| unit.repeat((1 << 20) / unit.len() - 2);
        let numbered =
            |unit: &str| (0..60_000).map(|number| unit.replace('N', &number.to_string())).collect::<String>();
        let xml = |inside: String| format!("<a>{inside}</a>");
        let names = |count: usize| (0..count).map(|number| format!("f{number} ")).collect::<String>();
        let cases = [
            ("ParseKeyValue(log.body)", filled("a= ")),
            ("ParseKeyValue(log.body)", filled("a ")),
            ("ParseKeyValue(log.body)", numbered("kN=1 ")),
            ("ParseKeyValue(log.body)", format!("a=\"{}\"", filled(" "))),
            ("ParseELF(log.body)", format!("#Version: 1\n#Fields: a b\n{}", filled("1 2\n"))),
            ("ParseELF(log.body)", format!("#Version: 1\n#Fields: {}\n", filled("a "))),
            ("ParseELF(log.body)", filled("#Fields: a b c d e f g h\n")),
            ("ParseELF(log.body)", format!("#Version: 1\n#Fields: {}\n{}", names(1000), "x\n".repeat(1000))),
            ("ParseELF(log.body)", format!("#Version: 1\n#Fields: {}\n{}", "a".repeat(500_000), "x\n".repeat(1000))),
            ("ParseELF(log.body)", format!("#Version: 1\n#Fields: a\n{}", filled("x "))),
            ("ParseCEF(log.body)", format!("CEF:0|a|b|c|d|e|f|{}", numbered("kN=1 "))),
            ("ParseLEEF(log.body)", format!("LEEF:1.0|a|b|c|d|{}", numbered("kN=1\t"))),
            ("ParseCSV(log.body, log.body)", filled("a,")),
            ("ParseCSV(log.body, log.body)", numbered("kN,")),
            ("URL(log.body)", format!("?{}", numbered("kN=1&"))),
            ("URL(log.body)", format!("?{}", filled("a&"))),
            ("Split(log.body, \"a\")", filled("ab")),
            ("Split(log.body, \"\")", filled("a")),
            ("Sort(Split(log.body, \"a\"))", filled("ab")[..80_000].to_owned()),
            ("ToSnakeCase(log.body)", filled("aB")),
            ("ToCamelCase(log.body)", filled("a_b")),
            ("ToUpperCase(log.body)", filled("\u{250}")),
            ("ToLowerCase(log.body)", filled("\u{23a}")),
            ("ParseXML(log.body)", xml(filled("<b/>"))),
            ("ParseXML(log.body)", xml(filled("<b>c</b>")[..400_000].to_owned())),
            ("ParseXML(log.body)", format!("<a {}/>", (0..1000).map(|n| format!("a{n}='' ")).collect::<String>())),
            ("ParseXML(log.body)", xml(filled("<a b='' c='' d='' e='' f='' g='' h='' i='' j='' k='' l=''/>"))),
            ("ParseSimplifiedXML(log.body)", xml(filled("<b>c</b>")[..400_000].to_owned())),
            ("ParseSimplifiedXML(log.body)", xml(numbered("<bN>c</bN>"))),
            ("GetXML(log.body, \"//node()//node()\")", xml(filled("<b>c</b>")[..80_000].to_owned())),
            ("GetXML(log.body, \"//@*\")", xml(filled("<a b='' c='' d='' e='' f='' g=''/>"))),
            ("GetXML(log.body, \"//*\")", format!("{}{}{}", "<b>".repeat(100), filled("\u{a9}\""), "</b>".repeat(100))),
            ("InsertXML(log.body, \"//b\", \"<c/>\")", xml(filled("<b/>")[..80_000].to_owned())),
            ("RemoveXML(log.body, \"//b\")", xml(filled("<b/>"))),
            ("ConvertAttributesToElementsXML(log.body)", xml(filled("<a b='' c='' d='' e='' f='' g=''/>"))),
            ("ConvertTextToElementsXML(log.body, element_name = \"a-long-name-for-a-text\")", xml(filled("b<c/>"))),
        ];
        let too_much = cases.into_iter().filter_map(|(expression, body)| {
            let start: String = body.chars().take(40).collect();
            let (bytes, is_done) = taken(expression, body);
            println!("{bytes:>10} {is_done:5} {expression} {start}");
            (bytes > SCRATCH).then(|| format!("{expression} of {start} took {bytes}"))
        });
        let too_much: Vec<_> = too_much.collect();
        assert!(too_much.is_empty(), "{too_much:#?}");
    }
}
