//! Each filter, with what Fluent Bit's documentation and its source say of it; and what holds for any record.

use proptest::prelude::*;
use serde_json::{Value, json};
use weir_plan::{Date, DateFormat, FluentBit, Format, Secret, Section, SectionLine, Sink};

use super::fields::{self, Fields};
use super::*;
use crate::members::{MOST_FIELDS, Members};
use crate::tests::{POD, request, settings};
use crate::text;

fn section(text: &str) -> Section {
    let line = |line: text::Line<'_>| SectionLine {
        number: line.number,
        key: line.key.to_ascii_lowercase(),
        value: Secret::new(line.value),
    };
    Section { lines: text::lines(text).unwrap().into_iter().map(line).collect() }
}

fn filters(sections: &[&str]) -> Filters {
    let sections: Vec<_> = sections.iter().map(|text| section(text)).collect();
    Filters::compile(&settings(Format::Json), &sections).unwrap()
}

/// What is wrong with a section.
fn wrong(text: &str) -> String {
    let wrong = Filters::compile(&settings(Format::Json), &[section(text)]).unwrap_err();
    wrong.iter().map(Wrong::to_string).collect::<Vec<_>>().join("\n")
}

fn record(json: &str) -> Fields<'_> {
    let mut members = Members::default();
    members.read(json, MOST_FIELDS).unwrap();
    let value = |value| fields::Value::Json(std::borrow::Cow::Borrowed(value));
    let list = members.of(json).map(|member| fields::Field { name: member.name(), value: value(member.value) });
    Fields { list: list.collect(), room: 1 << 20 }
}

/// What filters make of a record; nothing when they drop it.
fn applied(sections: &[&str], json: &str) -> Option<String> {
    let filters = filters(sections);
    let mut record = record(json);
    let mut tallies = vec![Tally::default(); sections.len()];
    let effect = filters.run(&mut record, &mut tallies);
    assert_eq!(tallies.iter().map(|tally| tally.errors).sum::<u64>(), 0, "{tallies:?}");
    let made = record.to_json();
    assert!(effect != Effect::None || made == json, "{made}");
    (effect != Effect::Dropped).then_some(made)
}

/// A section, and a record before and after it.
fn check(text: &str, cases: &[(&str, &str)]) {
    for (before, after) in cases {
        assert_eq!(applied(&[text], before).as_deref(), Some(*after), "{text}: {before}");
    }
}

fn is_kept(text: &str, json: &str) -> bool {
    applied(&[text], json).is_some()
}

#[test]
fn grep_keeps_and_drops() {
    let object = r#"{"log":"an error","code":500,"kubernetes":{"labels":{"app":"cart","a'b":"x"},"list":["a","b"]}}"#;
    for (text, kept) in [
        ("Name grep\nRegex log err", true),
        ("Name grep\nRegex log ^err", false),
        ("Name grep\nExclude log err", false),
        ("Name grep\nExclude missing .", true),
        ("Name grep\nRegex missing .", false),
        ("name GREP\nREGEX $kubernetes['labels']['app'] ^cart$", true),
        ("Name grep\nRegex $kubernetes['labels']['a''b'] x", true),
        ("Name grep\nRegex $kubernetes['list'][1] b", true),
        ("Name grep\nRegex $kubernetes['list'][2] .", false),
        // Only texts match.
        ("Name grep\nRegex code 500", false),
        ("Name grep\nRegex kubernetes .", false),
        ("Name grep\nRegex log /ERROR/i", true),
        // The first rule that decides: one that keeps always does.
        ("Name grep\nRegex log err\nExclude log an", true),
        ("Name grep\nExclude log an\nRegex log err", false),
        ("Name grep\nRegex log nothing\nRegex log err", false),
        ("Name grep\nLogical_Op or\nRegex log nothing\nRegex log err", true),
        ("Name grep\nLogical_Op AND\nRegex log nothing\nRegex log err", false),
        ("Name grep\nLogical_Op And\nExclude log nothing\nExclude log err", true),
        ("Name grep\nLogical_Op or\nExclude log nothing\nExclude log err", false),
        ("Name grep\nLogical_Op or\nExclude log nothing\nExclude log never", true),
    ] {
        assert_eq!(is_kept(text, object), kept, "{text}");
    }
}

#[test]
fn record_modifier_adds_and_removes() {
    check(
        "Name record_modifier\nRecord host node 1\nRecord a b",
        &[
            (r#"{"log":"x"}"#, r#"{"log":"x","host":"node 1","a":"b"}"#),
            // Names are unique.
            (r#"{"host":1,"log":"x"}"#, r#"{"log":"x","host":"node 1","a":"b"}"#),
        ],
    );
    check(
        "Name record_modifier\nRemove_key MEM.*\nRemove_key swap",
        &[(r#"{"Mem.total":1,"Swap":2,"Swap.used":3}"#, r#"{"Swap.used":3}"#), (r#"{"a":1}"#, r#"{"a":1}"#)],
    );
    check(
        "Name record_modifier\nAllowlist_key a\nWhitelist_key b*",
        &[(r#"{"a":1,"bc":2,"ca":3}"#, r#"{"a":1,"bc":2}"#)],
    );
}

#[test]
fn modify_changes_fields() {
    check("Name modify\nSet a \"b c\"", &[(r#"{"a":1,"x":2}"#, r#"{"x":2,"a":"b c"}"#), ("{}", r#"{"a":"b c"}"#)]);
    check("Name modify\nAdd a b", &[(r#"{"a":1}"#, r#"{"a":1}"#), (r#"{"x":1}"#, r#"{"x":1,"a":"b"}"#)]);
    check("Name modify\nRemove a", &[(r#"{"a":1,"b":2}"#, r#"{"b":2}"#)]);
    check("Name modify\nRemove_wildcard Mem*", &[(r#"{"Mem.total":1,"mem":2}"#, r#"{"mem":2}"#)]);
    check("Name modify\nRemove_regex ^.e", &[(r#"{"Mem":1,"me":2,"em":3}"#, r#"{"em":3}"#)]);
    let both = r#"{"a":1,"b":2,"c":3}"#;
    check("Name modify\nRename a d", &[(both, r#"{"d":1,"b":2,"c":3}"#), (r#"{"x":1}"#, r#"{"x":1}"#)]);
    check("Name modify\nRename a c", &[(both, both)]);
    check("Name modify\nHard_rename a c", &[(both, r#"{"c":1,"b":2}"#)]);
    check("Name modify\nCopy a d", &[(both, r#"{"a":1,"d":1,"b":2,"c":3}"#)]);
    check("Name modify\nCopy a c", &[(both, both)]);
    check("Name modify\nHard_copy a c", &[(both, r#"{"a":1,"c":1,"b":2}"#)]);
    check("Name modify\nHard_copy c a", &[(both, r#"{"b":2,"c":3,"a":3}"#)]);
    check("Name modify\nMove_to_start c\nMove_to_end a", &[(both, r#"{"c":3,"b":2,"a":1}"#)]);
}

#[test]
fn modify_has_conditions() {
    let json = r#"{"Mem.used":"201","swap":"no","flag":true,"k":{"a":"b"},"n":5}"#;
    for (condition, holds) in [
        ("Key_exists swap", true),
        ("Key_exists $k['a']", true),
        ("Key_exists $k['b']", false),
        ("Key_does_not_exist swap", false),
        ("Key_does_not_exist none", true),
        ("A_key_matches ^Mem", true),
        ("A_key_matches ^mem", false),
        ("No_key_matches ^mem", true),
        ("Key_value_equals swap no", true),
        ("Key_value_equals $k['a'] b", true),
        ("Key_value_equals n 5", false),
        ("Key_value_does_not_equal swap no", false),
        ("Key_value_does_not_equal swap yes", true),
        ("Key_value_does_not_equal none yes", false),
        ("Key_value_matches Mem.used ^2", true),
        ("Key_value_matches flag true", true),
        ("Key_value_does_not_match Mem.used ^2", false),
        ("Key_value_does_not_match none ^2", false),
        ("Matching_keys_have_matching_values ^Mem ^2", true),
        ("Matching_keys_have_matching_values ^(Mem|swap) ^2", false),
        ("Matching_keys_have_matching_values ^none x", true),
        ("Matching_keys_do_not_have_matching_values ^(Mem|swap) ^2", true),
    ] {
        let made = applied(&[&format!("Name modify\nCondition {condition}\nAdd added yes")], json).unwrap();
        assert_eq!(made.contains("added"), holds, "{condition}");
    }
    let both = "Name modify\nCondition Key_exists swap\nCondition Key_exists none\nAdd added yes";
    assert_eq!(applied(&[both], json).unwrap(), json, "all must hold");
}

#[test]
fn nest_puts_fields_into_an_object_and_lifts_them() {
    check(
        "Name nest\nOperation nest\nWildcard Mem.*\nWildcard x\nNest_under stats\nRemove_prefix Mem.",
        &[
            (r#"{"Mem.total":1,"Mem.free":2,"key":"3","x":4}"#, r#"{"key":"3","stats":{"total":1,"free":2,"x":4}}"#),
            (r#"{"key":1}"#, r#"{"key":1}"#),
        ],
    );
    check(
        "Name nest\nOperation lift\nNested_under stats\nAdd_prefix s.",
        &[
            (r#"{"stats":{"a":1,"b":{"c":2}},"x":1}"#, r#"{"x":1,"s.a":1,"s.b":{"c":2}}"#),
            (r#"{"stats":1}"#, r#"{"stats":1}"#),
            (r#"{"stats":{}}"#, "{}"),
        ],
    );
    // What was made can be lifted again.
    let nest = "Name nest\nOperation nest\nWildcard *\nNest_under a";
    let lift = "Name nest\nOperation lift\nNested_under a";
    assert_eq!(applied(&[nest, nest, lift, lift], r#"{"x":"\n","y":[1]}"#).unwrap(), r#"{"x":"\n","y":[1]}"#);
}

#[test]
fn parser_reads_texts() {
    let json = "Name parser\nKey_Name log\nParser json";
    check(
        json,
        &[
            (r#"{"log":"{\"a\": [1], \"b\":\"\\n\"}","x":1}"#, r#"{"a":[1],"b":"\n"}"#),
            (r#"{"log":"no","x":1}"#, r#"{"log":"no","x":1}"#),
            (r#"{"log":5}"#, r#"{"log":5}"#),
            (r#"{"x":1}"#, r#"{"x":1}"#),
        ],
    );
    let before = r#"{"log":"{\"a\":1,\"x\":2}","x":1}"#;
    check(&format!("{json}\nReserve_Data On"), &[(before, r#"{"a":1,"x":1}"#)]);
    check(&format!("{json}\nPreserve_Key On"), &[(before, r#"{"a":1,"x":2,"log":"{\"a\":1,\"x\":2}"}"#)]);
    check(
        "Name parser\nKey_Name $k['t']\nParser json\nParser logfmt\nReserve_Data true",
        &[(
            r#"{"k":{"t":"a=1 b=\"x \\\" y\" c d= e=\"\""}}"#,
            r#"{"a":"1","b":"x \" y","c":true,"d":true,"e":"","k":{"t":"a=1 b=\"x \\\" y\" c d= e=\"\""}}"#,
        )],
    );
}

#[test]
fn patterns_mean_what_they_mean_in_ruby() {
    use super::pattern::Pattern;
    for (pattern, text, matches) in [
        ("^b$", "a\nb\nc", true),
        (r"\Ab", "a\nb", false),
        (r"b\Z", "a\nb\n", true),
        ("a.b", "a\nb", false),
        ("/a.b/m", "a\nb", true),
        ("(?m:a.b)", "a\nb", true),
        ("(?i)A(?-i)b", "ab", true),
        ("/a b/x", "ab", true),
        (r"^\d+$", "٣", false),
        (r"^\h{2}$", "aF", true),
        (r"^[\h\-]+$", "a-F", true),
        (r"^[\w-.]+$", "a-.", true),
        (r"^[^\s]+$", "a b", false),
        ("^[a-c&&[^b]]+$", "b", false),
        ("^[]x]$", "]", true),
        ("^[[:digit:]x]+$", "1x", true),
        ("^{a}$", "{a}", true),
        ("^a{,2}$", "aa", true),
        (r"^\x41\/\<$", "A/<", true),
        ("^(?<name>a)(?'other'b)(?#no)$", "ab", true),
        ("^a{2}+$", "aaaa", true),
        ("/var/log", "/var/log", true),
        (r"^a\R$", "a\r\n", true),
        // Options without a colon are a group up to the end of the one around them.
        ("^(?i)error|warn$", "no warn", false),
        ("^(a(?i)b|c)d$", "aCd", true),
        ("^(a(?i)b|c)d$", "aCD", false),
        ("(?x)^a b # (a comment", "ab", true),
        // White space and `#` are what they are in a class, and `\s` has a space.
        (r"/^a[ #] \s b$/x", "a# b", true),
        ("^{{1,2{1}$", "{{1,2", true),
    ] {
        let compiled = Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern} {error}"));
        assert_eq!(compiled.is_match(text), matches, "{pattern} {text:?}");
    }
    for (pattern, reason) in [
        ("(?=a)", "look-ahead"),
        ("(?!a)", "look-ahead"),
        ("(?<=a)b", "look-behind"),
        ("(?<!a)b", "look-behind"),
        ("(?>a)", "atomic"),
        ("a++", "possessive"),
        ("a*+", "possessive"),
        (r"(a)\1", "backreference"),
        (r"(?<a>x)\k<a>", "backreference"),
        (r"\g<1>", "call"),
        ("(?(1)a)", "condition"),
        ("(", "cannot be read"),
        ("[a", "does not end"),
        ("a\\", "backslash"),
        (r"\xff", "ASCII"),
        (r"(?:a{1000}){1000}", "too large"),
        ("a{2}?", "optional"),
        ("(?)", "an option"),
        (r"\cA", "\\c"),
        (r"[\M-a]", "\\M"),
        (&"{".repeat(1 << 20), "is longer"),
    ] {
        let error = Pattern::new(pattern).unwrap_err();
        assert!(error.contains(reason), "{pattern}: {error}");
    }
}

#[test]
fn what_is_wrong_is_named_without_values() {
    for (text, expected) in [
        ("Name lua\nScript hunter2", "line 1: filter lua is not supported; expected one of: grep, record_modifier"),
        ("Name multiline\nmultiline.parser java", "line 1: filter multiline is not supported here"),
        ("Name grep", "filter grep has neither regex nor exclude"),
        ("Name grep\nRegex log", "line 2: regex of filter grep has one value; expected KEY REGEX"),
        ("Name grep\nRegexp log hunter2", "line 2: key regexp of filter grep is not supported; expected one of: regex"),
        (
            "Name grep\nRegex log (?=hunter2)",
            "line 2: regex of filter grep has a regular expression that has a look-ahead",
        ),
        ("Name grep\nRegex $hunter2[ a", "line 2: regex of filter grep has a name that cannot be read"),
        ("Name grep\nLogical_Op xor\nRegex log a", "line 2: logical_op of filter grep has an unknown value"),
        ("Name grep\nLogical_Op or\nRegex log a\nExclude log b", "line 4: exclude of filter grep stands beside"),
        ("Name record_modifier\nRemove_key a\nAllowlist_key b", "line 3: allowlist_key of filter record_modifier"),
        ("Name record_modifier\nUuid_key a", "line 2: key uuid_key of filter record_modifier"),
        ("Name modify\nSet hunter2", "line 2: set of filter modify has the wrong number of values"),
        ("Name modify\nSet a b hunter2", "line 2: set of filter modify has too many values"),
        ("Name modify\nSet a \"hunter2 b", "line 2: set of filter modify has a quotation mark without its other one"),
        ("Name modify\nCondition Key_exist hunter2\nRemove a", "line 2: condition of filter modify is none"),
        ("Name nest\nOperation raise", "line 2: operation of filter nest has an unknown value; expected nest or lift"),
        ("Name nest\nOperation nest\nNest_under a", "filter nest has no wildcard"),
        ("Name nest\nOperation lift", "filter nest has no nested_under"),
        (
            "Name parser\nParser hunter2\nKey_Name log",
            "line 2: parser of filter parser names a parser that there is none",
        ),
        ("Name parser\nParser json", "filter parser has no key_name"),
    ] {
        let wrong = wrong(text);
        assert!(wrong.contains(expected) && !wrong.contains("hunter2"), "{text}:\n{wrong}");
    }
}

fn run(sections: &[&str], settings: &FluentBit, request: &[u8]) -> (Filtered, Vec<Value>) {
    let sections: Vec<_> = sections.iter().map(|text| section(text)).collect();
    let filters = Filters::compile(settings, &sections).unwrap();
    let mut paid = 0;
    let done = filters.apply_within(request, 1 << 20, &mut |more| {
        paid += more;
        true
    });
    let done = done.unwrap();
    let made = done.request.as_deref().unwrap_or(request);
    assert!(done.request.as_ref().is_none_or(|made| made.capacity() <= paid), "{paid} bytes are paid for");
    weir_otlp::validate(weir_otlp::Signal::Logs, made, &weir_otlp::Limits::default()).unwrap();
    let size = crate::measure(settings, &[made]);
    let body = crate::write(settings, &[made], size);
    (done, serde_json::from_slice(&body).unwrap())
}

#[test]
fn records_that_stay_keep_their_bytes() {
    let request = request(&POD, &["a", "b", "c"]);
    let (done, records) = run(&["Name grep\nExclude log none"], &settings(Format::Json), &request);
    assert_eq!((done.request, records.len()), (None, 3));
    let (done, records) = run(&["Name grep\nExclude log b"], &settings(Format::Json), &request);
    assert_eq!((done.tallies[0].dropped, records.len()), (1, 2));
    assert!(done.request.unwrap().len() < request.len());
    let (done, _) = run(&["Name grep\nRegex log none"], &settings(Format::Json), &request);
    assert_eq!(done.request, Some(Vec::new()), "nothing is left of it");
}

/// What is known of the pod is not repeated for each record, as long as no filter changes it.
#[test]
fn what_is_known_of_a_pod_stays_with_the_resource() {
    let texts: Vec<String> = (0..100).map(|number| format!("line {number}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let large = "x".repeat(10_000);
    let pod = [("k8s.namespace.name", "shop"), ("k8s.pod.label.large", large.as_str())];
    let request = request(&pod, &texts);
    let settings = FluentBit { dedot: true, ..settings(Format::Json) };
    let (done, records) = run(&["Name modify\nSet a b"], &settings, &request);
    assert!(done.request.unwrap().len() < request.len() + 100 * 300);
    assert!(records.iter().all(|record| record["kubernetes"]["labels"]["large"] == large && record["a"] == "b"));
}

#[test]
fn a_record_that_is_changed_is_otherwise_as_it_was() {
    let request = request(&POD, &["a \"line\"", r#"{"level":"warn","time":5,"kubernetes":1}"#]);
    let kept = FluentBit { keep_original_body: true, dedot: true, annotations: true, ..settings(Format::Json) };
    for date in [Some("date"), Some("time"), None] {
        for kyma in [false, true] {
            let date = Date { key: date.map(str::to_owned), format: DateFormat::Double };
            let settings = FluentBit { date, kyma, ..kept.clone() };
            let (_, mut changed) = run(&["Name modify\nSet added yes"], &settings, &request);
            let (_, same) = run(&["Name grep\nExclude none x"], &settings, &request);
            for record in &mut changed {
                assert_eq!(record.as_object_mut().unwrap().remove("added"), Some(json!("yes")));
            }
            assert_eq!(changed, same);
            // The same if a filter has had its hands on what is known of the pod.
            let lift = "Name nest\nOperation lift\nNested_under kubernetes\nAdd_prefix k8s_";
            let nest = "Name nest\nOperation nest\nWildcard k8s_*\nNest_under kubernetes\nRemove_prefix k8s_";
            assert_eq!(run(&[lift, nest], &settings, &request).1, same);
        }
    }
}

#[test]
fn records_do_not_become_too_deep_or_too_many_fields() {
    let nest = "Name nest\nOperation nest\nWildcard *\nNest_under a";
    let filters = filters(&[nest; 70]);
    let mut deep = record(r#"{"x":1}"#);
    let mut tallies = vec![Tally::default(); 70];
    filters.run(&mut deep, &mut tallies);
    assert_eq!(tallies.iter().map(|tally| tally.errors).sum::<u64>(), 70 - 63);
    assert!(tallies[69].first_error.as_ref().unwrap().contains("deeper"));
    Members::default().read(&deep.to_json(), MOST_FIELDS).unwrap();

    let many = |prefix: &str, count| (0..count).map(|at| format!("\"{prefix}{at}\":1")).collect::<Vec<_>>().join(",");
    let object = format!("{{{},\"o\":{{{}}}}}", many("a", 1500), many("b", 1000));
    let filters = self::filters(&["Name nest\nOperation lift\nNested_under o"]);
    let mut wide = record(&object);
    let mut tallies = vec![Tally::default()];
    filters.run(&mut wide, &mut tallies);
    assert_eq!((tallies[0].errors, wide.list.len()), (1, 1501));
}

/// A copy that there is no room for is left out; nothing else is.
#[test]
fn what_there_is_no_room_for_keeps_no_other_rule_from_its_work() {
    let lift = "Name nest\nOperation lift\nNested_under o";
    let nest = "Name nest\nOperation nest\nWildcard a\nNest_under o";
    let modify = "Name modify\nHard_copy o b\nRemove secret";
    let filters = filters(&[nest, modify, lift]);
    let before = r#"{"a":"0123456789","b":1,"secret":2}"#;
    let mut tight = Fields { room: 30, ..record(before) };
    let mut tallies = vec![Tally::default(); 3];
    filters.run(&mut tight, &mut tallies);
    assert_eq!(tight.to_json(), r#"{"b":1,"o":{"a":"0123456789"}}"#);
    assert_eq!(tallies.iter().map(|tally| tally.errors).collect::<Vec<_>>(), [0, 1, 1]);
}

/// To look for the name of each pair among all others would take seconds for one line.
#[test]
fn a_line_of_very_many_pairs_is_not_taken_apart() {
    let pairs = |count: usize| (0..count).map(|at| format!("k{}=v", at % 7)).collect::<Vec<_>>().join(" ");
    for (count, errors) in [(MOST_FIELDS, 0), (MOST_FIELDS + 1, 1)] {
        let json = json!({"log": pairs(count)}).to_string();
        let filters = filters(&["Name parser\nKey_Name log\nParser logfmt"]);
        let (mut parsed, mut tallies) = (record(&json), vec![Tally::default()]);
        filters.run(&mut parsed, &mut tallies);
        assert_eq!((tallies[0].errors, parsed.list.len()), (errors, if errors > 0 { 1 } else { 7 }));
    }
}

#[test]
fn without_memory_nothing_is_made() {
    let request = request(&POD, &["a"; 1000]);
    let filters = filters(&["Name modify\nSet a b"]);
    let mut left = 20_000_usize;
    let done = filters.apply_within(&request, 1 << 20, &mut |more| match left.checked_sub(more) {
        Some(less) => {
            left = less;
            true
        }
        None => false,
    });
    assert_eq!(done, Err(NoRoom));
}

fn any_filter() -> BoxedStrategy<String> {
    let name = prop_oneof!["[a-d]", "log", "kubernetes", "labels", "\\PC{0,3}"];
    let plugin = prop_oneof![
        (name.clone(), name.clone())
            .prop_map(|(a, b)| format!("Name modify\nSet {a} {b}\nRename {b} {a}\nHard_copy {a} {b}")),
        name.clone().prop_map(|a| format!("Name nest\nOperation nest\nWildcard {a}*\nNest_under {a}\nAdd_prefix {a}")),
        name.clone().prop_map(|a| format!("Name nest\nOperation lift\nNested_under {a}\nRemove_prefix {a}")),
        name.clone().prop_map(|a| format!("Name parser\nKey_Name {a}\nParser json\nParser logfmt\nReserve_Data on")),
        name.clone().prop_map(|a| format!("Name record_modifier\nRecord {a} {a}\nRemove_key {a}*")),
        name.prop_map(|a| format!("Name grep\nExclude {a} [0-9]")),
    ];
    plugin.boxed()
}

fn any_line() -> BoxedStrategy<String> {
    prop_oneof![
        "\\PC{0,20}",
        r#"\{("[a-d]":("x"|1|\{"a":"b"\}|"a=b c"),){0,4}"log":"(x|\{\}|\\u00e9)"\}"#,
        any::<String>(),
    ]
    .boxed()
}

proptest! {
    /// FLUENT-4
    #[test]
    fn filters_make_valid_records_of_any_line(
        texts in prop::collection::vec(any_line(), 0..5),
        sections in prop::collection::vec(any_filter(), 1..5),
        dedot in any::<bool>(),
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let request = request(&POD, &texts);
        let sections: Vec<Section> = sections.iter().filter_map(|text| {
            let lines = text::lines(text).ok()?;
            Some(Section { lines: lines.into_iter().map(|line| SectionLine {
                number: line.number, key: line.key.to_ascii_lowercase(), value: Secret::new(line.value),
            }).collect() })
        }).collect();
        let settings = FluentBit { dedot, to: Sink::Stdout, ..settings(Format::Json) };
        let Ok(filters) = Filters::compile(&settings, &sections) else { return Ok(()) };
        let done = filters.apply_within(&request, 1 << 20, &mut |_| true).unwrap();
        let made = done.request.unwrap_or(request);
        weir_otlp::validate(weir_otlp::Signal::Logs, &made, &weir_otlp::Limits::default()).unwrap();
        let dropped: u64 = done.tallies.iter().map(|tally| tally.dropped).sum();
        for format in [Format::Json, Format::MsgPack, Format::Gelf] {
            let settings = FluentBit { format, ..settings.clone() };
            let size = crate::measure(&settings, &[&made]);
            prop_assert_eq!(size.records as u64, texts.len() as u64 - dropped);
            let body = crate::write(&settings, &[&made], size);
            if format == Format::Json {
                let records: Vec<Value> = serde_json::from_slice(&body).unwrap();
                // A record that cannot be read would be text, and have no other field of the line.
                prop_assert!(records.iter().all(|record| record.is_object()));
            }
        }
    }

    #[test]
    fn no_text_and_no_pattern_is_too_much(text in any::<String>(), pattern in "[\\\\(){}\\[\\]?*+<>=!^$|:a-z0-9&~-]{0,20}") {
        let _ = text::lines(&text);
        let _ = text::pieces(&text);
        let _ = super::pattern::Pattern::new(&pattern).map(|pattern| pattern.is_match(&text));
        let _ = super::accessor::Accessor::parse(&format!("${pattern}"));
        let section = Section { lines: vec![
            SectionLine { number: 1, key: "name".to_owned(), value: Secret::new("modify") },
            SectionLine { number: 2, key: "set".to_owned(), value: Secret::new(text) },
        ] };
        let _ = Filters::compile(&settings(Format::Json), &[section]);
    }
}
