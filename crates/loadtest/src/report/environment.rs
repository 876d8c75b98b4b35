//! Where and how a test ran: figures mean little without it.

use std::fmt::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::timeout;

use super::html::escape;
use crate::runtime;

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    /// Cores this program may use, before it gave some to the system under test.
    pub(crate) cores: usize,
    pub(crate) memory_mb: u64,
    pub(crate) kernel: String,
}

/// Everything about a test that is not its result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// When it began (RFC 3339, UTC).
    pub(crate) started: String,
    /// How long it took, the time to settle included.
    pub(crate) seconds: f64,
    /// What was offered, and what both systems did to it: figures of another load are others.
    pub(crate) load: String,
    /// How long it was to be measured (`-d`), which may end earlier; what earlier versions wrote does not say it.
    #[serde(default)]
    pub(crate) asked_duration_s: Option<f64>,
    /// Of the Weir that was tested.
    pub(crate) version: String,
    /// The commit it was built from, where that is known.
    pub(crate) commit: Option<String>,
    /// What other systems say that they are.
    pub(crate) peers: Vec<String>,
    /// The command line, without secrets.
    pub(crate) command: Vec<String>,
    pub(crate) machine: Machine,
}

/// What `environment.json` says: where and how a test ran, and how it ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) environment: Environment,
    /// Whether every promise was kept, and every system tested; what earlier versions wrote does not say it.
    #[serde(default)]
    pub(crate) passed: Option<bool>,
    #[serde(default)]
    pub(crate) failures: Vec<String>,
}

/// Of this program; a build may say in `WEIR_COMMIT` what it is built from.
const VERSION: &str = env!("CARGO_PKG_VERSION");
const COMMIT: Option<&str> = option_env!("WEIR_COMMIT");

/// How long a program may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

impl Machine {
    /// This one. What cannot be read is unknown.
    pub(crate) fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            cpu: cpu_model(&read("/proc/cpuinfo")),
            cores: runtime::cores(),
            memory_mb: memory_mb(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }

    /// In a line.
    pub(crate) fn describe(&self) -> String {
        let Self { cpu, cores, memory_mb, kernel } = self;
        format!("{cpu}, {cores} cores, {memory_mb} MB of memory, Linux {kernel}")
    }
}

impl Environment {
    /// That of a test that begins now, on `machine`.
    pub(crate) fn begin(machine: Machine) -> Self {
        Self {
            started: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            version: VERSION.to_owned(),
            commit: COMMIT.filter(|commit| !commit.is_empty()).map(str::to_owned),
            command: without_secrets(std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())),
            machine,
            ..Self::default()
        }
    }

    /// The same of a test of another Weir, and of peers.
    pub(crate) async fn of(mut self, weir: Option<&Path>, peers: &[(&str, &Path)]) -> Self {
        if let Some(weir) = weir {
            (self.version, self.commit) = (version_of(weir).await, None);
        }
        for (name, program) in peers {
            self.peers.push(format!("{name}: {}", version_of(program).await));
        }
        self
    }

    /// The version, and the commit where it is known.
    pub(crate) fn build(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{} ({commit})", self.version),
            None => self.version.clone(),
        }
    }

    /// The day it began.
    pub(crate) fn day(&self) -> &str {
        self.started.split('T').next().unwrap_or_default()
    }

    pub(super) fn render(&self) -> String {
        let mut out = String::from("<dl>\n");
        let mut row = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escape(value));
        };
        row("Weir", &self.build());
        self.peers.iter().for_each(|peer| row("Peer", peer));
        row("Date", &self.started.replace('T', " ").replace('Z', " UTC"));
        row("Duration", &lasting(self.seconds));
        row("Machine", &self.machine.describe());
        row("Command", &self.command.join(" "));
        out.push_str("</dl>\n");
        out
    }
}

/// `1 h 5 min`, `3 min 20 s`, `12 s`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "durations of tests are far below 2^53 s")]
pub(crate) fn lasting(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// What a program prints when it is asked for its version: the first line, without its own name.
async fn version_of(program: &Path) -> String {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).kill_on_drop(true);
    let Ok(Ok(output)) = timeout(VERSION_LIMIT, command.output()).await else { return "unknown".to_owned() };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).lines().find(|line| !line.trim().is_empty()).map(str::to_owned);
    said.map_or_else(|| "unknown".to_owned(), |line| line.trim().trim_start_matches("weir ").to_owned())
}

fn cpu_model(text: &str) -> String {
    let model = text.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"));
    let model = model.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim());
    model.filter(|model| !model.is_empty()).unwrap_or("unknown CPU").to_owned()
}

fn memory_mb(text: &str) -> u64 {
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|total| total.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// Parts of names whose values nobody is to read.
const SECRET: [&str; 6] = ["password", "passwd", "secret", "token", "credential", "authorization"];

/// Arguments as they were typed; of those that name a secret, the value is not there.
fn without_secrets(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let is_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        SECRET.iter().any(|secret| name.contains(secret)) || name.ends_with("key")
    };
    let mut follows = false;
    let clean = |argument: String| {
        if std::mem::take(&mut follows) && !argument.starts_with('-') {
            return "***".to_owned();
        }
        // Values may contain the sign, too.
        let mut names = argument.match_indices('=').map(|(at, _)| &argument[..at]);
        if let Some(name) = names.find(|name| is_secret(name)) {
            return format!("{name}=***");
        }
        follows = argument.starts_with("--") && !argument.contains('=') && is_secret(&argument);
        without_user(argument)
    };
    arguments.map(clean).collect()
}

/// An address without the user and the password in it.
fn without_user(argument: String) -> String {
    let Some((scheme, rest)) = argument.split_once("://") else { return argument };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once('@') {
        Some((user, _)) => format!("{scheme}://***{}", &rest[user.len()..]),
        None => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described_from_what_the_kernel_says() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\n"), "Fast CPU @ 3 GHz");
        assert_eq!(cpu_model("processor : 0\n"), "unknown CPU");
        assert_eq!(memory_mb("MemTotal:       16384000 kB\nMemFree: 1 kB\n"), 16_000);
        let machine = Machine::this();
        assert!(machine.cores > 0 && machine.memory_mb > 0 && !machine.kernel.is_empty(), "{machine:?}");
    }

    #[test]
    fn a_command_line_has_no_secrets() {
        let typed = "weir loadtest -t traces --weir-arg=--admin-token=abc --token abc --annotation api-key=x --flag token -o a=b --token=a=b --proxy=http://u:p@h/@";
        let clean = without_secrets(typed.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(
            clean,
            "weir loadtest -t traces --weir-arg=--admin-token=*** --token *** --annotation api-key=*** --flag token -o a=b --token=*** --proxy=http://***@h/@"
        );
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!([3905.0, 200.4, 12.0].map(lasting), ["1 h 5 min", "3 min 20 s", "12 s"]);
    }

    #[tokio::test]
    async fn a_program_that_says_no_version_is_unknown() {
        assert_eq!(version_of(Path::new("/nowhere/weir")).await, "unknown");
    }
}
