//! The processes of a test: started on their cores with their output in a file, stopped by their own id, and killed when
//! the test is given up or asks for it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::cpu;

/// Lines of a log that are shown when its process failed.
const LAST_WORDS_LINES: usize = 5;

/// How to start a process.
pub(crate) struct Launch<'a> {
    /// Names the process in messages and its log file.
    pub(crate) name: &'a str,
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(&'static str, String)>,
    pub(crate) cores: &'a [usize],
    pub(crate) directory: &'a Path,
}

/// A running process; killed when dropped.
pub(crate) struct Process {
    name: String,
    child: Child,
    /// Its id, as `/proc` names it.
    pub(crate) pid: String,
    log: PathBuf,
    /// Where its output begins in the log.
    log_from: u64,
}

impl Process {
    /// Starts a process whose output goes to `NAME.log`.
    pub(crate) fn start(launch: Launch<'_>) -> anyhow::Result<Self> {
        let log = launch.directory.join(format!("{}.log", launch.name));
        File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
        Self::start_again(launch)
    }

    /// Starts a process whose output goes behind that of its predecessors of the same name.
    pub(crate) fn start_again(launch: Launch<'_>) -> anyhow::Result<Self> {
        let log = launch.directory.join(format!("{}.log", launch.name));
        let open = || File::options().create(true).append(true).open(&log);
        let output = open().with_context(|| format!("cannot open {}", log.display()))?;
        let log_from = output.metadata().with_context(|| format!("cannot read length of {}", log.display()))?.len();
        let errors = output.try_clone().with_context(|| format!("cannot share {}", log.display()))?;
        let mut command = Command::new(launch.program);
        // In a group of its own, so that Ctrl-C reaches this process only and children stop in order.
        command
            .args(&launch.arguments)
            .envs(launch.environment)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .kill_on_drop(true);
        let spawn = || command.spawn().with_context(|| format!("cannot start {}", launch.program.display()));
        let child = cpu::on_cores(launch.cores, spawn)?;
        let pid = child.id().context("cannot read process id: it ended at once")?.to_string();
        Ok(Self { name: launch.name.to_owned(), child, pid, log, log_from })
    }

    /// What it has written so far.
    pub(crate) fn output(&self) -> anyhow::Result<String> {
        let read = || {
            let mut log = File::open(&self.log)?;
            log.seek(SeekFrom::Start(self.log_from))?;
            let mut output = Vec::new();
            log.read_to_end(&mut output)?;
            Ok(String::from_utf8_lossy(&output).into_owned())
        };
        read().map_err(|err: std::io::Error| anyhow::anyhow!("cannot read {}: {err}", self.log.display()))
    }

    /// Fails when the process has ended although nobody asked it to.
    pub(crate) fn check_alive(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait().with_context(|| format!("cannot watch {}", self.name))? {
            None => Ok(()),
            Some(status) => bail!("{} ended early with {status}; its log is {}", self.name, self.log.display()),
        }
    }

    /// The end of its log, for a message about why it ended.
    pub(crate) fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(LAST_WORDS_LINES).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Waits for the end.
    pub(crate) async fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        self.child.wait().await.with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Fails unless `status` is success.
    pub(crate) fn check(&self, status: ExitStatus) -> anyhow::Result<()> {
        if status.success() {
            return Ok(());
        }
        bail!("{} ended with {status}; its log is {}", self.name, self.log.display())
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) -> anyhow::Result<()> {
        let Some(pid) = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
            return Ok(());
        };
        kill_process(pid, Signal::TERM).with_context(|| format!("cannot stop {}", self.name))
    }

    /// Ends it at once, as a crash would, and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.with_context(|| format!("cannot kill {}", self.name))
    }

    /// Asks it to end and waits; kills it when it takes longer than `limit`.
    pub(crate) async fn stop(&mut self, limit: Duration) -> anyhow::Result<()> {
        self.terminate()?;
        match tokio::time::timeout(limit, self.wait()).await {
            Ok(status) => self.check(status?),
            Err(_) => {
                self.kill().await?;
                bail!("{} did not stop within {limit:?} and was killed; its log is {}", self.name, self.log.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_begins_where_the_predecessor_s_ended() {
        let directory = tempdir();
        let echo = |text: &str| Launch {
            name: "echo",
            program: Path::new("/bin/echo"),
            arguments: vec![text.to_owned()],
            environment: Vec::new(),
            cores: &[],
            directory: &directory,
        };
        let mut first = Process::start(echo("first")).unwrap();
        first.wait().await.unwrap();
        let mut second = Process::start_again(echo("second")).unwrap();
        second.wait().await.unwrap();
        assert_eq!(second.output().unwrap(), "second\n");
        assert_eq!(second.last_words(), "first\nsecond");
        let mut third = Process::start(echo("third")).unwrap();
        third.wait().await.unwrap();
        assert_eq!(third.last_words(), "third");
        std::fs::remove_dir_all(&directory).unwrap();
    }

    fn tempdir() -> PathBuf {
        let directory =
            std::env::temp_dir().join(format!("weir-children-{}-{}", std::process::id(), fastrand::u32(..)));
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }
}
