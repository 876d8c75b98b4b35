//! The general grok patterns by name. The names, and examples of what they match, are those of the documentation of
//! `ExtractGrokPatterns` and of the patterns common to grok libraries; the definitions are our own.

use std::sync::LazyLock;

/// The definition of a pattern.
pub(super) fn find(name: &str) -> Option<&'static str> {
    static IPV6: LazyLock<String> = LazyLock::new(ipv6);
    if name == "IPV6" {
        return Some(IPV6.as_str());
    }
    let tables = [WORDS, NETWORK, PATHS, TIMES, SYSLOG, HTTPD];
    tables.into_iter().flatten().find(|(other, _)| *other == name).map(|(_, definition)| *definition)
}

/// An IPv6 address, perhaps with a zone. After so many groups with a colon comes what they leave room for, in this
/// order of preference: groups behind a double colon, an IPv4 address at the end, or nothing.
fn ipv6() -> String {
    const GROUP: &str = "[[:xdigit:]]{1,4}";
    const BYTE: &str = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)";
    let ipv4 = format!(r"{BYTE}(?:\.{BYTE}){{3}}");
    let after = |groups: usize| match groups {
        7 => format!("(?:{GROUP}:){{7}}(?:{GROUP}|:)"),
        6 => format!("(?:{GROUP}:){{6}}(?::{GROUP}|{ipv4}|:)"),
        1..6 => {
            let (most, before) = (7 - groups, 5 - groups);
            format!("(?:{GROUP}:){{{groups}}}(?:(?::{GROUP}){{1,{most}}}|(?::{GROUP}){{0,{before}}}:{ipv4}|:)")
        }
        _ => format!(":(?:(?::{GROUP}){{1,7}}|(?::{GROUP}){{0,5}}:{ipv4}|:)"),
    };
    let all: Vec<String> = (0..=7).rev().map(after).collect();
    format!("(?:{})(?:%.+)?", all.join("|"))
}

type Patterns = &'static [(&'static str, &'static str)];

const WORDS: Patterns = &[
    ("WORD", r"\b\w+\b"),
    ("NOTSPACE", r"\S+"),
    ("SPACE", r"\s*"),
    ("DATA", r".*?"),
    ("GREEDYDATA", r".*"),
    ("INT", r"[-+]?\d+"),
    ("POSINT", r"\b[1-9]\d*\b"),
    ("NONNEGINT", r"\b\d+\b"),
    ("BASE10NUM", r"[-+]?\d+(?:\.\d+)?|\.\d+"),
    ("NUMBER", r"%{BASE10NUM}"),
    ("BASE16NUM", r"[-+]?(?:0x)?[[:xdigit:]]+"),
    ("BASE16FLOAT", r"[-+]?(?:0x)?[[:xdigit:]]+(?:\.[[:xdigit:]]*)?"),
    ("BOOL", r"true|false"),
    ("QUOTEDSTRING", r#""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"#),
    ("QS", r"%{QUOTEDSTRING}"),
    ("UUID", r"[[:xdigit:]]{8}(?:-[[:xdigit:]]{4}){3}-[[:xdigit:]]{12}"),
    ("URN", r"urn:[[:alnum:]][-[:alnum:]]{0,31}:[-[:alnum:]()+,.:=@;$_!*'/?#]+"),
];

const NETWORK: Patterns = &[
    ("USERNAME", r"[-.\w]+"),
    ("USER", r"%{USERNAME}"),
    ("EMAILLOCALPART", r"[[:alpha:]][\w+-=]+"),
    ("EMAILADDRESS", r"%{EMAILLOCALPART}@%{HOSTNAME}"),
    ("IPV4", r"(?:(?:25[0-5]|2[0-4]\d|[01]?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"),
    ("IP", r"%{IPV6}|%{IPV4}"),
    ("HOSTNAME", r"\b[[:alnum:]][-[:alnum:]]{0,62}(?:\.[[:alnum:]][-[:alnum:]]{0,62})*\.?"),
    ("IPORHOST", r"%{IP}|%{HOSTNAME}"),
    ("HOSTPORT", r"%{IPORHOST}:%{POSINT}"),
    ("CISCOMAC", r"(?:[[:xdigit:]]{4}\.){2}[[:xdigit:]]{4}"),
    ("WINDOWSMAC", r"(?:[[:xdigit:]]{2}-){5}[[:xdigit:]]{2}"),
    ("COMMONMAC", r"(?:[[:xdigit:]]{2}:){5}[[:xdigit:]]{2}"),
    ("MAC", r"%{CISCOMAC}|%{WINDOWSMAC}|%{COMMONMAC}"),
];

const PATHS: Patterns = &[
    ("UNIXPATH", r"(?:/[-\w%!$@:.,+~]+)+"),
    ("WINPATH", r"[[:alpha:]]+:(?:\\[^\\?*]+)+"),
    ("PATH", r"%{UNIXPATH}|%{WINPATH}"),
    ("TTY", r"/dev/(?:pts|tty[pq]?)\w*/?\d+"),
    ("URIPROTO", r"[[:alpha:]][-[:alnum:]+.]+"),
    ("URIHOST", r"%{IPORHOST}(?::%{POSINT})?"),
    ("URIPATH", r"(?:/[-\w$.+!*'(){},~:;=@#%&]+)+"),
    ("URIQUERY", r"[-[:alnum:]$.+!*'|(){},~@#%&/=:;_?\[\]<>]*"),
    ("URIPARAM", r"\?%{URIQUERY}"),
    ("URIPATHPARAM", r"%{URIPATH}(?:\?%{URIQUERY})?"),
    ("URI", r"%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?%{URIHOST}(?:%{URIPATH}(?:\?%{URIQUERY})?)?"),
];

const TIMES: Patterns = &[
    (
        "MONTH",
        concat!(
            r"\b(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?",
            r"|Sep(?:tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\b",
        ),
    ),
    ("MONTHNUM", r"0[1-9]|1[0-2]"),
    ("MONTHDAY", r"0[1-9]|[12]\d|3[01]|[1-9]"),
    ("DAY", r"\b(?:Mon(?:day)?|Tue(?:sday)?|Wed(?:nesday)?|Thu(?:rsday)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)\b"),
    ("YEAR", r"\d{4}|\d{2}"),
    ("HOUR", r"2[0-3]|[01]?\d"),
    ("MINUTE", r"[0-5]\d"),
    ("SECOND", r"(?:[0-5]\d|60)(?:[:.,]\d+)?"),
    ("TIME", r"%{HOUR}:%{MINUTE}(?::%{SECOND})?"),
    ("DATE_US", r"%{MONTHNUM}[-/]%{MONTHDAY}[-/]%{YEAR}"),
    ("DATE_EU", r"%{MONTHDAY}[-./]%{MONTHNUM}[-./]%{YEAR}"),
    ("DATE", r"%{DATE_US}|%{DATE_EU}"),
    ("DATESTAMP", r"%{DATE}[- ]%{TIME}"),
    ("TZ", r"[PMACE][SED]T|UTC"),
    ("ISO8601_TIMEZONE", r"Z|[-+]%{HOUR}:?%{MINUTE}"),
    ("ISO8601_SECOND", r"%{SECOND}"),
    (
        "TIMESTAMP_ISO8601",
        r"%{YEAR}-%{MONTHNUM}-%{MONTHDAY}[T ]%{HOUR}:?%{MINUTE}(?::?%{SECOND})?(?:%{ISO8601_TIMEZONE})?",
    ),
    ("DATESTAMP_RFC822", r"%{DAY} %{MONTH} %{MONTHDAY} %{YEAR} %{TIME} %{TZ}"),
    ("DATESTAMP_RFC2822", r"%{DAY}, %{MONTHDAY} %{MONTH} %{YEAR} %{TIME} %{ISO8601_TIMEZONE}"),
    ("DATESTAMP_OTHER", r"%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{TZ} %{YEAR}"),
    ("DATESTAMP_EVENTLOG", r"%{YEAR}%{MONTHNUM}%{MONTHDAY}%{HOUR}%{MINUTE}%{SECOND}"),
    ("HTTPDATE", r"%{MONTHDAY}/%{MONTH}/%{YEAR}:%{TIME} %{INT}"),
    ("SYSLOGTIMESTAMP", r"%{MONTH} +%{MONTHDAY} %{TIME}"),
];

const SYSLOG: Patterns = &[
    ("PROG", r"[!-Z\\^-~]+"),
    ("SYSLOGPROG", r"%{PROG}(?:\[\d+\])?"),
    ("SYSLOGHOST", r"%{IPORHOST}"),
    ("SYSLOGFACILITY", r"<%{NONNEGINT}.%{NONNEGINT}>"),
    ("SYSLOGBASE", r"%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:host.name} %{SYSLOGPROG}:"),
    (
        "SYSLOGBASE2",
        concat!(
            r"(?:%{SYSLOGTIMESTAMP:timestamp}|%{TIMESTAMP_ISO8601:timestamp})",
            r"(?: %{SYSLOGFACILITY})?(?: %{SYSLOGHOST:host.name})?(?: %{SYSLOGPROG}:)?",
        ),
    ),
    ("SYSLOGLINE", r"%{SYSLOGBASE2} %{GREEDYDATA:message}"),
    ("SYSLOG5424PRI", r"<%{NONNEGINT:log.syslog.priority:int}>"),
    ("SYSLOG5424SD", r"\[%{DATA}\]+"),
    ("SYSLOG5424PRINTASCII", r"[[:graph:]]+"),
    (
        "SYSLOG5424BASE",
        concat!(
            r"%{SYSLOG5424PRI}%{NONNEGINT:system.syslog.version} +(?:%{TIMESTAMP_ISO8601:timestamp}|-)",
            r" +(?:%{IPORHOST:host.name}|-) +(?:-|%{SYSLOG5424PRINTASCII:process.command})",
            r" +(?:-|%{POSINT:process.pid:int}) +(?:-|%{SYSLOG5424PRINTASCII:event.code})",
            r" +(?:-|%{SYSLOG5424SD:system.syslog.structured_data})?",
        ),
    ),
    ("SYSLOG5424LINE", r"%{SYSLOG5424BASE} +%{GREEDYDATA:message}"),
    ("CRON_ACTION", r"[A-Z ]+"),
    ("CRONLOG", r"%{SYSLOGBASE} \(%{USER:user.name}\) %{CRON_ACTION:system.cron.action} \(%{DATA:message}\)"),
    (
        "SYSLOGPAMSESSION",
        concat!(
            r"%{SYSLOGBASE} (?:%{GREEDYDATA:message})%{WORD:system.auth.pam.module}\(%{DATA:system.auth.pam.origin}\):",
            r" session %{WORD:system.auth.pam.session_state} for user %{USERNAME:user.name}(?: by %{GREEDYDATA})?",
        ),
    ),
    (
        "LOGLEVEL",
        r"(?i:alert|trace|debug|notice|info(?:rmation)?|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|severe|emerg(?:ency)?)",
    ),
];

const HTTPD: Patterns = &[
    ("HTTPDUSER", r"%{EMAILADDRESS}|%{USER}"),
    ("HTTPDERROR_DATE", r"%{DAY} %{MONTH} %{MONTHDAY} %{TIME} %{YEAR}"),
    ("COMMONAPACHELOG", r"%{HTTPD_COMMONLOG}"),
    ("COMBINEDAPACHELOG", r"%{HTTPD_COMBINEDLOG}"),
    (
        "HTTPD_COMMONLOG",
        concat!(
            r"%{IPORHOST:source.address} (?:-|%{HTTPDUSER:apache.access.user.identity}) (?:-|%{HTTPDUSER:user.name})",
            r" \[%{HTTPDATE:timestamp}\]",
            r#" "(?:%{WORD:http.request.method} %{NOTSPACE:url.original}(?: HTTP/%{NUMBER:http.version})?|%{DATA})""#,
            r" (?:-|%{INT:http.response.status_code:int}) (?:-|%{INT:http.response.body.size:long})",
        ),
    ),
    (
        "HTTPD_COMBINEDLOG",
        r#"%{HTTPD_COMMONLOG} "(?:-|%{DATA:http.request.referrer})" "(?:-|%{DATA:user_agent.original})""#,
    ),
    ("HTTPD_ERRORLOG", r"%{HTTPD20_ERRORLOG}|%{HTTPD24_ERRORLOG}"),
    (
        "HTTPD20_ERRORLOG",
        concat!(
            r"\[%{HTTPDERROR_DATE:timestamp}\] \[%{LOGLEVEL:log.level}\]",
            r" (?:\[client %{IPORHOST:source.address}\] )?%{GREEDYDATA:message}",
        ),
    ),
    (
        "HTTPD24_ERRORLOG",
        concat!(
            r"\[%{HTTPDERROR_DATE:timestamp}\] \[(?:%{WORD:apache.error.module})?:%{LOGLEVEL:log.level}\]",
            r" \[pid %{POSINT:process.pid:long}(?::tid %{INT:process.thread.id:int})?\]",
            r"(?: \(%{POSINT:apache.error.proxy.error.code}\)?%{DATA:apache.error.proxy.error.message}:)?",
            r"(?: \[client %{IPORHOST:source.address}(?::%{POSINT:source.port:int})?\])?",
            r"(?: %{DATA:error.code}:)? %{GREEDYDATA:message}",
        ),
    ),
];
