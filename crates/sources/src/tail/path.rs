//! What the names of directories and files under `/var/log/pods` say.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The container that a directory is of, `NAMESPACE_POD_UID/CONTAINER`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct ContainerName {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// The UID of the pod; of a static pod, the hash of its configuration.
    pub(crate) uid: String,
    pub(crate) container: String,
}

impl ContainerName {
    /// Reads the names of the pod's and the container's directory; `None` when they are not what the kubelet makes.
    pub(crate) fn parse(pod_dir: &str, container_dir: &str) -> Option<Self> {
        let mut parts = pod_dir.split('_');
        let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none() && [namespace, pod, uid, container_dir].into_iter().all(is_name);
        is_whole.then(|| Self {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: uid.to_owned(),
            container: container_dir.to_owned(),
        })
    }
}

/// Letters, digits, `-` and `.`, beginning with a letter or a digit: so never `..`, nor anything hidden.
fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric()) && text.bytes().all(is_inner)
}

/// The directory, relative to that of all pods.
impl fmt::Display for ContainerName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}_{}_{}/{}", self.namespace, self.pod, self.uid, self.container)
    }
}

impl From<ContainerName> for String {
    fn from(name: ContainerName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for ContainerName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let names = text.split_once('/').and_then(|(pod, container)| Self::parse(pod, container));
        names.ok_or("not the directory of a container")
    }
}

/// When a file was rotated away, by the kubelet's clock: the digits of `YYYYMMDD-HHMMSS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RotationTime(u64);

impl RotationTime {
    fn parse(text: &str) -> Option<Self> {
        let (day, time) = text.split_once('-')?;
        let (day, time) = (digits(day, 8)?, digits(time, 6)?);
        let is_day = (1..=12).contains(&(day / 100 % 100)) && (1..=31).contains(&(day % 100));
        let is_time = time < 240_000 && time / 100 % 100 < 60 && time % 100 <= 60;
        (is_day && is_time).then_some(Self(day * 1_000_000 + time))
    }
}

impl fmt::Display for RotationTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:08}-{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

fn digits(text: &str, length: usize) -> Option<u64> {
    let is_number = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// The name of a file of a container. Names are in the order in which the files were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct LogName {
    /// How often the container was started before.
    pub(crate) restart: u64,
    /// `None` for the file that is, or was last, written to.
    pub(crate) rotated: Option<RotationTime>,
    pub(crate) is_compressed: bool,
}

impl LogName {
    /// Reads a file's name; `None` when the kubelet made no such file, or has not finished it (`.tmp`).
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (restart, rest) = name.split_once(".log")?;
        // A number has one form, so that no two names are one file.
        if restart.len() > 1 && restart.starts_with('0') {
            return None;
        }
        let restart = digits(restart, restart.len())?;
        if rest.is_empty() {
            return Some(Self { restart, rotated: None, is_compressed: false });
        }
        let rest = rest.strip_prefix('.')?;
        let (time, is_compressed) = rest.strip_suffix(".gz").map_or((rest, false), |time| (time, true));
        Some(Self { restart, rotated: Some(RotationTime::parse(time)?), is_compressed })
    }

    /// What stays when the file is compressed.
    pub(crate) fn key(self) -> (u64, Option<RotationTime>) {
        (self.restart, self.rotated)
    }
}

impl Ord for LogName {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = |name: &Self| (name.restart, name.rotated.is_none(), name.rotated, name.is_compressed);
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for LogName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.log", self.restart)?;
        if let Some(time) = self.rotated {
            write!(out, ".{time}")?;
        }
        if self.is_compressed { out.write_str(".gz") } else { Ok(()) }
    }
}

impl From<LogName> for String {
    fn from(name: LogName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for LogName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not the name of a log file")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_containers_or_nothing() {
        let cases = [
            ("default_web-0_0f3b9f6e-5a7c-4a6e-9b1d-2a3c4d5e6f70", "app", true),
            ("kube-system_etcd-node1_3de9d1b5f0c0d6a1b0e5a8a2c3d4e5f6", "etcd", true),
            ("shop_a.b.c_1", "x", true),
            ("shop_web", "app", false),
            ("0f3b9f6e-5a7c-4a6e-9b1d-2a3c4d5e6f70", "app", false),
            ("shop_web_1_2", "app", false),
            ("_web_1", "app", false),
            ("shop__1", "app", false),
            ("shop_web_", "app", false),
            ("shop_web_1", "", false),
            ("shop_web_1", "..", false),
            ("shop_web_1", ".hidden", false),
            ("shop_web_1", "a/b", false),
            ("shop_we b_1", "app", false),
            ("shop_wéb_1", "app", false),
            ("..", "..", false),
        ];
        for (pod, container, is_container) in cases {
            let name = ContainerName::parse(pod, container);
            assert_eq!(name.is_some(), is_container, "{pod}/{container}");
            if let Some(name) = name {
                assert_eq!(name.to_string(), format!("{pod}/{container}"));
                assert_eq!(ContainerName::try_from(name.to_string()), Ok(name));
            }
        }
        let name = ContainerName::parse("ns_pod_uid", "box").unwrap();
        let parts = [name.namespace, name.pod, name.uid, name.container];
        assert_eq!(parts, ["ns", "pod", "uid", "box"]);
    }

    #[test]
    fn files_are_logs_or_nothing() {
        let logs = [
            ("0.log", 0, None, false),
            ("17.log", 17, None, false),
            ("0.log.20230810-082034", 0, Some(20_230_810_082_034), false),
            ("3.log.20230810-082034.gz", 3, Some(20_230_810_082_034), true),
            ("18446744073709551615.log", u64::MAX, None, false),
        ];
        for (text, restart, rotated, is_compressed) in logs {
            let expected = LogName { restart, rotated: rotated.map(RotationTime), is_compressed };
            assert_eq!(LogName::parse(text), Some(expected), "{text}");
            assert_eq!(expected.to_string(), text);
        }
        let others = [
            "",
            ".log",
            "0",
            "0.lo",
            "x.log",
            "-1.log",
            "+1.log",
            "00.log",
            "01.log",
            "0.log.",
            "0.log.gz",
            "0.log.1",
            "0.log.20230810-082034.tmp",
            "0.log.20230810-082034.gz.tmp",
            "0.log.20230810-082034.gz.gz",
            "0.log.20231310-082034",
            "0.log.20230010-082034",
            "0.log.20230832-082034",
            "0.log.20230800-082034",
            "0.log.20230810-242034",
            "0.log.20230810-086034",
            "0.log.20230810-082061",
            "0.log.20230810-08203",
            "0.log.+0230810-082034",
            "0.log.20230810082034",
            "0.log20230810-082034",
            "18446744073709551616.log",
            "٣.log",
        ];
        for text in others {
            assert_eq!(LogName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_in_the_order_of_writing() {
        let expected = [
            "0.log.20230809-235959.gz",
            "0.log.20230810-000000",
            "0.log.20230810-000000.gz",
            "0.log",
            "1.log.20230101-000000",
            "1.log",
            "2.log",
            "10.log.20230810-082034",
        ];
        let mut names: Vec<LogName> = expected.iter().rev().map(|name| LogName::parse(name).unwrap()).collect();
        names.sort();
        assert_eq!(names.iter().map(LogName::to_string).collect::<Vec<_>>(), expected);
    }

    proptest::proptest! {
        #[test]
        fn what_is_read_is_written_the_same(text in r"[0-9]{0,3}\.log(\.[0-9]{8}-[0-9]{6})?(\.gz|\.tmp)?|.{0,40}") {
            if let Some(name) = LogName::parse(&text) {
                assert_eq!(name.to_string(), text);
            }
            if let Ok(name) = ContainerName::try_from(text.clone()) {
                assert_eq!(name.to_string(), text);
            }
        }
    }
}
