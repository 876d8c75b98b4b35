//! `record_modifier`: removes fields, and adds some with fixed values.

use weir_plan::Section;

use super::fields::{Fields, Misfit, Value};
use super::keys::Keys;
use crate::text::Wrong;

pub(crate) struct RecordModifier {
    records: Vec<(String, String)>,
    removed: Vec<Name>,
    allowed: Vec<Name>,
}

/// A name in any case, or how names begin.
struct Name {
    text: String,
    is_prefix: bool,
}

const ALLOWED: [&str; 2] = ["allowlist_key", "whitelist_key"];

impl RecordModifier {
    pub(crate) fn compile(section: &Section) -> Result<Self, Vec<Wrong>> {
        let mut keys =
            Keys::new("record_modifier", section, &["record", "remove_key", "allowlist_key", "whitelist_key"]);
        let mut records = Vec::new();
        for line in keys.all("record").collect::<Vec<_>>() {
            let Some((key, value)) = keys.pair(line, "KEY VALUE") else { continue };
            records.push((key.to_owned(), value.to_owned()));
        }
        let removed: Vec<_> = keys.all("remove_key").map(|line| Name::of(line.value.reveal())).collect();
        let allowed: Vec<_> = keys.lines.iter().filter(|line| ALLOWED.contains(&line.key.as_str())).copied().collect();
        if let Some(line) = allowed.first().filter(|_| !removed.is_empty()) {
            keys.refuse(line, "stands beside remove_key", "one of the two");
        }
        let allowed = allowed.iter().map(|line| Name::of(line.value.reveal())).collect();
        keys.done(Some(Self { records, removed, allowed }))
    }

    pub(crate) fn apply<'a>(&'a self, record: &mut Fields<'a>) -> Result<bool, Misfit> {
        let is_in = |names: &[Name], name: &str| names.iter().any(|wanted| wanted.matches(name));
        let mut changed = match (&*self.removed, &*self.allowed) {
            ([], []) => false,
            ([], allowed) => record.remove(|field| !is_in(allowed, &field.name)),
            (removed, _) => record.remove(|field| is_in(removed, &field.name)),
        };
        for (name, value) in &self.records {
            record.put(name, Value::of(value))?;
            changed = true;
        }
        Ok(changed)
    }
}

impl Name {
    fn of(text: &str) -> Self {
        let prefix = text.strip_suffix('*');
        Self { text: prefix.unwrap_or(text).to_owned(), is_prefix: prefix.is_some() }
    }

    fn matches(&self, name: &str) -> bool {
        let (name, wanted) = (name.as_bytes(), self.text.as_bytes());
        let head = name.get(..wanted.len());
        (self.is_prefix || name.len() == wanted.len()) && head.is_some_and(|head| head.eq_ignore_ascii_case(wanted))
    }
}
