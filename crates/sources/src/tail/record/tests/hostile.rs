//! Input that is made to hurt.

use super::*;

const MIB: usize = 1 << 20;

fn form(text: &str) -> Form {
    let (form, record) = record(text.as_bytes(), DROP);
    if form != Form::Json {
        assert_eq!(value(record.body), json!(text));
    }
    form
}

#[test]
fn what_is_nested_too_deep_stays_text() {
    let arrays = |depth| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let objects = |depth| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    // `decode` shows that the deepest ones are not too deep for the engine.
    for (text, expected) in [
        (arrays(29), Form::Json),
        (arrays(30), Form::Unparsed),
        (arrays(10_000), Form::Unparsed),
        (objects(20), Form::Json),
        (objects(21), Form::Unparsed),
        (objects(10_000), Form::Unparsed),
        (format!("{}}}", "{\"a\":".repeat(100_000)), Form::Unparsed),
        (format!("{}}}", "{\"a\":[".repeat(100_000)), Form::Unparsed),
    ] {
        assert_eq!(form(&text), expected, "{} bytes", text.len());
    }
}

#[test]
fn huge_numbers_and_names_are_read() {
    let zeros = "0".repeat(MIB);
    for (text, expected) in [
        (format!("{{\"a\":0.{zeros}1}}"), r#"{"a":0.0}"#),
        (format!("{{\"a\":{zeros}1}}"), r#"{"a":1.0}"#),
        (format!("{{\"a\":1.{zeros}e1}}"), r#"{"a":10.0}"#),
        (format!("{{\"a\":1e{zeros}1}}"), r#"{"a":10.0}"#),
    ] {
        assert_eq!(show(record(text.as_bytes(), DROP).1), format!("null {expected}"));
    }
    assert_eq!(form(&format!("{{\"a\":1{zeros}}}")), Form::Unparsed);
    let zeros = "0".repeat(MIB / 16);
    let text = format!("{{\"{zeros}\":\"x\",\"{zeros}\":\"y\",\"{zeros}0\":\"z\"}}");
    let (form, record) = record(text.as_bytes(), DROP);
    assert_eq!(form, Form::Json);
    let attributes = attributes(record.attributes);
    assert_eq!((&attributes[&zeros], &attributes[&format!("{zeros}0")]), (&json!("y"), &json!("z")));
}

#[test]
fn many_members_are_read_and_the_last_of_equal_names_counts() {
    let member = |index: usize| format!("\"abcdefgh{}12345678\":{index}", index % 1_000);
    let members = (0..4_000).map(member).collect::<Vec<_>>().join(",");
    for text in [format!("{{{members}}}"), format!("{{\"o\":{{{members}}}}}")] {
        let (form, record) = record(text.as_bytes(), DROP);
        assert_eq!(form, Form::Json);
        let attributes = attributes(record.attributes);
        let names = attributes.get("o").and_then(Value::as_object).unwrap_or(&attributes);
        assert!(names.len() >= 1_000);
        assert_eq!(names["abcdefgh99912345678"], json!(3_999.0));
        assert_eq!(names["abcdefgh012345678"], json!(3_000.0));
    }
}

/// What is read takes memory that was set aside for it.
#[test]
fn what_has_too_much_in_it_stays_text() {
    let members = |count: usize| (0..count).map(|index| format!("\"{index}\":0")).collect::<Vec<_>>().join(",");
    for (most, more) in [(4_096, Form::Json), (4_097, Form::Unparsed)] {
        assert_eq!(form(&format!("{{{}}}", members(most))), more, "{most}");
        let nested = format!("{{\"a\":{{{}}},\"b\":{{{}}}}}", members(most), members(most - 1));
        assert_eq!(form(&nested), more, "{most} that are open");
    }
    for (length, expected) in [(300_000, Form::Json), (330_000, Form::Unparsed)] {
        assert_eq!(form(&format!("{{\"a\":\"{}\"}}", "x".repeat(length))), expected);
        assert_eq!(form(&format!("{{\"a\":[{}0]}}", "0,".repeat(length / 11))), expected);
    }
    let mut attributes = Attributes::default();
    let mut most = 0;
    for text in [members(4_097), format!("\"a\":[{}0]", "0,".repeat(100_000)), format!("\"{}\":0", "x".repeat(1 << 18))]
    {
        let _ = attributes.read(&format!("{{{text}}}"), usize::MAX);
        most = most.max(attributes.capacity());
    }
    assert!(most > 200_000 && most <= ATTRIBUTES_BYTES, "{most}");
}

#[test]
fn many_members_are_merged() {
    let members = |from: usize| {
        let members: Vec<String> = (from..from + 3_000).map(|index| format!("\"{index}\":{from}")).collect();
        members.join(",")
    };
    let text = format!("{{\"message\":{{{}}},\"msg\":{{{}}}}}", members(0), members(1_500));
    let body = value(record(text.as_bytes(), DROP).1.body);
    let body = body.as_object().unwrap();
    assert_eq!(body.len(), 4_500);
    assert_eq!((&body["1499"], &body["1500"]), (&json!(0.0), &json!(1_500.0)));
}

#[test]
fn an_empty_request_takes_what_is_too_large() {
    let ones = format!("{{\"a\":[{}1]}}", "1,".repeat(100_000));
    let mut small = builder(DROP, 300_000);
    assert_eq!(small.push(&entry(ones.as_bytes()), &mut Attributes::default(), 8), Ok(Form::Unparsed));
    assert_eq!(small.push(&entry(ones.as_bytes()), &mut Attributes::default(), 8), Err(NoRoom));
    assert_eq!(small.push(&entry(b"x"), &mut Attributes::default(), 8), Ok(Form::Text));
    let taken = records(decode(small));
    assert_eq!(value(taken[0].body.clone()), json!(ones));
    assert_eq!(taken.len(), 2);

    // The attributes fit, but not with the text beside them.
    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(800));
    let mut small = builder(KEEP, 2_000);
    assert_eq!(small.push(&entry(text.as_bytes()), &mut Attributes::default(), 8), Ok(Form::Unparsed));
    let mut small = builder(DROP, 2_000);
    assert_eq!(small.push(&entry(text.as_bytes()), &mut Attributes::default(), 8), Ok(Form::Json));
    assert_eq!(small.push(&entry(text.as_bytes()), &mut Attributes::default(), 8), Err(NoRoom));
    assert_eq!(records(decode(small)).len(), 1);

    let long = "€".repeat(1_000);
    let mut small = builder(KEEP, 2_000);
    assert_eq!(small.push(&entry(long.as_bytes()), &mut Attributes::default(), 8), Ok(Form::Cut));
    assert!(small.len() > 1_500 && small.len() <= 2_000);
    let body = value(records(decode(small))[0].body.clone());
    assert!(long.starts_with(body.as_str().unwrap()));
}

#[test]
fn what_is_refused_leaves_nothing() {
    let mut full = builder(KEEP, 1_500);
    while full.push(&entry(br#"{"a":"b"}"#), &mut Attributes::default(), 8).is_ok() {}
    let before = (full.len(), full.items());
    for text in ["x".repeat(2_000), format!("{{\"a\":\"{}\"}}", "x".repeat(1_000)), "{}".repeat(1_000)] {
        assert_eq!(full.push(&entry(text.as_bytes()), &mut Attributes::default(), 8), Err(NoRoom));
    }
    assert_eq!((full.len(), full.items()), before);
    assert_eq!(records(decode(full)).len(), before.1 as usize);
}
