//! The general grok patterns by name. The names, and examples of what they match, are those of the documentation of
//! `ExtractGrokPatterns` and of the patterns common to grok libraries; the definitions are our own.

/// The definition of a pattern.
pub(super) fn find(name: &str) -> Option<&'static str> {
    let tables = [WORDS, NETWORK, PATHS, TIMES, LOGS];
    tables.into_iter().flatten().find(|(other, _)| *other == name).map(|(_, definition)| *definition)
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
    ("EMAILLOCALPART", r"[[:alpha:]][-[:alnum:]_.+=:]*"),
    ("EMAILADDRESS", r"%{EMAILLOCALPART}@%{HOSTNAME}"),
    ("IPV4", r"(?:(?:25[0-5]|2[0-4]\d|[01]?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|[01]?\d?\d)"),
    (
        "IPV6",
        concat!(
            r"(?:(?:[[:xdigit:]]{1,4}:){7}[[:xdigit:]]{1,4}",
            r"|(?:[[:xdigit:]]{1,4}:){6}%{IPV4}",
            r"|(?:[[:xdigit:]]{1,4}(?::[[:xdigit:]]{1,4}){0,5})?::(?:[[:xdigit:]]{1,4}:){0,5}%{IPV4}",
            r"|(?:[[:xdigit:]]{1,4}(?::[[:xdigit:]]{1,4}){0,6})?::(?:[[:xdigit:]]{1,4}(?::[[:xdigit:]]{1,4}){0,6})?)",
            r"(?:%[-.\w]+)?",
        ),
    ),
    ("IP", r"%{IPV6}|%{IPV4}"),
    ("HOSTNAME", r"\b[[:alnum:]][-[:alnum:]]{0,62}(?:\.[[:alnum:]][-[:alnum:]]{0,62})*(?:\.|\b)"),
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
    ("URIPATH", r"(?:/[-[:alnum:]$.+!*'(){},~:;=@#%&_]*)+"),
    ("URIQUERY", r"[-[:alnum:]$.+!*'|(){},~@#%&/=:;_?\[\]<>]*"),
    ("URIPARAM", r"\?%{URIQUERY}"),
    ("URIPATHPARAM", r"%{URIPATH}(?:%{URIPARAM})?"),
    ("URI", r"%{URIPROTO}://(?:%{USER}(?::[^@]*)?@)?%{URIHOST}(?:%{URIPATHPARAM})?"),
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
    ("DAY", r"\b(?:Mon|Tue(?:s)?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?\b"),
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

const LOGS: Patterns = &[
    ("PROG", r"[!-Z\\^-~]+"),
    ("SYSLOGPROG", r"%{PROG}(?:\[\d+\])?"),
    ("SYSLOGHOST", r"%{IPORHOST}"),
    ("SYSLOGFACILITY", r"<%{NONNEGINT}\.%{NONNEGINT}>"),
    ("SYSLOGBASE", r"%{SYSLOGTIMESTAMP:timestamp} (?:%{SYSLOGFACILITY} )?%{SYSLOGHOST:host.name} %{SYSLOGPROG}:"),
    (
        "LOGLEVEL",
        r"(?i:alert|trace|debug|notice|info(?:rmation)?|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|severe|emerg(?:ency)?)",
    ),
];
