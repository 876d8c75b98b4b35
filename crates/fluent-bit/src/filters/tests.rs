//! Each filter, with what Fluent Bit's documentation and its source say of it.

mod requests;

use serde_json::json;
use weir_plan::{FluentBitFormat, Secret, Section, SectionLine};

use super::fields::{self, Fields};
use super::*;
use crate::members::{MOST_FIELDS, Members};
use crate::tests::settings;
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
    Filters::compile(&settings(FluentBitFormat::Json), &sections).unwrap()
}

/// What is wrong with a section.
fn wrong(text: &str) -> String {
    let wrong = Filters::compile(&settings(FluentBitFormat::Json), &[section(text)]).unwrap_err();
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

/// Keys are in lower case once a section is read.
#[test]
fn lines_with_patterns_are_paid_for_and_no_others() {
    for (text, patterns) in [
        ("Name grep\nRegex log err\nExclude log an", 2_usize),
        ("Name modify\nRemove_regex ^.e\nCondition key_value_matches a b\nAdd match pattern", 3),
        ("Name record_modifier\nRecord match pattern\nRemove_key regex", 0),
    ] {
        let bytes: usize = section(text).lines.iter().map(max_pattern_bytes).sum();
        assert_eq!(bytes, patterns << 20, "{text}");
    }
}
