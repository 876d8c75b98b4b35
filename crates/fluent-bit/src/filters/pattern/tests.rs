use super::*;

#[test]
fn patterns_mean_what_they_mean_in_ruby() {
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
