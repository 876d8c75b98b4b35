//! Where rules stand in the configuration of a pipeline.

use weir_plan::Pipeline;

/// A rule, as far as which all before it are meant, too: transforms come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulePlace {
    /// The transform with this number, from 0 on.
    Transform(usize),
    /// The filter with this number.
    Filter(usize),
}

/// Where a condition stands: in which filter, and which of its conditions it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConditionPlace {
    pub(crate) filter: usize,
    pub(crate) condition: usize,
}

impl RulePlace {
    /// The rule that is written as `transform[0]` or `filter[1]`.
    pub fn named(name: &str) -> Option<Self> {
        let (kind, number) = name.strip_suffix(']')?.split_once('[')?;
        let number = number.parse().ok()?;
        match kind {
            "transform" => Some(Self::Transform(number)),
            "filter" => Some(Self::Filter(number)),
            _ => None,
        }
    }

    /// As the configuration calls it.
    pub fn field(self) -> String {
        match self {
            Self::Transform(number) => format!("transform[{number}]"),
            Self::Filter(number) => format!("filter[{number}]"),
        }
    }

    /// Whether the pipeline has it.
    pub(crate) fn is_of(self, pipeline: &Pipeline) -> bool {
        match self {
            Self::Transform(number) => number < pipeline.processing.transforms.len(),
            Self::Filter(number) => number < pipeline.processing.filters.len(),
        }
    }

    /// Whether the condition has had its say by then.
    pub(crate) fn includes(self, condition: ConditionPlace) -> bool {
        matches!(self, Self::Filter(number) if condition.filter <= number)
    }

    /// How many transforms and filters there are up to it.
    pub(super) fn counts(self) -> [usize; 2] {
        match self {
            Self::Transform(number) => [number.saturating_add(1), 0],
            Self::Filter(number) => [usize::MAX, number.saturating_add(1)],
        }
    }
}

impl ConditionPlace {
    /// As the configuration calls it.
    pub(crate) fn field(self) -> String {
        let Self { filter, condition } = self;
        format!("filter[{filter}].conditions[{condition}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_the_name_that_finds_it() {
        for place in [RulePlace::Transform(0), RulePlace::Filter(12)] {
            assert_eq!(RulePlace::named(&place.field()), Some(place));
        }
        for name in ["", "filter", "filter[]", "filter[-1]", "filter[0", "filter[0].conditions[1]", "filters[0]"] {
            assert_eq!(RulePlace::named(name), None, "{name}");
        }
    }
}
