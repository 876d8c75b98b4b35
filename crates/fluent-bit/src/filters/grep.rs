//! `grep`: keeps and drops records by their values.

use weir_plan::Section;

use super::accessor::Accessor;
use super::fields::Fields;
use super::keys::Keys;
use super::pattern::Pattern;
use crate::text::Wrong;

pub(crate) struct Grep {
    rules: Vec<Rule>,
    operator: Operator,
}

struct Rule {
    /// `Exclude`, and not `Regex`.
    excludes: bool,
    key: Accessor,
    pattern: Pattern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    And,
    Or,
    /// The first rule that decides.
    Legacy,
}

impl Grep {
    pub(crate) fn compile(section: &Section) -> Result<Self, Vec<Wrong>> {
        let mut keys = Keys::new("grep", section, &["regex", "exclude", "logical_op"]);
        let mut operator = Operator::Legacy;
        if let Some(line) = keys.last("logical_op") {
            match line.value.reveal().to_ascii_lowercase().as_str() {
                "and" => operator = Operator::And,
                "or" => operator = Operator::Or,
                "legacy" => {}
                _ => keys.refuse(line, "has an unknown value", "AND, OR or legacy"),
            }
        }
        let mut rules: Vec<Rule> = Vec::new();
        for line in keys.lines.clone().into_iter().filter(|line| line.key != "logical_op") {
            let Some((key, pattern)) = keys.pair(line, "KEY REGEX") else { continue };
            let (key, pattern) = (keys.accessor(line, key), keys.pattern(line, pattern));
            let excludes = line.key == "exclude";
            if operator != Operator::Legacy && rules.first().is_some_and(|first| first.excludes != excludes) {
                keys.refuse(
                    line,
                    "stands beside lines of the other kind",
                    "regex or exclude alone, or logical_op legacy",
                );
            }
            let Some((key, pattern)) = key.zip(pattern) else { continue };
            rules.push(Rule { excludes, key, pattern });
        }
        if rules.is_empty() && keys.wrong.is_empty() {
            keys.wrong.push(Wrong::new(
                0,
                "filter grep has neither regex nor exclude",
                "a line such as: regex log error",
            ));
        }
        keys.done(Some(Self { rules, operator }))
    }

    /// Whether a record stays.
    pub(crate) fn keeps(&self, record: &Fields<'_>) -> bool {
        let first_excludes = self.rules.first().is_some_and(|rule| rule.excludes);
        match self.operator {
            Operator::And => self.rules.iter().all(|rule| rule.holds(record)) != first_excludes,
            Operator::Or => self.rules.iter().any(|rule| rule.holds(record)) != first_excludes,
            Operator::Legacy => {
                // A rule decides that keeps what matches, whether it does or not, and one that excludes if it matches.
                let deciding = self.rules.iter().map(|rule| (rule, rule.holds(record)));
                let decided = deciding.into_iter().find(|(rule, holds)| !rule.excludes || *holds);
                decided.is_none_or(|(rule, holds)| holds && !rule.excludes)
            }
        }
    }
}

impl Rule {
    /// Only texts can match.
    fn holds(&self, record: &Fields<'_>) -> bool {
        let value = self.key.get(record);
        value.is_some_and(|value| value.text().is_some_and(|text| self.pattern.is_match(&text)))
    }
}
