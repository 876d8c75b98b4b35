//! `output.custom`: an output section of Fluent Bit.

use weir_fluent_bit::{filters, text};
use weir_plan::{
    Body, Compression, Date, DateFormat, Endpoint, FluentBit, FluentBitFormat, Header, Output, Protocol, Sink,
};
use weir_plan::{Section, SectionLine};

use super::http::{COMPRESSIONS, FORMATS, check_port, check_uri, host_of};
use super::section::Text;
use super::{Names, Records, Variables};
use crate::diagnostic::Diagnostic;
use crate::document::Located;
use crate::kinds::output::tls::Tls;
use crate::kinds::output::{authorization, header};
use crate::kinds::value::{Resolved, Resolver, Value};

/// The section as written.
pub(crate) struct Custom(pub(super) Text);

const SINKS: [(&str, Sink); 3] = [("http", Sink::Http), ("stdout", Sink::Stdout), ("null", Sink::Null)];

/// Outputs of Fluent Bit, which may be named in messages.
const KNOWN_OUTPUTS: [&str; 18] = [
    "azure",
    "azure_blob",
    "cloudwatch_logs",
    "datadog",
    "es",
    "file",
    "forward",
    "gelf",
    "kafka",
    "loki",
    "opensearch",
    "opentelemetry",
    "prometheus_remote_write",
    "s3",
    "splunk",
    "stackdriver",
    "syslog",
    "tcp",
];

const DATE_KEYS: [&str; 2] = ["json_date_key", "json_date_format"];

/// Of `http`.
const HTTP_KEYS: [&str; 15] = [
    "host",
    "port",
    "uri",
    "format",
    "compress",
    "header",
    "http_user",
    "http_passwd",
    "tls",
    "tls.verify",
    "tls.ca_file",
    "tls.crt_file",
    "tls.key_file",
    "json_date_key",
    "json_date_format",
];

/// What Fluent Bit knows, and has no effect here.
const WITHOUT_EFFECT: [&str; 6] =
    ["alias", "retry_limit", "workers", "log_level", "allow_duplicated_headers", "log_response_payload"];

const DATE_FORMATS: [(&str, DateFormat); 5] = [
    ("double", DateFormat::Double),
    ("epoch", DateFormat::Epoch),
    ("epoch_ms", DateFormat::EpochMillis),
    ("iso8601", DateFormat::Iso8601),
    ("java_sql_timestamp", DateFormat::JavaSql),
];

/// As Fluent Bit has it.
const DEFAULT_PORT: u16 = 80;

/// A section whose variables have values.
struct Lines<'a> {
    text: &'a Text,
    section: Section,
    names: &'a Names,
    resolver: Resolver<'a>,
}

impl Custom {
    pub(super) fn compile(
        &self,
        records: Records,
        names: &Names,
        variables: &Variables<'_>,
        resolver: Resolver<'_>,
    ) -> Option<Output> {
        let section = self.0.section(variables, resolver)?;
        let lines = Lines { text: &self.0, section, names, resolver };
        let to = lines.sink()?;
        let (plugin, known) = match to {
            Sink::Http => ("output http", &HTTP_KEYS[..]),
            Sink::Stdout => ("output stdout", &["format", "json_date_key", "json_date_format"][..]),
            Sink::Null => ("output null", &DATE_KEYS[..]),
        };
        let is_known = lines.check_keys(plugin, known);
        let format = match to {
            Sink::Http => lines.one_of("format", "format", &FORMATS),
            Sink::Stdout | Sink::Null => {
                lines.one_of("format", "format of lines", &[("json_lines", FluentBitFormat::JsonLines)])
            }
        };
        let date = lines.date();
        let settings = |format, date| FluentBit {
            to,
            format,
            date,
            kyma: false,
            dedot: false,
            labels: !records.drop_labels,
            annotations: records.keep_annotations,
            keep_original_body: records.keep_original_body,
        };
        if to != Sink::Http {
            let output = Output::local(settings(format?.unwrap_or(FluentBitFormat::JsonLines), date?));
            return is_known.then_some(output);
        }
        let remote = lines.remote();
        let body = Body::FluentBit(settings(format?.unwrap_or(FluentBitFormat::Json), date?));
        remote.map(|remote| Output { body, ..remote }).filter(|_| is_known)
    }
}

impl Lines<'_> {
    fn last(&self, key: &str) -> Option<&SectionLine> {
        self.section.lines.iter().rfind(|line| line.key == key)
    }

    fn refuse(&self, line: usize, message: String, expected: &str) {
        self.text.push(line, message, expected, self.resolver.findings);
    }

    fn warn(&self, line: usize, message: impl Into<String>, expected: &str) {
        self.resolver.findings.push(Diagnostic::warning(&self.text.place(line), message, expected));
    }

    /// What one of some names stands for, if the key is there. `None` has been reported.
    fn one_of<T: Copy>(&self, key: &str, what: &str, choices: &[(&str, T)]) -> Option<Option<T>> {
        let Some(line) = self.last(key) else { return Some(None) };
        let found = choices.iter().find(|(name, _)| line.value.reveal().eq_ignore_ascii_case(name));
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let message = format!("{key} (value not shown) is no {what} that is supported");
            self.refuse(line.number, message, &format!("one of: {}", names.join(", ")));
        }
        found.map(|(_, value)| Some(*value))
    }

    /// Where records go. `None` has been reported.
    fn sink(&self) -> Option<Sink> {
        let line = self.last("name")?;
        let plugin = line.value.reveal();
        let found = SINKS.iter().find(|(name, _)| plugin.eq_ignore_ascii_case(name)).map(|(_, sink)| *sink);
        if found.is_none() {
            let names: Vec<&str> = SINKS.iter().map(|(name, _)| *name).collect();
            let message = format!("output {} is not supported", filters::shown(plugin, &KNOWN_OUTPUTS));
            self.refuse(line.number, message, &format!("one of: {}", names.join(", ")));
        }
        found
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        let Some(line) = self.last(key) else { return default };
        text::boolean(line.value.reveal()).unwrap_or_else(|| {
            self.refuse(line.number, format!("{key} is neither on nor off"), "on or off");
            default
        })
    }

    fn text(&self, key: &str) -> Option<Resolved> {
        let line = self.last(key)?;
        let place = self.text.place(line.number);
        Some(Resolved { text: line.value.reveal().to_owned(), place, from_secret: true })
    }

    /// Whether a plugin knows all keys.
    fn check_keys(&self, plugin: &str, known: &[&str]) -> bool {
        let mut is_known = true;
        for line in &self.section.lines {
            let key = line.key.as_str();
            if WITHOUT_EFFECT.contains(&key) {
                let message = format!("{key} of {plugin} has no effect");
                self.warn(line.number, message, "no such line");
            } else if key != "name" && !known.contains(&key) {
                is_known = false;
                self.text.report(vec![filters::unknown(line.number, key, plugin, known)], self.resolver);
            }
        }
        is_known
    }

    fn date(&self) -> Option<Date> {
        let key = self.last("json_date_key").map_or("date", |line| line.value.reveal());
        let format = self.one_of("json_date_format", "date format", &DATE_FORMATS)?;
        let key = (text::boolean(key) != Some(false)).then(|| key.to_owned());
        Some(Date { key, format: format.unwrap_or(DateFormat::Double) })
    }

    /// The server, and how it is reached. What is in its requests is not known here.
    fn remote(&self) -> Option<Output> {
        let host = self.text("host");
        if host.is_none() {
            self.refuse(0, "output http has no host".to_owned(), "a line such as: host logs.example.com");
        }
        let host = host.and_then(|host| host_of(&host, self.resolver));
        let findings = self.resolver.findings;
        let port = self.text("port").map_or(Some(DEFAULT_PORT), |port| check_port(&port.text, &port.place, findings));
        let uri =
            self.text("uri").map_or_else(|| Some("/".to_owned()), |uri| check_uri(uri.text, &uri.place, findings));
        let compression = self.one_of("compress", "compression", &COMPRESSIONS);
        let (headers, tls) = (self.headers(), self.tls());
        Some(Output {
            endpoint: Endpoint { host: host?, port: port?, path: uri? },
            compression: compression?.unwrap_or(Compression::None),
            protocol: Protocol::Http,
            body: Body::Otlp,
            headers: headers?,
            oauth2: None,
            tls,
        })
    }

    fn headers(&self) -> Option<Vec<Header>> {
        let user = self.text("http_user").map(|user| {
            let password = self.text("http_passwd").map_or_else(String::new, |password| password.text);
            authorization(&user.text, &password, &user.place, self.resolver)
        });
        if let (None, Some(password)) = (&user, self.last("http_passwd")) {
            let message = "http_passwd has no effect: there is no http_user";
            self.warn(password.number, message, "both of http_user and http_passwd, or neither");
        }
        let given = self.section.lines.iter().filter(|line| line.key == "header").map(|line| {
            let Some((name, value)) = line.value.reveal().split_once(' ') else {
                self.refuse(line.number, "header has no value".to_owned(), "a name, a space and a value");
                return None;
            };
            let place = self.text.place(line.number);
            header(name, &Located { value: value.trim().to_owned(), place }, self.resolver)
        });
        // All of them are looked at, so that all mistakes are found at once.
        let headers: Vec<_> = user.into_iter().chain(given).collect();
        headers.into_iter().collect()
    }

    fn tls(&self) -> Option<weir_plan::Tls> {
        let is_on = self.flag("tls", false);
        let verify = self.flag("tls.verify", true);
        let [ca, cert, key] = ["tls.ca_file", "tls.crt_file", "tls.key_file"].map(|key| self.file(key));
        if !is_on {
            for line in self.section.lines.iter().filter(|line| line.key.starts_with("tls.")) {
                self.warn(line.number, format!("{} has no effect: tls is off", line.key), "tls on");
            }
            return None;
        }
        if cert.is_some() != key.is_some() {
            let expected = "both of tls.crt_file and tls.key_file, or neither";
            self.refuse(0, "output http has a certificate without its key, or a key alone".to_owned(), expected);
        }
        Tls::of_values(!verify, [ca, cert, key]).compile(None, self.resolver)
    }

    /// The content of the file that a key names.
    fn file(&self, key: &str) -> Option<Value> {
        let line = self.last(key)?;
        if let Some(file) = self.names.file(line.value.reveal()) {
            let place = self.text.place(line.number);
            return Some(Value::Inline(Located { value: file.value.clone(), place }));
        }
        self.refuse(line.number, format!("{key} names no file of spec.files"), "/files/NAME");
        Some(Value::Invalid)
    }
}
