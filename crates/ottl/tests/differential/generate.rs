//! Generated statements: functions from the list of those supported with arguments of the kinds they declare, now and
//! then of another one; paths of every context; operators over all of it.

use fastrand::Rng;
use weir_ottl::{Signal, Signature, signatures};

use crate::collector::{Set, Task};
use crate::items::KEYS;

/// Functions whose result is another one each time, or may be no text or an address in memory in the reference, or that
/// 0.158 does not have.
const NOT_COMPARABLE: [&str; 7] = ["Base64Decode", "Decode", "Format", "Now", "UUID", "UUIDv7", "clear"];

/// A context, the attributes in it, paths that can be read, and paths that can be written with a value for them.
struct Scope {
    signal: Signal,
    map: &'static str,
    read: &'static [&'static str],
    write: &'static [(&'static str, &'static str)],
}

const SCOPES: [Scope; 6] = [
    Scope {
        signal: Signal::Traces,
        map: "span.attributes",
        read: &[
            "span.name",
            "span.kind",
            "span.kind.string",
            "span.kind.deprecated_string",
            "span.start_time",
            "span.start_time_unix_nano",
            "span.end_time",
            "span.trace_id.string",
            "span.span_id.string",
            "span.trace_state",
            "span.trace_state[\"b\"]",
            "span.status.code",
            "span.status.message",
            "span.flags",
            "span.dropped_attributes_count",
            "resource.attributes",
            "resource.attributes[\"s\"]",
            "scope.name",
            "scope.version",
            "span.trace_id",
            "span.span_id",
            "span.parent_span_id",
        ],
        write: &[
            ("span.name", "string"),
            ("span.status.message", "string"),
            ("span.kind", "int32"),
            ("span.flags", "int32"),
            ("span.status.code", "int32"),
            ("span.start_time", "time"),
            ("span.end_time_unix_nano", "int"),
            ("span.attributes[\"m\"][\"k\"]", "value"),
            ("span.attributes[\"l\"][1]", "value"),
            ("resource.attributes[\"s\"]", "value"),
            ("span.trace_state[\"b\"]", "word"),
            ("span.attributes", "map"),
            ("scope.name", "string"),
            ("span.dropped_events_count", "int32"),
        ],
    },
    Scope {
        signal: Signal::Traces,
        map: "spanevent.attributes",
        read: &["spanevent.name", "spanevent.time", "spanevent.time_unix_nano", "span.name"],
        write: &[("spanevent.name", "string"), ("spanevent.time", "time"), ("span.name", "string")],
    },
    Scope {
        signal: Signal::Logs,
        map: "log.attributes",
        read: &[
            "log.body",
            "log.body.string",
            "log.severity_number",
            "log.severity_text",
            "log.time",
            "log.observed_time",
            "log.time_unix_nano",
            "log.flags",
            "log.event_name",
            "log.trace_id",
            "log.span_id.string",
            "log.body[\"k\"]",
            "log.body[0]",
        ],
        write: &[
            ("log.body", "value"),
            ("log.body.string", "string"),
            ("log.severity_number", "int32"),
            ("log.severity_text", "string"),
            ("log.time", "time"),
            ("log.event_name", "string"),
            ("log.body[\"k\"]", "value"),
            ("log.body[0]", "value"),
            ("log.flags", "int32"),
        ],
    },
    Scope {
        signal: Signal::Metrics,
        map: "metric.metadata",
        read: &["metric.name", "metric.unit", "metric.type", "metric.is_monotonic", "metric.aggregation_temporality"],
        write: &[
            ("metric.name", "string"),
            ("metric.description", "string"),
            ("metric.is_monotonic", "bool"),
            ("metric.aggregation_temporality", "int32"),
        ],
    },
    Scope {
        signal: Signal::Metrics,
        map: "datapoint.attributes",
        read: &[
            "datapoint.value_int",
            "datapoint.value_double",
            "datapoint.count",
            "datapoint.sum",
            "datapoint.flags",
            "datapoint.explicit_bounds",
            "datapoint.scale",
            "datapoint.positive.offset",
            "datapoint.time",
            "metric.name",
        ],
        write: &[
            ("datapoint.value_int", "int"),
            ("datapoint.value_double", "double"),
            ("datapoint.count", "int"),
            ("datapoint.sum", "double"),
            ("datapoint.flags", "int32"),
            ("datapoint.scale", "int32"),
            ("datapoint.bucket_counts", "list"),
            ("datapoint.explicit_bounds", "list"),
            ("metric.name", "string"),
            ("datapoint.positive.offset", "int32"),
            ("datapoint.time_unix_nano", "int"),
        ],
    },
    Scope {
        signal: Signal::Metrics,
        map: "exemplar.filtered_attributes",
        read: &["exemplar.double_value", "exemplar.int_value", "exemplar.time_unix_nano", "exemplar.span_id.string"],
        write: &[("exemplar.double_value", "double"), ("exemplar.int_value", "int")],
    },
];

/// The attributes that a text names, or others of the signal.
pub(crate) fn map_of(signal: Signal, text: &str) -> Option<&'static str> {
    let maps = || SCOPES.iter().filter(|scope| scope.signal == signal).map(|scope| scope.map);
    maps().find(|map| text.contains(map)).or_else(|| maps().next())
}

/// So many generated sets of one statement.
pub(crate) fn generate(rng: &mut Rng, count: usize) -> Vec<Task> {
    let comparable = |signature: &Signature| !NOT_COMPARABLE.contains(&signature.name) && signature.contexts.is_empty();
    let (editors, converters) = signatures().into_iter().filter(comparable).partition(|one: &Signature| one.is_editor);
    let scopes = (0..count).map(|index| &SCOPES[index % SCOPES.len()]);
    let tasks = scopes.map(|scope| {
        let mut grammar = Grammar { rng, scope, editors: &editors, converters: &converters };
        let set = match grammar.rng.u8(0..6) {
            // The filter has no exemplars.
            0 if scope.map != "exemplar.filtered_attributes" => Set::Filter(grammar.conditions()),
            1 => Set::Guarded(grammar.conditions(), vec![grammar.statement()]),
            _ => Set::Transform(vec![grammar.statement()]),
        };
        (scope.signal, set)
    });
    tasks.collect()
}

struct Grammar<'r> {
    rng: &'r mut Rng,
    scope: &'static Scope,
    editors: &'r Vec<Signature>,
    converters: &'r Vec<Signature>,
}

impl Grammar<'_> {
    fn pick<'p>(&mut self, choices: &[&'p str]) -> &'p str {
        choices[self.rng.usize(..choices.len())]
    }

    fn statement(&mut self) -> String {
        let map = self.scope.map;
        let editor = match self.rng.u8(0..8) {
            0..3 => format!("set({map}[\"result\"], {})", self.value("value", 3)),
            3 => {
                let (path, kind) = self.scope.write[self.rng.usize(..self.scope.write.len())];
                format!("set({path}, {})", self.value(kind, 2))
            }
            4 | 5 => {
                let editor = &self.editors[self.rng.usize(..self.editors.len())];
                self.call(editor, 2)
            }
            _ => return format!("set({map}[\"result\"], \"yes\") where {}", self.condition(2)),
        };
        if self.rng.u8(0..4) == 0 { format!("{editor} where {}", self.condition(1)) } else { editor }
    }

    /// Up to three conditions. Each names the context, without which the reference refuses it.
    fn conditions(&mut self) -> Vec<String> {
        let one = |grammar: &mut Self| format!("{}[\"i\"] != 5 and ({})", grammar.scope.map, grammar.condition(2));
        (0..self.rng.u8(1..4)).map(|_| one(self)).collect()
    }

    fn condition(&mut self, depth: u32) -> String {
        match self.rng.u8(0..if depth == 0 { 3 } else { 6 }) {
            0..3 => {
                let operator = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                format!("{} {operator} {}", self.value("value", depth), self.value("value", depth))
            }
            3 => format!("({}) and ({})", self.condition(depth - 1), self.condition(depth - 1)),
            4 => format!("{} or {}", self.condition(depth - 1), self.condition(depth - 1)),
            _ => format!("not ({})", self.condition(depth - 1)),
        }
    }

    fn call(&mut self, signature: &Signature, depth: u32) -> String {
        let (_, parameters) = signature.signature.split_once('(').unwrap();
        let mut arguments = Vec::new();
        for parameter in parameters.trim_end_matches(')').split(", ").filter(|text| !text.is_empty()) {
            let (name, kind) = parameter.split_once(": ").unwrap();
            if name.ends_with('?') && self.rng.bool() {
                break;
            }
            arguments.push(match name {
                // With a format that cannot be applied the reference loses entries.
                "replacement_format?" => "\"<%s>\"".to_owned(),
                _ => self.argument(kind, depth),
            });
        }
        match signature.name {
            // A map that is merged with itself, or with what holds it, loses values in the reference.
            "merge_maps" if arguments[1].starts_with(self.scope.map) => arguments[1] = "{\"k\": 1}".to_owned(),
            // What does not fit 64 bits depends on the processor there.
            "Int" => arguments[0] = format!("{}[\"{}\"]", self.scope.map, self.pick(&KEYS)),
            // Of lists the reference appends only literal ones.
            "append" => {
                let values = ["1", "2.5", "\"a\"", "[1, nil]", &format!("String({}[\"l\"])", self.scope.map)];
                arguments.truncate(1);
                arguments.push(self.pick(&values).to_owned());
            }
            _ => {}
        }
        format!("{}({})", signature.name, arguments.join(", "))
    }

    fn argument(&mut self, kind: &str, depth: u32) -> String {
        let map = self.scope.map;
        if kind.contains(" | ") || kind.starts_with('"') {
            let choices: Vec<&str> = kind.split(" | ").collect();
            return self.pick(&choices).to_owned();
        }
        match kind {
            "path" => format!("{map}[\"{}\"]", self.pick(&KEYS)),
            "path to a map" => self.pick(&[map, map, &format!("{map}[\"m\"]")]).to_owned(),
            "path to a list" => format!("{map}[\"l\"]"),
            "list of values" => self.list(),
            "list of string literals" => self.pick(&["[]", "[\"s\", \"m\"]", "[\"i\"]"]).to_owned(),
            "regular expression" => self.pick(&["\"a+\"", "\"^\"", "\"[a-z]+\"", "\"(?P<x>\\\\d)(.?)\""]).to_owned(),
            "glob" => self.pick(&["\"*\"", "\"a*\"", "\"G?T *\"", "\"{a,42}\""]).to_owned(),
            "string literal" => self.pick(&["\"s\"", "\"\"", "\"%F\"", "\"x-\""]).to_owned(),
            "int literal" => self.pick(&["0", "1", "2", "10"]).to_owned(),
            "bool literal" => self.pick(&["true", "false"]).to_owned(),
            "lambda of 1" => format!("(v) => {}", self.pick(&["v", "v == 1", "IsString(v)"])),
            "lambda of 2" => format!("(k, v) => {}", self.pick(&["v != nil", "IsString(v)", "k == 0", "k == \"k\""])),
            "lambda of 3" => format!("(a, k, v) => {}", self.pick(&["a", "v"])),
            "name of a converter" => self.pick(&["ToLowerCase", "ToUpperCase"]).to_owned(),
            kind => self.value(kind, depth),
        }
    }

    /// An expression that has a value of that kind for some items.
    fn value(&mut self, kind: &str, depth: u32) -> String {
        let map = self.scope.map;
        let surprise = self.rng.u8(0..6) == 0;
        match kind {
            "string" if !surprise => match self.rng.u8(0..3) {
                0 => self.pick(&["\"\"", "\"a\"", "\"GET /user/17\"", "\"日本\"", "\"1.5\"", "\"1h2m\""]).to_owned(),
                1 if depth > 0 => format!("String({})", self.value("value", depth - 1)),
                _ => format!("{map}[\"s\"]"),
            },
            "int" if !surprise => match self.rng.u8(0..3) {
                0 => self.pick(&["0", "1", "-1", "3", "300", "1700000000"]).to_owned(),
                1 if depth > 0 => format!("Len({})", self.value("list", depth - 1)),
                _ => format!("{map}[\"i\"]"),
            },
            // What does not fit, or may not stand there, is an error here and passed over in silence there.
            "int32" => self.pick(&["0", "1", "7", "nil", "\"a\"", "2.5", &format!("String({map}[\"d\"])")]).to_owned(),
            "word" => self.pick(&["\"a\"", "\"x y\"", "7", &format!("{map}[\"none\"]")]).to_owned(),
            "double" if !surprise => self.pick(&["1.5", "-0.25", &format!("{map}[\"d\"]")]).to_owned(),
            "bool" if !surprise => self.pick(&["true", "false", &format!("{map}[\"b\"]")]).to_owned(),
            "map" if !surprise => self.pick(&[map, &format!("{map}[\"m\"]"), "{\"k\": [nil, {}]}", "{}"]).to_owned(),
            "list" if !surprise => self.pick(&[&format!("{map}[\"l\"]"), "[1, 2.5, \"x\", nil]", "[]"]).to_owned(),
            "time" if !surprise => self
                .pick(&["Unix(1700000000, 5)", "Time(\"2024-02-29\", \"%Y-%m-%d\")", "UnixMilliTime"])
                .replace("UnixMilliTime", "Unix(0)"),
            "duration" if !surprise => self.pick(&["Duration(\"1h30m\")", "Duration(\"-1.5s\")"]).to_owned(),
            _ => self.any(depth),
        }
    }

    fn any(&mut self, depth: u32) -> String {
        let map = self.scope.map;
        match self.rng.u8(0..if depth == 0 { 7 } else { 12 }) {
            0 => self.pick(&["nil", "true", "1", "2.5", "\"a\"", "0x0102", "-3", "\"\""]).to_owned(),
            1..3 => self.scope.read[self.rng.usize(..self.scope.read.len())].to_owned(),
            3..7 => {
                format!("{map}[\"{}\"]{}", self.pick(&KEYS), self.pick(&["", "", "", "[\"k\"]", "[0]", "[\"x\"][1]"]))
            }
            7 => {
                let operator = self.pick(&["+", "-", "*", "/"]);
                format!("{} {operator} {}", self.value("int", depth - 1), self.value("double", depth - 1))
            }
            8 => self.list(),
            _ => {
                let converter = &self.converters[self.rng.usize(..self.converters.len())];
                self.call(converter, depth - 1)
            }
        }
    }

    /// A list of scalars: the reference writes what holds a map in it as `{}`.
    fn list(&mut self) -> String {
        let text = format!("String({}[\"i\"])", self.scope.map);
        let choices = ["nil", "1", "2.5", "\"a\"", "true", "0x00ff", &text];
        let values: Vec<&str> = (0..self.rng.u8(0..4)).map(|_| self.pick(&choices)).collect();
        format!("[{}]", values.join(", "))
    }
}
