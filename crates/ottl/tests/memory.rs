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
    use weir_otlp::build::Encoder;
    use weir_ottl::{Limits, Options, Signal, Transform};

    use super::ALLOCATOR;

    const SCRATCH: usize = 4 << 20;

    fn log(body: String) -> Vec<u8> {
        log_of(any_value::Value::StringValue(body))
    }

    fn log_of(body: any_value::Value) -> Vec<u8> {
        let body = Some(AnyValue { value: Some(body) });
        let log_records = vec![LogRecord { body, ..LogRecord::default() }];
        let scope_logs = vec![ScopeLogs { log_records, ..ScopeLogs::default() }];
        ExportLogsServiceRequest { resource_logs: vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }] }
            .encode_to_vec()
    }

    /// A log record whose body is a list or a map, written as so many times the same bytes.
    fn repeated(is_map: bool, element: &[u8], count: usize) -> Vec<u8> {
        let mut out = Encoder::default();
        let numbers = [1, 2, 2, 5, if is_map { 6 } else { 5 }];
        let open: Vec<_> = numbers.into_iter().map(|number| out.open(number, 1 << 20)).collect();
        (0..count).for_each(|_| out.raw(element));
        open.into_iter().rev().for_each(|open| out.close(open));
        out.into_bytes()
    }

    /// A point of a histogram with an attribute `list`, a list written in the same way.
    fn point(element: &[u8], count: usize) -> Vec<u8> {
        let mut out = Encoder::default();
        let mut open: Vec<_> = [1, 2, 2, 9, 1, 9].into_iter().map(|number| out.open(number, 1 << 20)).collect();
        out.bytes(1, b"list");
        open.extend([2, 5].map(|number| out.open(number, 1 << 20)));
        (0..count).for_each(|_| out.raw(element));
        open.into_iter().rev().for_each(|open| out.close(open));
        out.into_bytes()
    }

    /// The most memory that the expression takes on the way, beside the request and what it becomes.
    fn taken(expression: &str, body: String) -> (usize, bool) {
        taken_by(&format!("set(log.attributes[\"n\"], Len({expression}))"), &log(body))
    }

    /// The same for a statement.
    fn taken_by(statement: &str, request: &[u8]) -> (usize, bool) {
        let statements = [statement.to_owned()];
        let signal = if statement.contains("log.") { Signal::Logs } else { Signal::Metrics };
        let transform = Transform::compile(signal, &Options::transform(signal), &[], &statements).unwrap();
        let limits = Limits { now_unix_nano: 0, max_growth: 1 << 24, max_scratch: SCRATCH };
        let before = ALLOCATOR.begin();
        let done = transform.apply(request, &limits);
        let most = ALLOCATOR.most() - before;
        (most.saturating_sub(done.request.map_or(0, |made| 2 * made.len())), done.statements[0].matched == 1)
    }

    /// In one test, as there is one allocator.
    #[test]
    fn rules_take_no_more_memory_than_they_may() {
        let too_much = [texts_that_become_large(), values_that_become_large()].concat();
        assert!(too_much.is_empty(), "{too_much:#?}");
    }

    /// Lists and maps of elements of two to nine bytes, of which each takes some dozen when it is looked at.
    fn values_that_become_large() -> Vec<String> {
        const EMPTY: &[u8] = &[10, 0];
        const CONTROL: &[u8] = &[10, 6, 10, 4, 1, 1, 1, 1];
        const ENTRY: &[u8] = &[10, 7, 10, 1, b'k', 18, 2, 16, 1];
        let of_maps = [
            "replace_all_patterns(log.body, \"value\", \"x\", \"y\")",
            "replace_all_patterns(log.body, \"key\", \"k\", \"y\")",
            "replace_all_matches(log.body, \"x*\", \"y\")",
            "truncate_all(log.body, 3)",
            "stringify_all(log.body)",
            "delete_key(log.body, \"a\")",
            "flatten(log.body)",
            "merge_maps(log.cache, log.body, \"upsert\")",
            "set(log.attributes[\"n\"], Len(Keys(log.body)))",
            "set(log.attributes[\"n\"], Len(ToKeyValueString(log.body)))",
        ];
        let of_both = [
            "set(log.attributes[\"n\"], Len(Concat([log.body], \"\")))",
            "set(log.attributes[\"n\"], Len(Format(\"%v\", [log.body])))",
            "set(log.attributes[\"n\"], Len(Format(\"%99v\", [log.body])))",
            "set(log.attributes[\"n\"], Len(Format(\"\", [log.body])))",
            "set(log.attributes[\"n\"], Len(String(log.body)))",
            "set(log.attributes[\"n\"], IsMatch(log.body, \"x\"))",
            "set(log.attributes[\"n\"], Len(log.body.string))",
        ];
        let of_lists = [
            "append(log.body, \"x\")",
            "set(log.attributes[\"n\"], Len(Sort(log.body)))",
            "set(log.attributes[\"n\"], Len(SliceToMap(log.body)))",
            "set(log.attributes[\"n\"], Len(Filter(log.body, (k, v) => true)))",
        ];
        let taken = |statement: &str, element: &[u8], bytes: usize, is_map: bool| {
            let (taken, is_done) = taken_by(statement, &repeated(is_map, element, (bytes - 16) / element.len()));
            let case = format!("{statement} of {bytes} bytes of {element:?}");
            println!("{taken:>10} {is_done:5} {case}");
            // Not all that takes a little for each element is counted.
            (taken > SCRATCH + SCRATCH / 4).then(|| format!("{case} took {taken}"))
        };
        let mut too_much = Vec::new();
        for (element, bytes) in
            [EMPTY, ENTRY, CONTROL].into_iter().flat_map(|element| [20, 18, 16].map(|bits| (element, 1 << bits)))
        {
            too_much
                .extend(of_maps.iter().chain(&of_both).filter_map(|statement| taken(statement, element, bytes, true)));
            too_much.extend(
                of_lists.iter().chain(&of_both).filter_map(|statement| taken(statement, element, bytes, false)),
            );
        }
        for verb in ["v", "99d", "z", "s", "q", "x", "% #x"] {
            let statement = format!("set(log.attributes[\"n\"], Len(Format(\"%{verb}\", [log.body])))");
            let (taken, is_done) = taken_by(&statement, &log_of(any_value::Value::BytesValue(vec![0xff; 1 << 20])));
            println!("{taken:>10} {is_done:5} {statement}");
            too_much.extend((taken > SCRATCH).then(|| format!("{statement} took {taken}")));
        }
        for (field, element, count) in [
            ("explicit_bounds", &[10, 9, 33, 0, 0, 0, 0, 0, 0, 0, 0][..], 95_000),
            ("bucket_counts", &[10, 2, 24, 1], 250_000),
        ] {
            let statement = format!("set(datapoint.{field}, datapoint.attributes[\"list\"])");
            let (taken, is_done) = taken_by(&statement, &point(element, count));
            println!("{taken:>10} {is_done:5} {statement}");
            too_much.extend((taken > SCRATCH).then(|| format!("{statement} took {taken}")));
        }
        too_much
    }

    /// A million bytes of the shapes that become the most memory.
    fn texts_that_become_large() -> Vec<String> {
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
            ("Format(\"%s\", [log.body])", filled("a")),
            ("Format(\"%s%s%s%s\", [log.body, log.body, log.body, log.body])", filled("a")),
            ("Format(\"%x\", [log.body])", filled("a")),
            ("Format(\"% #x\", [log.body])", filled("a")),
            ("Format(\"%q\", [log.body])", filled("\u{1}")),
            ("Format(\"%+q\", [log.body])", filled("\u{e9}")),
            ("Format(\"%b\", [log.body])", filled("a")),
            ("ConvertTextToElementsXML(log.body, element_name = \"a-long-name-for-a-text\")", xml(filled("b<c/>"))),
        ];
        let too_much = cases.into_iter().filter_map(|(expression, body)| {
            let start: String = body.chars().take(40).collect();
            let (bytes, is_done) = taken(expression, body);
            println!("{bytes:>10} {is_done:5} {expression} {start}");
            (bytes > SCRATCH).then(|| format!("{expression} of {start} took {bytes}"))
        });
        too_much.collect()
    }
}
