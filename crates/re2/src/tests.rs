use super::*;

fn compile(pattern: &str) -> Result<Regex, Error> {
    Regex::new(pattern, 1 << 20, 64)
}

fn matches(pattern: &str, text: &str) -> bool {
    compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
}

fn refusal(pattern: &str) -> String {
    match compile(pattern) {
        Ok(_) => panic!("{pattern} is taken"),
        Err(error) => error.to_string(),
    }
}

fn replaced(pattern: &str, text: &str, template: &str) -> String {
    let regex = compile(pattern).unwrap();
    let mut out = String::new();
    let captures = regex.captures(text).unwrap();
    regex.expand(&captures, template, &mut out);
    out
}

#[test]
fn hyphens_in_classes_are_characters_where_they_make_no_range() {
    assert!(matches(r"^[\w-.]+$", "a-b.c") && !matches(r"^[\w-.]+$", "a/b"));
    assert!(matches(r"^[\w-_]+$", "a-b"));
    assert!(matches(r"^[\s-a]+$", "a -") && !matches(r"^[\s-a]+$", "A1"));
    assert!(matches(r"^[!--]+$", "!#-") && !matches(r"^[!--]$", "."));
    assert!(matches(r"^[\pL-x]+$", "é-x") && matches("^[a-]+$", "-a") && matches("^[^-a]$", "b"));
    assert!(matches(r"^[]a&&[b~~]+$", "]&[b~"));
}

#[test]
fn what_go_takes_is_taken() {
    assert!(matches(r"^\p{^Greek}$", "x") && !matches(r"^\P{Greek}$", "α") && matches(r"^\P{^g-r eek}$", "α"));
    assert!(matches("^(?P<1n>a)(?P<1n>b)$", "ab"));
    assert!(matches("^a(?i)*b(?)$", "aaB") && matches("^(?i-i)a(?ii)b$", "aB") && !matches("^(?i-i)a$", "A"));
    assert!(matches("^a{,2}{01}$", "a{,2}{01}"));
    assert!(matches(r"^\x{D800}?[\x{D000}-\x{DFFF}]$", "\u{d000}"));
    assert!(matches(r"^[[:a]$", ":") && matches(r"^[[]$", "[") && matches(r"^\<\_\>$", "<_>"));
    assert!(matches("^((a{40}){0}b){40}$", &"b".repeat(40)));
    assert!(matches(r"^\Qa.b\E+$", "a.bb") && matches(r"^\Q(", "("));
    assert!(matches(r"^\d\w\s$", "4x ") && !matches(r"^\d$", "٤") && !matches(r"^\w$", "é"));
    assert!(matches(r"^\101\x41\x{41}\0$", "AAA\0"));
    assert!(matches(r"^\p{Old_Italic}\pl\p{Uppercase Letter}$", "𐌀aA"));
}

#[test]
fn flags_hold_to_the_end_of_their_group() {
    assert!(matches("^(?:(?i)a|b)c$", "Bc") && !matches("^(?:(?i)a|b)c$", "BC"));
    assert!(matches("(?m)^b$", "a\nb\nc") && !matches("(?m:a)\n^b$", "a\nb"));
    assert!(matches("(?s)a.b", "a\nb") && !matches("(?s-s)a.b", "a\nb"));
    assert_eq!(replaced("(?U)(a+)(a+?)", "aaa", "$1"), "a");
}

#[test]
fn what_go_refuses_is_refused_with_the_reason() {
    for (pattern, reason) in [
        ("a**", "\"*\" repeats a repetition"),
        ("a*??", "\"?\" repeats a repetition"),
        ("a|*", "there is nothing before \"*\""),
        ("(?i)*", "there is nothing before \"*\""),
        ("a{1001}", "\"{1001}\" asks for more than 1000 repetitions"),
        ("(a{100}){11}", "\"{11}\" makes more than 1000 copies"),
        ("a{3,2}", "\"{3,2}\" asks for at most less than at least"),
        ("(?x)a", "\"(?x\" starts no group"),
        ("(?i-)a", "\"(?i-)\" starts no group"),
        ("(?=a)", "looking ahead"),
        ("(?<!a)", "looking behind"),
        ("(?P<a-b>a)", "\"a-b\" is no name of a group"),
        (r"\u{41}", r#"unknown escape "\u""#),
        (r"[\b]", r#"unknown escape "\b""#),
        (r"[a-\d]", r#"unknown escape "\d""#),
        (r"\x{110000}", r#"unknown escape "\x{1""#),
        (r"(a)\1", r#"references to groups, like "\1", are not supported"#),
        ("a\\", "a backslash at the end"),
        ("[[:foo:]]", "unknown class \"[:foo:]\""),
        ("[b-a]", "the range \"b-a\" ends before it starts"),
        ("[]", "\"[]\" lacks a closing bracket"),
        (r"\p{Grek}", r#""\p{Grek}" is no class of Unicode"#),
        (r"\p{Greek", r#""\p{Greek" lacks a closing brace"#),
        ("(a", "a group lacks its closing parenthesis"),
        ("a)", "a closing parenthesis has no group"),
    ] {
        let refusal = refusal(pattern);
        assert!(refusal.starts_with(&format!("invalid pattern: {reason}")), "{pattern}: {refusal}");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    assert_eq!(compile(r"(?:\pL{100}){10}").unwrap_err(), Error::TooLarge);
    let nested = |depth: usize| "(".repeat(depth) + "a|b" + &")*".repeat(depth);
    assert!(compile(&nested(64)).is_ok());
    assert!(refusal(&nested(65)).contains("more than 64 deep"));
    assert!(refusal(&("a*".to_owned() + &"(?i)*".repeat(3000))).contains("nested"));
}

#[test]
fn templates_name_groups() {
    let pattern = "(?P<n>x)|(?P<n>y)(z)?";
    assert_eq!(replaced(pattern, "y", "<$n|${n}|$2|$3|$n2|$02|$$n|${n|$|$-|$0>"), "<y|y|y||||$n|${n|$|$-|y>");
    assert_eq!(replaced(pattern, "yz", "$3é$3²$é"), "z²");
}

/// How many matches are found, and whether these are all.
fn found(pattern: &str, text: &str) -> (usize, bool) {
    let regex = compile(pattern).unwrap();
    let found: Vec<_> = regex.captures_iter(text).collect();
    let matches = found.iter().filter(|found| found.is_ok()).count();
    assert!(found.len() - matches <= 1, "{pattern} goes on behind an error");
    (matches, found.len() == matches)
}

#[test]
fn all_matches_are_found_where_that_takes_linear_time() {
    let text = "1 ".repeat(20_000);
    for pattern in [r"\d+", r"(\d+)(?: [a-z]+)?", r"\b(\d)\b", r"\d( |$)"] {
        assert_eq!(found(pattern, &text), (20_000, true), "{pattern}");
    }
    // An empty match does not count behind another one.
    assert_eq!(found(r"\d*", &text), (20_001, true));
    // Each search looks at the rest of a line, not of the text.
    assert_eq!(found(r"(\d+)(?: .*ms)?", &"1 1 1 1 1 1 1 1\n".repeat(2_500)), (20_000, true));
    // Each looks ahead, but only so far.
    assert_eq!(found("a(?:.{0,200}b)?", &"a".repeat(20_000)), (20_000, true));
    // This is one match after the other in any case.
    assert_eq!(found(r".*ms", &"1 1 1 1 1 1 ms\n".repeat(2_500)), (2_500, true));
}

/// Its states may need more room than the engine gives to those of one pattern.
#[test]
fn all_matches_of_a_large_pattern_are_found_too() {
    let words: Vec<_> = (0..2_000).map(|number| format!("{number}x{number}y")).collect();
    assert_eq!(found(&words.join("|"), &"17x17y 1999x1999y ".repeat(5_000)), (10_000, true));
}

#[test]
fn not_all_matches_are_found_where_that_takes_the_square_of_a_long_text() {
    for (pattern, unit) in
        [(r"(\d+)(?: .*ms)?", "1 "), ("(?s).*[^A-Z]|[A-Z]", "AA"), (r"(?:a|b)(?:.*c)?", "ab"), (r"b(?:.*c)?|\b", " b")]
    {
        // 64 times the text goes to searches that are not measured, and 256 times to those that are.
        let (matches, all) = found(pattern, &unit.repeat(20_000));
        assert!((128..400).contains(&matches) && !all, "{pattern}: {matches}");
        // In a short text it is no matter.
        assert!(found(pattern, &unit.repeat(80)).1, "{pattern}");
        assert!(found(pattern, &(unit.repeat(20_000) + "9c ms")).1, "{pattern}: it is one match");
    }
}

#[test]
fn what_measures_searches_is_kept_for_the_next_text_and_the_next_thread() {
    let regex = compile(r"(\d+)(?: [a-z]+)?").unwrap();
    let text = "1 ".repeat(20_000);
    let count = |regex: &Regex| regex.captures_iter(&text).filter(Result::is_ok).count();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| [count(&regex), count(&regex.clone())])).collect();
        threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), [20_000, 20_000]));
    });
    assert_eq!(count(&regex), 20_000);
}
