//! A list of damaged places that stays short, whatever the bytes say. Plain data.

use crate::model::DamageReport;

/// So many places are listed one by one; all that follow are one report together.
const LISTED: usize = 1000;

/// The list.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reports {
    listed: Vec<DamageReport>,
    rest: Option<DamageReport>,
}

impl Reports {
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    pub(crate) fn push(&mut self, report: DamageReport) {
        if self.listed.len() < LISTED {
            return self.listed.push(report);
        }
        match &mut self.rest {
            Some(rest) => rest.absorb(&report),
            None => self.rest = Some(report),
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        other.listed.into_iter().chain(other.rest).for_each(|report| self.push(report));
    }

    pub(crate) fn into_list(self) -> Vec<DamageReport> {
        let mut list = self.listed;
        list.extend(self.rest);
        list
    }
}

impl DamageReport {
    /// Stands for another place as well.
    fn absorb(&mut self, other: &Self) {
        // What is lost is said by files, which may say anything.
        let sum = |one: Option<u64>, other: Option<u64>| {
            let sum = one.unwrap_or(0).saturating_add(other.unwrap_or(0));
            let is_known = one.is_some() && other.is_some();
            (is_known || sum > 0).then_some(sum)
        };
        self.places = self.places.saturating_add(other.places);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.entries = sum(self.entries, other.entries);
        self.items = sum(self.items, other.items);
        self.what = format!("this is the first of {} more places, which are not listed one by one", self.places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_summed_up() {
        let mut reports = Reports::default();
        for number in 0..5000 {
            let (file, what) = (String::new(), String::new());
            let entries = (number % 2 == 0).then_some(3);
            reports.push(DamageReport {
                file,
                segment: number,
                offset: 0,
                bytes: 8,
                places: 1,
                entries,
                items: None,
                what,
            });
        }
        let mut all = Reports::default();
        all.append(reports);
        let list = all.into_list();
        assert_eq!(list.len(), LISTED + 1);
        let rest = list.last().unwrap();
        assert_eq!((rest.segment, rest.places, rest.bytes), (1000, 4000, 32_000));
        assert_eq!((rest.entries, rest.items), (Some(6000), None));
        assert!(rest.what.contains("4000 more places"));
    }
}
