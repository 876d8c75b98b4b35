use super::*;

/// Labels as `a=1,b=2`.
fn labels(text: &str) -> Labels<'_> {
    text.split(',').filter_map(|label| label.split_once('=')).collect()
}

fn rule(action: Action, source: &str, regex: &str, target: &str, replacement: &str) -> Rule {
    Rule {
        action,
        source_labels: source.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        regex: regex.to_owned(),
        target_label: target.to_owned(),
        replacement: replacement.to_owned(),
        ..Rule::default()
    }
}

/// What rules make of labels, or nothing when they leave them out.
fn applied<const N: usize>(rules: [Rule; N], text: &str) -> Option<String> {
    let rules = Relabeling::new(rules).unwrap();
    let mut labels = labels(text);
    let is_kept = rules.apply(&mut labels).unwrap();
    let all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    is_kept.then(|| all.join(","))
}

#[track_caller]
fn check<const N: usize>(rules: [Rule; N], text: &str, expected: &str) {
    assert_eq!(applied(rules, text).as_deref(), Some(expected));
}

#[test]
fn replace_sets_a_label_when_the_pattern_matches() {
    let replace = |source, regex, target, replacement| [rule(Action::Replace, source, regex, target, replacement)];
    check(replace("a", "f(.*)", "d", "ch${1}-ch${1}"), "a=foo,b=bar", "a=foo,b=bar,d=choo-choo");
    check(replace("a,b", "f(.*);(.*)r", "a", "b${1}${2}m"), "a=foo,b=bar,c=baz", "a=boobam,b=bar,c=baz");
    check(replace("a", "no", "d", "x"), "a=foo", "a=foo");
    check(replace("a", ".*(b).*", "d", "$1"), "a=abc", "a=abc,d=b");
    check(replace("a", "(?P<x>.)(?P<y>.)", "d", "${y}$x"), "a=12", "a=12,d=21");
    check(replace("a", "(.*)", "d", "$1x"), "a=foo", "a=foo");
    check(replace("a", "(.*)", "d", "$$1"), "a=foo", "a=foo,d=$1");
    check(replace("missing", "(.*)", "d", "set"), "a=foo", "a=foo,d=set");
    check(replace("", "(.*)", "d", "set"), "a=foo", "a=foo,d=set");
    check([Rule { target_label: "d".into(), source_labels: vec!["a".into()], ..Rule::default() }], "a=1", "a=1,d=1");
}

#[test]
fn replace_with_nothing_removes_the_label() {
    check([rule(Action::Replace, "a", "f(.*)", "b", "")], "a=foo,b=bar", "a=foo");
    check([rule(Action::Replace, "a", "(f).*", "b", "$2")], "a=foo,b=bar", "a=foo");
    check([rule(Action::Replace, "missing", "(.*)", "b", "$1")], "a=foo,b=bar", "a=foo");
}

#[test]
fn the_name_of_the_target_may_have_groups() {
    let rules = || [rule(Action::Replace, "a", "some-([^-]+)-([^,]+)", "${1}", "${2}")];
    check(rules(), "a=some-name-value", "a=some-name-value,name=value");
    check([rule(Action::Replace, "a", "(f)(x)?.*", "$2", "v")], "a=foo", "a=foo");
    check([rule(Action::Replace, "a", "(.*)", "x_${1}_y", "v")], "a=b", "a=b,x_b_y=v");
    check([rule(Action::Replace, "a", "(.*)", "$1", "v")], "a=0.é", "0.é=v,a=0.é");
}

#[test]
fn patterns_match_the_whole_text() {
    let keeps = |regex, text| applied([rule(Action::Keep, "a", regex, "", "")], text).is_some();
    assert!(keeps("foo", "a=foo"));
    assert!(!keeps("fo", "a=foo"));
    assert!(!keeps("oo", "a=foo"));
    assert!(keeps("fo|foo", "a=foo"));
    assert!(!keeps("f|o", "a=foo"), "alternatives are anchored together");
    assert!(keeps("f.*o", "a=f\no"), "a dot matches a line feed as well");
    assert!(!keeps("foo", "a=foo\n"));
    assert!(keeps("", "b=1"));
    assert!(keeps("(?i)FOO", "a=foo"));
}

#[test]
fn keep_and_drop_leave_out() {
    let one = |action, regex| applied([rule(action, "a", regex, "", "")], "a=foo").is_some();
    assert!(one(Action::Keep, "f.*"));
    assert!(!one(Action::Keep, "no"));
    assert!(!one(Action::Drop, "f.*"));
    assert!(one(Action::Drop, "no"));
    let twice = [rule(Action::Drop, "a", "f.*", "", ""), rule(Action::Replace, "a", ".*", "b", "set")];
    assert_eq!(applied(twice, "a=foo"), None);
    let names = "istio_.*|envoy_.*";
    let is_kept = |name: &str| applied([rule(Action::Keep, "__name__", names, "", "")], name).is_some();
    assert!(is_kept("__name__=istio_requests_total") && is_kept("__name__=envoy_x") && !is_kept("__name__=go_istio_"));
}

#[test]
fn keepequal_and_dropequal_compare_labels() {
    let one = |action, text| applied([rule(action, "a", "(.*)", "b", "$1")], text).is_some();
    assert!(one(Action::KeepEqual, "a=1,b=1") && !one(Action::KeepEqual, "a=1,b=2"));
    assert!(!one(Action::DropEqual, "a=1,b=1") && one(Action::DropEqual, "a=1,b=2"));
    assert!(one(Action::KeepEqual, "c=1"), "what is not there is empty");
    let joined = applied([rule(Action::KeepEqual, "a,c", "(.*)", "b", "$1")], "a=1,c=2,b=1;2");
    assert!(joined.is_some());
}

#[test]
fn hashmod_divides_as_prometheus_does() {
    let hashed = |modulus| [Rule { modulus, ..rule(Action::HashMod, "c", "(.*)", "d", "$1") }];
    check(hashed(1000), "c=baz", "c=baz,d=976");
    check(hashed(1000), "c=foo\nbar", "c=foo\nbar,d=734");
    check(hashed(1), "c=baz", "c=baz,d=0");
}

#[test]
fn cases_are_changed() {
    let rules = || [rule(Action::Lowercase, "a", "(.*)", "l", ""), rule(Action::Uppercase, "a", "(.*)", "u", "")];
    check(rules(), "a=bAr123Foo", "a=bAr123Foo,l=bar123foo,u=BAR123FOO");
    check(rules(), "a=Éß", "a=Éß,l=éß,u=Éß");
    check(rules(), "l=1,u=2", "");
}

#[test]
fn names_of_labels_are_mapped_dropped_and_kept() {
    let map = |regex, replacement| [rule(Action::LabelMap, "", regex, "", replacement)];
    check(map("b.*", "${0}_x"), "a=1,b1=2,b2=3", "a=1,b1=2,b1_x=2,b2=3,b2_x=3");
    check(
        map("__meta_(my.*)", "$1"),
        "__meta_my_bar=aaa,__meta_my_baz=bbb,__meta_other=ccc",
        "__meta_my_bar=aaa,__meta_my_baz=bbb,__meta_other=ccc,my_bar=aaa,my_baz=bbb",
    );
    check(map("(a|b)", "c"), "a=1,b=2", "a=1,b=2,c=2");
    check(map("a", ""), "a=1", "a=1");
    let names = |action, regex| [rule(action, "", regex, "", "")];
    check(names(Action::LabelDrop, "b.*"), "a=1,b1=2,b2=3", "a=1");
    check(names(Action::LabelKeep, "b.*"), "a=1,b1=2,b2=3", "b1=2,b2=3");
    check(names(Action::LabelDrop, "b"), "a=1,b1=2", "a=1,b1=2");
}

#[test]
fn rules_see_what_those_before_have_done() {
    let rules = [
        rule(Action::Replace, "a", "(.*)", "__tmp", "x$1"),
        rule(Action::Keep, "__tmp", "xfoo", "", ""),
        rule(Action::LabelDrop, "", "__tmp", "", ""),
    ];
    check(rules, "a=foo", "a=foo");
    let joined = Rule { separator: "-".into(), ..rule(Action::Replace, "a,b,c", "(.*)", "d", "$1") };
    check([joined], "a=1,c=3", "a=1,c=3,d=1--3");
}

#[test]
fn what_is_wrong_with_a_rule_is_said() {
    let failed = |rule| Relabeling::new([Rule { target_label: "a".into(), ..Rule::default() }, rule]);
    let said = |rule| failed(rule).unwrap_err().to_string();
    let wrong = said(rule(Action::Keep, "a", "(", "", ""));
    assert!(wrong.starts_with("relabeling rule 2, action keep: the regex \"(\": invalid pattern"), "{wrong}");
    let no_target = "relabeling rule 2, action replace: it needs a target_label";
    assert_eq!(said(rule(Action::Replace, "a", "a", "", "")), no_target);
    let no_modulus = "relabeling rule 2, action hashmod: it needs a modulus above 0";
    assert_eq!(said(rule(Action::HashMod, "a", "a", "b", "")), no_modulus);
}

#[test]
fn rules_that_only_leave_out_are_known() {
    let is_filter = |action| Relabeling::new([rule(action, "a", "b", "c", "")]).unwrap().only_filters();
    assert!(Relabeling::default().only_filters() && Relabeling::default().is_empty());
    assert!(is_filter(Action::Keep) && is_filter(Action::DropEqual));
    assert!(!is_filter(Action::Replace) && !is_filter(Action::LabelDrop));
}

#[test]
fn rules_do_not_fill_the_memory() {
    let doubling = |times| {
        let double = rule(Action::Replace, "a", "(.*)", "a", "$1$1");
        let rules = Relabeling::new(vec![double; times]).unwrap();
        let mut labels = labels("a=0123456789abcdef");
        rules.apply(&mut labels).map(|_| labels.get("a").len())
    };
    assert_eq!(doubling(16), Ok(1 << 20));
    assert_eq!(doubling(17), Err(TooLong));
    assert_eq!(doubling(100), Err(TooLong), "without having been applied all");
}
