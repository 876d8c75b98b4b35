//! What samples are of: their home, which is a resource and a scope.
//!
//! Most samples are of their target, and in Weir's own scope. Labels may say otherwise: `otel_scope_*`, and with
//! `honor_labels` also `job` and `instance`. Metrics are written one after the other all the same, so that what is
//! known of a page is one text. Between them are fields that no `ScopeMetrics` has: a home, the first time that it
//! occurs, and a mark that says which home all that follows is of. When a request is made, `sorted` brings together what
//! is of one home.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::ops::Range;

use memchr::memmem;
use weir_otlp::build::Encoder;
use weir_otlp::common::Message;
use weir_otlp::cursor::{Field, Value};
use weir_otlp::field::{resource, scope, scope_data};

use super::known::hash_all;
use super::page::PageRules;
use super::previous::ByHash;
use super::series::{Label, Series};
use super::text::{Line, line, lines_with};
use crate::encoding::attribute;

mod sorted;

pub(super) use sorted::Homes;

/// Fields between metrics.
mod field {
    /// A home, with the fields of the module `part`.
    pub(super) const HOME: u32 = 100;
    /// The id of the home of the metrics that follow, as a `fixed64`. 0: the target and Weir's scope.
    pub(super) const MARK: u32 = 101;
    /// Labels of a sample `target_info`: the fields of a resource, and `JOB` and `INSTANCE` of the module `part`.
    pub(super) const INFO: u32 = 102;
}

/// Fields of a home.
mod part {
    pub(super) const ID: u32 = 11;
    pub(super) const JOB: u32 = 12;
    pub(super) const INSTANCE: u32 = 13;
    /// An `InstrumentationScope`.
    pub(super) const SCOPE: u32 = 14;
    pub(super) const SCHEMA_URL: u32 = 15;
}

/// The metric whose labels are attributes of the resource.
pub(super) const TARGET_INFO: &[u8] = b"target_info";

/// The metric whose labels are attributes of a scope.
pub(super) const SCOPE_INFO: &[u8] = b"otel_scope_info";

/// What labels begin with that say which scope a sample is of.
const SCOPE_PREFIX: &[u8] = b"otel_scope_";

/// A home that is not the target and Weir's scope. What labels do not say is empty.
#[derive(Debug, Default)]
pub(super) struct Home<'p> {
    job: Cow<'p, [u8]>,
    instance: Cow<'p, [u8]>,
    scope: Cow<'p, [u8]>,
    version: Cow<'p, [u8]>,
    schema_url: Cow<'p, [u8]>,
    /// Of the scope, by their names.
    attributes: Vec<Label<'p>>,
}

/// What samples `otel_scope_info` say of scopes, by their names and versions.
#[derive(Debug, Default)]
pub(super) struct ScopeInfos<'p> {
    all: HashMap<(Vec<u8>, Vec<u8>), ScopeInfo<'p>>,
    /// Bytes that homes may still take for them. A page can have many homes of one scope, and each says all of it again.
    room: usize,
}

/// What one of them says.
#[derive(Debug)]
struct ScopeInfo<'p> {
    said: Home<'p>,
    /// Bytes that it takes at most in each home of that scope.
    bytes: usize,
}

/// Follows the homes of metrics of which only some are copied.
#[derive(Debug)]
pub(super) struct Follower<'m> {
    metrics: &'m [u8],
    /// Homes that were not copied yet.
    homes: ByHash<Range<usize>>,
    id: u64,
    copied: u64,
}

impl<'p> Home<'p> {
    /// Takes the labels out of a series that say what it is of. `None`: of the target, in Weir's scope.
    pub(super) fn take(series: &mut Series<'p>, rules: &PageRules) -> Option<Self> {
        if !series.labels.iter().any(|label| says_home(&label.name)) {
            return None;
        }
        let mut home = Self::default();
        series.labels.retain_mut(|label| {
            let says_home = says_home(&label.name);
            if says_home {
                home.add(mem::replace(label, Label { name: Cow::Borrowed(b""), value: Cow::Borrowed(b"") }));
            }
            !says_home
        });
        for (name, value) in [(&b"job"[..], &mut home.job), (b"instance", &mut home.instance)] {
            if rules.target_label(name) == Some(value) {
                *value = Cow::Borrowed(b"");
            }
        }
        let texts = [&home.job, &home.instance, &home.scope, &home.version, &home.schema_url];
        let is_own = texts.iter().all(|text| text.is_empty()) && home.attributes.is_empty();
        home.attributes.sort_by(|one, other| one.name.cmp(&other.name));
        (!is_own).then_some(home)
    }

    fn add(&mut self, Label { name, value }: Label<'p>) {
        match name.as_ref() {
            b"job" => self.job = value,
            b"instance" => self.instance = value,
            b"otel_scope_name" => self.scope = value,
            b"otel_scope_version" => self.version = value,
            b"otel_scope_schema_url" => self.schema_url = value,
            _ => {
                let name = match name {
                    Cow::Borrowed(name) => Cow::Borrowed(&name[SCOPE_PREFIX.len()..]),
                    Cow::Owned(name) => Cow::Owned(name[SCOPE_PREFIX.len()..].to_vec()),
                };
                self.attributes.push(Label { name, value });
            }
        }
    }

    /// A number that stands for it.
    pub(super) fn id(&self) -> u64 {
        let texts = [&self.job, &self.instance, &self.scope, &self.version, &self.schema_url];
        let attributes = self.attributes.iter().flat_map(|label| [&label.name, &label.value]);
        hash_all(texts.into_iter().chain(attributes).map(AsRef::as_ref))
    }

    /// Writes what it is, before the first mark with its id.
    pub(super) fn define(&self, id: u64, infos: &mut ScopeInfos<'_>, out: &mut Encoder) {
        let info = infos.take(self);
        let open = out.open(field::HOME, 127);
        out.fixed64(part::ID, id);
        out.bytes(part::JOB, &self.job);
        out.bytes(part::INSTANCE, &self.instance);
        let own_url = Some(&self.schema_url).filter(|url| !url.is_empty());
        if let Some(url) = own_url.or(info.map(|info| &info.schema_url)) {
            out.bytes(part::SCHEMA_URL, url);
        }
        if !self.scope.is_empty() || !self.version.is_empty() || !self.attributes.is_empty() {
            let scope = out.open(part::SCOPE, 127);
            out.bytes(scope::NAME, &self.scope);
            out.bytes(scope::VERSION, &self.version);
            // They are sorted.
            let is_own = |name: &[u8]| self.attributes.binary_search_by(|label| label.name.as_ref().cmp(name)).is_ok();
            let more = info.iter().flat_map(|info| &info.attributes).filter(|label| !is_own(&label.name));
            for Label { name, value } in self.attributes.iter().chain(more) {
                attribute(out, scope::ATTRIBUTES, name, value);
            }
            out.close(scope);
        }
        out.close(open);
    }
}

/// Says that the metrics that follow are of the home with this id.
pub(super) fn mark(id: u64, out: &mut Encoder) {
    out.fixed64(field::MARK, id);
}

/// Writes the labels of a sample `target_info`.
pub(super) fn info(home: Option<&Home<'_>>, series: &Series<'_>, out: &mut Encoder) {
    let open = out.open(field::INFO, 127);
    for Label { name, value } in &series.labels {
        attribute(out, resource::ATTRIBUTES, name, value);
    }
    if let Some(home) = home {
        out.bytes(part::JOB, &home.job);
        out.bytes(part::INSTANCE, &home.instance);
    }
    out.close(open);
}

/// Whether there is anything but metrics.
pub(super) fn has_any(metrics: &[u8]) -> bool {
    Message::request(metrics).fields().any(|field| field.number != scope_data::ITEMS)
}

/// Copies the labels of samples `target_info`.
pub(super) fn copy_infos(metrics: &[u8], out: &mut Vec<u8>) {
    for info in Message::request(metrics).messages(field::INFO) {
        out.extend_from_slice(&metrics[info.field_range()]);
    }
}

/// Where marks are in a text of metrics, and the ids that they say.
pub(super) fn marks(metrics: &[u8]) -> Vec<(usize, u64)> {
    Message::request(metrics).fields().filter_map(|field| Some((field.start, marked(&field)?))).collect()
}

fn marked(field: &Field<'_>) -> Option<u64> {
    match field.value {
        Value::Fixed64(id) if field.number == field::MARK => Some(id),
        _ => None,
    }
}

/// Whether a label says what a sample is of.
fn says_home(name: &[u8]) -> bool {
    matches!(name, b"job" | b"instance") || name.starts_with(SCOPE_PREFIX) && name.len() > SCOPE_PREFIX.len()
}

/// The lines of a page that may say something of scopes.
fn info_lines(page: &[u8]) -> impl Iterator<Item = &[u8]> {
    lines_with(page, memmem::find_iter(page, SCOPE_INFO)).map(move |(_, line)| &page[line])
}

/// Bytes of the lines of a page that may say something of scopes.
pub(super) fn info_bytes(page: &[u8]) -> usize {
    info_lines(page).map(<[u8]>::len).sum()
}

/// Memory that samples `otel_scope_info` take: in [`ScopeInfos`], and in the homes that say it again, which there are
/// several copies of. `bytes`: how long they are on a page of this length.
pub(super) fn infos_work(length: usize, bytes: usize) -> usize {
    if bytes == 0 { 0 } else { INFO_RATIO * bytes + 4 * infos_room(length) }
}

/// What a label takes in [`ScopeInfos`] at most, as a multiple of what it takes on the page, which may be a few bytes.
const INFO_RATIO: usize = 32;

/// Bytes that homes take for them at most on a page of this length, beside the homes themselves.
fn infos_room(length: usize) -> usize {
    length + (64 << 10)
}

impl<'p> ScopeInfos<'p> {
    /// Nothing is known yet of the scopes of a page of this length.
    pub(super) fn of_page(length: usize) -> Self {
        Self { all: HashMap::new(), room: infos_room(length) }
    }

    /// What a page says of scopes, anywhere on it.
    pub(super) fn read(page: &'p [u8]) -> Self {
        let mut all = Self::of_page(page.len());
        for text in info_lines(page) {
            let mut series = Series::default();
            if let Ok(Line::Sample(sample)) = line(text)
                && series.read(sample.series).is_ok()
                && series.name == SCOPE_INFO
            {
                all.add(series.labels);
            }
        }
        all
    }

    pub(super) fn add(&mut self, labels: Vec<Label<'p>>) {
        let mut info = Home::default();
        for label in labels {
            match label.name.as_ref() {
                b"job" | b"instance" => {}
                b"otel_scope_name" | b"otel_scope_version" | b"otel_scope_schema_url" => info.add(label),
                _ => info.attributes.push(label),
            }
        }
        let attributes = info.attributes.iter().map(Label::bytes).sum::<usize>();
        let bytes = info.schema_url.len() + attributes;
        self.all.insert((info.scope.to_vec(), info.version.to_vec()), ScopeInfo { said: info, bytes });
    }

    /// What they say of the scope of a home, if there is room for it.
    fn take(&mut self, home: &Home<'_>) -> Option<&Home<'p>> {
        let info = self.all.get(&(home.scope.to_vec(), home.version.to_vec()))?;
        self.room = self.room.checked_sub(info.bytes)?;
        Some(&info.said)
    }
}

impl<'m> Follower<'m> {
    pub(super) fn new(metrics: &'m [u8]) -> Self {
        Self { metrics, homes: ByHash::default(), id: 0, copied: 0 }
    }

    /// Passes a field that is no metric.
    pub(super) fn pass(&mut self, field: &Field<'_>) {
        let all = Message::request(self.metrics);
        if let Some(id) = marked(field) {
            self.id = id;
        } else if field.number == field::HOME
            && let Some(home) = all.inner(field)
        {
            self.homes.insert(home.fixed64(part::ID), field.start..field.end);
        }
    }

    /// Writes what the next metric is of, if that is not what was written last.
    pub(super) fn write(&mut self, out: &mut Encoder) {
        if self.id == self.copied {
            return;
        }
        if let Some(range) = self.homes.remove(&self.id) {
            out.raw(&self.metrics[range]);
        }
        mark(self.id, out);
        self.copied = self.id;
    }

    /// What follows is of the target again.
    pub(super) fn end(&mut self, out: &mut Encoder) {
        self.id = 0;
        self.write(out);
    }
}
