//! The records of a request: what is in them, whatever they are written in.

use std::ops::Range;

use weir_otlp::common::{AnyValue, KeyValue, Resource};
use weir_otlp::logs::{LogRecord, ScopeLogs, resource_logs};
use weir_plan::FluentBit;

use crate::members::{Member, Members};
use crate::time::Clock;

/// How records are written.
pub(crate) trait Notation {
    /// Before all records.
    fn start(&mut self);
    /// After all records.
    fn finish(&mut self);
    /// Begins a record. What its format has to say of time is a part of it.
    fn begin(&mut self, record: &Record<'_>, clock: &mut Clock);
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

/// A line, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    /// When it was written, else when it was read.
    pub(crate) unix_nanos: u64,
    pub(crate) text: &'a str,
    /// `stdout` or `stderr`; empty when the file does not say it.
    stream: &'a str,
    /// If the text is an object.
    pub(crate) members: Option<&'a Members>,
    /// Whose it is.
    pub(crate) origin: Origin<'a>,
    /// Which of its own fields members take the place of.
    pub(crate) replaced: Replaced,
}

impl<'a> Record<'a> {
    pub(crate) fn members(&self) -> impl Iterator<Item = Member<'a>> + use<'a> {
        let text = self.text;
        self.members.into_iter().flat_map(move |members| members.of(text))
    }
}

/// Fields of a record that a member may replace.
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
    fn note(&mut self, name: &str) {
        match name {
            "date" => self.date = true,
            "time" => self.time = true,
            "stream" => self.stream = true,
            "_p" => self.part = true,
            "log" => self.log = true,
            "cluster_identifier" => self.cluster = true,
            "@timestamp" => self.timestamp = true,
            _ => {}
        }
    }
}

/// What the resource says of the container.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin<'a> {
    resource: Option<Resource<'a>>,
    pub(crate) pod: &'a str,
    pub(crate) node: &'a str,
    cluster: &'a str,
}

const LABEL: &str = "k8s.pod.label.";
const ANNOTATION: &str = "k8s.pod.annotation.";

impl<'a> Origin<'a> {
    fn of(resource: Option<Resource<'a>>) -> Self {
        let origin = Self { resource, ..Self::default() };
        let cluster = match origin.text("k8s.cluster.name") {
            "" => origin.text("k8s.cluster.uid"),
            name => name,
        };
        Self { pod: origin.text("k8s.pod.name"), node: origin.text("k8s.node.name"), cluster, ..origin }
    }

    fn texts(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        texts(self.resource.into_iter().flat_map(Resource::attributes))
    }

    /// The value of an attribute; empty where there is none.
    fn text(self, wanted: &str) -> &'a str {
        self.texts().find(|(key, _)| *key == wanted).map_or("", |(_, value)| value)
    }

    /// Attributes whose keys begin like this, without that.
    fn below(self, prefix: &'static str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value)))
    }

    /// What the pod's labels call the application.
    fn app(self) -> Option<&'a str> {
        let label = |wanted| self.below(LABEL).find(|(key, _)| *key == wanted).map(|(_, value)| value);
        label("app.kubernetes.io/name").or_else(|| label("app"))
    }
}

fn texts<'a>(attributes: impl Iterator<Item = KeyValue<'a>>) -> impl Iterator<Item = (&'a str, &'a str)> {
    attributes.filter_map(|attribute| match attribute.value() {
        AnyValue::String(value) => Some((attribute.key(), value)),
        _ => None,
    })
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
        let line = if let AnyValue::String(text) = log.body() { text } else { "" };
        let object = line.trim_ascii();
        let mut members = std::mem::take(&mut self.members);
        let is_object = members.read(object).is_ok();
        let mut replaced = Replaced::default();
        if is_object {
            members.of(object).for_each(|member| replaced.note(&member.name()));
        }
        let time = log.time_unix_nano();
        let stream = texts(log.attributes()).find(|(key, _)| *key == "log.iostream").map_or("", |(_, stream)| stream);
        let record = Record {
            unix_nanos: if time > 0 { time } else { log.observed_time_unix_nano() },
            text: if is_object { object } else { line },
            stream,
            members: is_object.then_some(&members),
            origin,
            replaced,
        };
        self.notation.begin(&record, &mut self.clock);
        self.own(&record, time);
        record.members().filter(|member| member.name() != KUBERNETES).for_each(|member| self.notation.member(member));
        self.container(&record);
        if time > 0 && !replaced.timestamp {
            self.notation.text("@timestamp", self.clock.nanos(time));
        }
        self.notation.end();
        self.records += 1;
        self.members = members;
    }

    /// What the file says of the line. A plain file says neither its time nor its stream.
    fn own(&mut self, record: &Record<'_>, time: u64) {
        let Record { text, stream, members, replaced, .. } = *record;
        if time > 0 && !replaced.time {
            self.notation.text("time", self.clock.nanos(time));
        }
        if !stream.is_empty() && !replaced.stream {
            self.notation.text("stream", stream);
        }
        // Parts of lines were joined before.
        if !stream.is_empty() && !replaced.part {
            self.notation.text("_p", "F");
        }
        if (members.is_none() || self.settings.keep_original_body) && !replaced.log {
            self.notation.text("log", text);
        }
    }

    /// What is known of the container. It is never the first field of a record, and so looks alike in all of them.
    fn container(&mut self, record: &Record<'_>) {
        let origin = record.origin;
        if !origin.cluster.is_empty() && !record.replaced.cluster {
            if let Some(field) = self.cluster.clone() {
                self.notation.repeat(field);
            } else {
                let start = self.notation.len();
                self.notation.text("cluster_identifier", origin.cluster);
                self.cluster = Some(start..self.notation.len());
            }
        }
        if let Some(field) = self.kubernetes.clone() {
            return self.notation.repeat(field);
        }
        let start = self.notation.len();
        self.kubernetes(origin);
        self.kubernetes = Some(start..self.notation.len());
    }

    fn kubernetes(&mut self, origin: Origin<'_>) {
        self.notation.open(KUBERNETES);
        for (key, attribute) in [
            ("pod_name", "k8s.pod.name"),
            ("namespace_name", "k8s.namespace.name"),
            ("pod_id", "k8s.pod.uid"),
            ("host", "k8s.node.name"),
            ("container_name", "k8s.container.name"),
            ("container_image", "container.image.name"),
        ] {
            let value = origin.text(attribute);
            if !value.is_empty() {
                self.notation.text(key, value);
            }
        }
        if self.settings.labels {
            self.map("labels", LABEL, origin);
            if let Some(app) = origin.app() {
                self.notation.text("app_name", app);
            }
        }
        if self.settings.annotations {
            self.map("annotations", ANNOTATION, origin);
        }
        self.notation.close();
    }

    fn map(&mut self, key: &str, prefix: &'static str, origin: Origin<'_>) {
        if origin.below(prefix).next().is_none() {
            return;
        }
        let dedot = self.settings.dedot;
        self.notation.open(key);
        for (place, (key, value)) in origin.below(prefix).enumerate() {
            if !dedot {
                self.notation.text(key, value);
                continue;
            }
            let key = key.replace(['/', '.'], "_");
            // Of keys that become the same the last one counts.
            if !origin.below(prefix).skip(place + 1).any(|(later, _)| later.replace(['/', '.'], "_") == key) {
                self.notation.text(&key, value);
            }
        }
        self.notation.close();
    }
}

/// Only we know what belongs there: a member of this name is left out.
const KUBERNETES: &str = "kubernetes";
