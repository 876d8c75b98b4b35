use super::*;

fn parses(text: &str) -> String {
    format!("{:?}", condition(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}")))
}

/// The message, the text blamed and the advice.
fn refused(text: &str) -> (String, String, String) {
    let fault = statement(text).expect_err(text);
    (fault.message, text[fault.range].to_owned(), fault.help.unwrap_or_default())
}

#[test]
fn groups_are_conditions_or_numbers() {
    for text in [
        "(a.b == 1) and (a.c != \"x\" or not IsMatch(a.d, \"e\"))",
        "(1 + a.b) * 2 >= -(a.c) and true",
        "((((((true))))))",
        "not (a.b == nil)",
        "Len(a.b[\"k\"][0][a.c]) == 0x0f",
        "Any(a.b, (k, v) => k == \"x\" and (v) > 1)",
        "Filter(a.b, (_, v) => (v + 1))[0] == {\"a\": [1, 2.5], \"b\": nil,}",
        "Any(a, (v) => not IsMatch(v, \"x\"))",
        "F(a, MD5, name = FLAG_NONE)",
    ] {
        parses(text);
    }
    assert!(parses("a.b == 1 or a.c == 2 and a.d == 3").starts_with("Or(["));
}

#[test]
fn errors_name_what_is_found_and_what_is_expected() {
    assert_eq!(refused("set(a.b, 1").0, "`)` is missing for this bracket");
    assert_eq!(refused("set(a.b 1)"), ("expected \",\" or \")\", found `1`".into(), "1".into(), "".into()));
    assert_eq!(refused("set(a.b, 1) were a.c == 1").1, "were");
    assert_eq!(refused("set(a.b, isMatch(a.c))").2, "did you mean \"IsMatch\"?");
    assert_eq!(
        refused("set(a.b, 1) where a.c").0,
        "expected a comparison operator, like ==, found the end of the text"
    );
    assert_eq!(refused("set(a.b, 1) where a.c = 1").0, "expected a comparison operator, like ==, found `=`");
    assert_eq!(refused("IsMatch(a.b, \"x\")").1, "IsMatch");
    assert_eq!(refused("set(a.b, 1)[0]").0, "only paths and converters can be indexed");
    assert_eq!(refused("set(a.b, (x) => (y) => 1)").0, "a lambda cannot return a lambda");
    assert_eq!(refused("set(a.bC, 1)").1, "bC");
    assert_eq!(refused("").0, "expected an editor call, like set(...), found the end of the text");
}

#[test]
fn depth_and_length_are_limited() {
    let deep = |count: usize| format!("{}true{}", "(".repeat(count), ")".repeat(count));
    assert!(condition(&deep(40)).is_ok());
    assert!(condition(&deep(16_000)).unwrap_err().message.contains("nested deeper"));
    let keys = format!("a{} == 1", "[a".repeat(5_000) + &"]".repeat(5_000));
    assert!(condition(&keys).unwrap_err().message.contains("nested deeper"));
    let long = format!("a == 1{}", " + 1".repeat(8_000));
    assert!(condition(&long).is_ok());
    assert!(condition(&"x".repeat(MAX_LENGTH + 1)).unwrap_err().message.contains("longer"));
}
