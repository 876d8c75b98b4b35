//! The records of a request: their fields, in every format.

use std::ops::Range;

use weir_otlp::common::AnyValue;
use weir_otlp::conventions;
use weir_otlp::logs::{LogRecord, ScopeLogs, resource_logs};
use weir_plan::{Date, FluentBit};

use crate::members::{MOST_FIELDS, MOST_MEMBERS, Member, Members};
use crate::origin::{Origin, texts};
use crate::time::Clock;

/// How records are written.
pub(crate) trait Notation {
    /// Whether names are written in another way, so that different ones may become the same.
    const RENAMES: bool = false;

    /// A name as it is written.
    fn name(key: &str) -> String {
        key.to_owned()
    }
    /// Before all records.
    fn start(&mut self);
    /// After all records.
    fn finish(&mut self);
    /// Begins a record. What its format has to say of time is a part of it.
    fn begin(&mut self, record: &Record<'_>, date: &Date, clock: &mut Clock);
    fn end(&mut self);
    fn text(&mut self, key: &str, value: &str);
    fn member(&mut self, member: Member<'_>);
    /// Begins an object, which has texts and objects.
    fn open(&mut self, key: &str);
    fn close(&mut self);
    /// Bytes so far.
    fn len(&self) -> usize;
    /// Writes a field of the record once more that an earlier record has.
    fn repeat(&mut self, field: Range<usize>);
}

/// A line with its time and its stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// When it was written; 0 when the file does not say it.
    time: u64,
    /// When it was written, else when it was read.
    pub(crate) unix_nanos: u64,
    pub(crate) text: &'a str,
    /// `stdout` or `stderr`; empty when the file does not say it.
    stream: &'a str,
    /// If the text is an object.
    pub(crate) members: Option<&'a Members>,
    /// Whose it is.
    pub(crate) origin: Origin<'a>,
    /// Which of its own fields, and whether the date, others take the place of.
    pub(crate) replaced: Replaced,
    /// The members are all of the record but this.
    pub(crate) finished: Option<Finished>,
}

/// What filters made is the text of a record: an object with all of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    Whole,
    /// Except the facts about the container, which are as they were.
    WithoutKubernetes,
}

impl Finished {
    /// The attribute that says so, which nobody else writes.
    pub(crate) const ATTRIBUTE: &'static str = "fluent_bit.record";

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::WithoutKubernetes => "without_kubernetes",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Whole, Self::WithoutKubernetes].into_iter().find(|finished| finished.name() == name)
    }
}

/// Takes the fields of a record, beside its date.
pub(crate) trait Fields<'a> {
    /// When the line was written.
    fn time(&mut self, name: &'static str);
    fn text(&mut self, name: &'static str, text: &'a str);
    fn member(&mut self, member: Member<'a>);
    fn cluster(&mut self, name: &'a str);
    /// Facts about the container.
    fn kubernetes(&mut self);
}

impl<'a> Record<'a> {
    /// Reads a record whose text may be an object, which `members` gets the members of.
    pub(crate) fn read(log: LogRecord<'a>, origin: Origin<'a>, settings: &FluentBit, members: &'a mut Members) -> Self {
        let date = settings.date.key.as_deref();
        let line = if let AnyValue::String(text) = log.body() { text } else { "" };
        // What filters made has no stream of its own.
        let mut known =
            texts(log.attributes()).filter(|(key, _)| matches!(*key, conventions::LOG_STREAM | Finished::ATTRIBUTE));
        let (stream, finished) = match known.next() {
            Some((conventions::LOG_STREAM, stream)) => (stream, None),
            Some((_, name)) => ("", Finished::of(name)),
            None => ("", None),
        };
        let object = line.trim_ascii();
        let most = if finished.is_some() { MOST_FIELDS } else { MOST_MEMBERS };
        let is_object = members.read(object, most).is_ok();
        let members = &*members;
        let mut replaced = Replaced::default();
        if is_object {
            members.of(object).for_each(|member| replaced.note(&member.name(), date));
        }
        let time = log.time_unix_nano();
        let mut record = Self {
            time,
            unix_nanos: if time > 0 { time } else { log.observed_time_unix_nano() },
            text: if is_object { object } else { line },
            stream,
            members: is_object.then_some(members),
            origin,
            replaced,
            finished: finished.filter(|_| is_object),
        };
        record.replaced.date |= date.is_some_and(|date| record.has_own(date, settings));
        record
    }

    /// Whether one of its own fields has this name.
    fn has_own(&self, name: &str, settings: &FluentBit) -> bool {
        if let Some(finished) = self.finished {
            return finished == Finished::WithoutKubernetes && name == KUBERNETES;
        }
        match name {
            "time" => self.time > 0,
            "stream" | "_p" => !self.stream.is_empty(),
            "log" => self.members.is_none() || settings.keep_original_body,
            CLUSTER => !self.origin.cluster.is_empty(),
            KUBERNETES => true,
            "@timestamp" => settings.kyma && self.time > 0,
            _ => false,
        }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = Member<'a>> + use<'a> {
        let text = self.text;
        self.members.into_iter().flat_map(move |members| members.of(text))
    }

    /// Gives all fields but the date, in order.
    #[inline]
    pub(crate) fn give(&self, settings: &FluentBit, to: &mut impl Fields<'a>) {
        match self.finished {
            None => {
                self.own(settings, to);
                let members = self.members().filter(|member| member.name() != KUBERNETES);
                members.for_each(|member| to.member(member));
                self.container(settings, to);
            }
            Some(Finished::Whole) => self.members().for_each(|member| to.member(member)),
            Some(Finished::WithoutKubernetes) => {
                self.members().for_each(|member| to.member(member));
                to.kubernetes();
            }
        }
    }

    /// What the file says of the line. A plain file says neither its time nor its stream.
    #[inline]
    fn own(&self, settings: &FluentBit, to: &mut impl Fields<'a>) {
        let Self { time, text, stream, members, replaced, .. } = *self;
        if time > 0 && !replaced.time {
            to.time("time");
        }
        if !stream.is_empty() && !replaced.stream {
            to.text("stream", stream);
        }
        // Parts of lines were joined before.
        if !stream.is_empty() && !replaced.part {
            to.text("_p", "F");
        }
        if (members.is_none() || settings.keep_original_body) && !replaced.log {
            to.text("log", text);
        }
    }

    #[inline]
    fn container(&self, settings: &FluentBit, to: &mut impl Fields<'a>) {
        let Self { time, origin, replaced, .. } = *self;
        if !origin.cluster.is_empty() && !replaced.cluster {
            to.cluster(origin.cluster);
        }
        to.kubernetes();
        if settings.kyma && time > 0 && !replaced.timestamp {
            to.time("@timestamp");
        }
    }
}

/// Fields of a record that a member may replace; the date gives place to any other field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Replaced {
    pub(crate) date: bool,
    time: bool,
    stream: bool,
    part: bool,
    log: bool,
    cluster: bool,
    timestamp: bool,
}

impl Replaced {
    fn note(&mut self, name: &str, date: Option<&str>) {
        self.date |= date == Some(name);
        match name {
            "time" => self.time = true,
            "stream" => self.stream = true,
            "_p" => self.part = true,
            "log" => self.log = true,
            CLUSTER => self.cluster = true,
            "@timestamp" => self.timestamp = true,
            _ => {}
        }
    }
}

/// Writes records.
pub(crate) struct Writer<'a, N> {
    settings: &'a FluentBit,
    notation: &'a mut N,
    members: Members,
    clock: Clock,
    records: usize,
    /// Where the fields of the container are in what was written: they are the same in all its records.
    cluster: Option<Range<usize>>,
    kubernetes: Option<Range<usize>>,
}

impl<'a, N: Notation> Writer<'a, N> {
    pub(crate) fn new(settings: &'a FluentBit, notation: &'a mut N) -> Self {
        let (members, clock) = (Members::default(), Clock::new());
        Self { settings, notation, members, clock, records: 0, cluster: None, kubernetes: None }
    }

    pub(crate) fn records(&self) -> usize {
        self.records
    }

    pub(crate) fn request(&mut self, request: &[u8]) {
        for resource in resource_logs(request) {
            let origin = Origin::of(resource.resource());
            (self.cluster, self.kubernetes) = (None, None);
            let records = resource.scope_logs().flat_map(ScopeLogs::log_records);
            records.for_each(|record| self.record(record, origin));
        }
    }

    fn record(&mut self, log: LogRecord<'_>, origin: Origin<'_>) {
        let mut members = std::mem::take(&mut self.members);
        let record = Record::read(log, origin, self.settings, &mut members);
        self.notation.begin(&record, &self.settings.date, &mut self.clock);
        let (time, is_first) = (record.time, self.settings.date.key.is_none() || record.replaced.date);
        record.give(self.settings, &mut Written { writer: self, origin, time, is_first });
        self.notation.end();
        self.records += 1;
        self.members = members;
    }
}

/// A record that is being written.
struct Written<'w, 'a, 'r, N> {
    writer: &'w mut Writer<'a, N>,
    origin: Origin<'r>,
    time: u64,
    /// A field that is the first of its record looks otherwise than in other records. Most have a date before it.
    is_first: bool,
}

impl<'r, N: Notation> Fields<'r> for Written<'_, '_, 'r, N> {
    fn time(&mut self, name: &'static str) {
        self.is_first = false;
        self.writer.notation.text(name, self.writer.clock.nanos(self.time));
    }

    fn text(&mut self, name: &'static str, text: &'r str) {
        self.is_first = false;
        self.writer.notation.text(name, text);
    }

    fn member(&mut self, member: Member<'r>) {
        self.is_first = false;
        self.writer.notation.member(member);
    }

    fn cluster(&mut self, name: &'r str) {
        let is_first = std::mem::take(&mut self.is_first);
        let Writer { notation, cluster, .. } = &mut *self.writer;
        if let Some(field) = cluster.clone().filter(|_| !is_first) {
            return notation.repeat(field);
        }
        let start = notation.len();
        notation.text(CLUSTER, name);
        if !is_first {
            *cluster = Some(start..notation.len());
        }
    }

    fn kubernetes(&mut self) {
        let is_first = std::mem::take(&mut self.is_first);
        let Writer { notation, kubernetes: known, settings, .. } = &mut *self.writer;
        if let Some(field) = known.clone().filter(|_| !is_first) {
            return notation.repeat(field);
        }
        let start = notation.len();
        kubernetes(*notation, settings, self.origin);
        if !is_first {
            *known = Some(start..notation.len());
        }
    }
}

/// Facts about a container.
pub(crate) fn kubernetes(notation: &mut impl Notation, settings: &FluentBit, origin: Origin<'_>) {
    notation.open(KUBERNETES);
    for (key, attribute) in [
        ("pod_name", conventions::POD_NAME),
        ("namespace_name", conventions::NAMESPACE_NAME),
        ("pod_id", conventions::POD_UID),
        ("host", conventions::NODE_NAME),
        ("container_name", conventions::CONTAINER_NAME),
        ("container_image", conventions::IMAGE_NAME),
    ] {
        let value = origin.text(attribute);
        if !value.is_empty() {
            notation.text(key, value);
        }
    }
    if settings.labels {
        map(notation, "labels", conventions::POD_LABEL, settings.dedot, origin);
    }
    if settings.labels
        && settings.kyma
        && let Some(app) = origin.app()
    {
        notation.text("app_name", app);
    }
    if settings.annotations {
        map(notation, "annotations", conventions::POD_ANNOTATION, settings.dedot, origin);
    }
    notation.close();
}

fn map<N: Notation>(notation: &mut N, key: &str, prefix: &'static str, dedot: bool, origin: Origin<'_>) {
    if origin.below(prefix).next().is_none() {
        return;
    }
    notation.open(key);
    if !dedot && !N::RENAMES {
        origin.below(prefix).for_each(|(key, value)| notation.text(key, value));
        return notation.close();
    }
    let written = |key: &str| if dedot { N::name(&dedotted(key)) } else { N::name(key) };
    for (place, (key, value)) in origin.below(prefix).enumerate() {
        let key = written(key);
        // Of keys that become the same the last one counts.
        if !origin.below(prefix).skip(place + 1).any(|(later, _)| written(later) == key) {
            notation.text(&key, value);
        }
    }
    notation.close();
}

/// A key of a label or an annotation as Kyma writes it for backends that cannot have dots in names.
pub(crate) fn dedotted(key: &str) -> String {
    key.replace(['/', '.'], "_")
}

pub(crate) const CLUSTER: &str = "cluster_identifier";

/// Only we know what belongs there: a member of this name is left out.
pub(crate) const KUBERNETES: &str = "kubernetes";
