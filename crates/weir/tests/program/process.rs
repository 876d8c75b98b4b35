//! The program itself as a child process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use weir_testkit::{eventually, in_time};

/// A running `weir run`; killed with the value.
pub(crate) struct Weir {
    child: Child,
    /// Of the log lines.
    reader: Option<JoinHandle<()>>,
    logs: Arc<Mutex<Vec<Value>>>,
    /// Port 0 where it is closed.
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) health: SocketAddr,
    directory: TempDir,
}

/// The file with the manifests.
/// What a process may use beside its budget, in bytes; see [`Weir::peak`].
pub(crate) const BESIDE: u64 = 16_000_000;

const MANIFESTS: &str = "pipelines.yaml";

/// The program with arguments; output is captured.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments);
    captured(command)
}

/// Output is captured, and it does not matter whether the tests run in a cluster.
fn captured(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    for variable in ["KUBERNETES_SERVICE_HOST", "NODE_NAME", "MY_NODE_NAME"] {
        command.env_remove(variable);
    }
    command
}

/// A TracePipeline document for a local plain-text gRPC backend.
pub(crate) fn manifest(name: &str, backend: SocketAddr) -> String {
    format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: TracePipeline\nmetadata:\n  name: {name}\nspec:\n  \
         output:\n    otlp:\n      compression: none\n      endpoint:\n        value: http://{backend}\n---\n"
    )
}

impl Weir {
    /// Starts it on free ports with `manifests` and further arguments; returns when it is ready.
    pub(crate) async fn start(manifests: &str, arguments: &[&str]) -> Self {
        Self::start_under(&[], manifests, arguments).await
    }

    /// The same by way of `wrapper`, a command that runs the command it is given.
    pub(crate) async fn start_under(wrapper: &[&str], manifests: &str, arguments: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join(MANIFESTS);
        std::fs::write(&file, manifests).unwrap();
        let mut run = run(&file);
        run.args(arguments);
        Self::launch(wrapper, run, directory).await
    }

    /// The same for all files of its directory, of which there is one as yet; see [`Weir::write`].
    pub(crate) async fn start_directory(manifests: &str, arguments: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join(MANIFESTS), manifests).unwrap();
        let mut run = run(directory.path());
        run.args(arguments);
        Self::launch(&[], run, directory).await
    }

    /// Starts it, and tells it to end once `moment` comes, which is before it is ready; how it ended.
    pub(crate) async fn give_up(manifests: &str, arguments: &[&str], moment: impl AsyncFnOnce()) -> Output {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join(MANIFESTS);
        std::fs::write(&file, manifests).unwrap();
        let mut run = run(&file);
        let child = run.args(arguments).spawn().unwrap();
        moment().await;
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        in_time("end of weir", child.wait_with_output()).await.unwrap()
    }

    /// The same with all arguments, for the manifests of a directory.
    pub(crate) async fn launch(wrapper: &[&str], mut run: Command, directory: TempDir) -> Self {
        if !run.as_std().get_args().any(|argument| argument == "--data-dir") {
            // Tests that say nothing of a data directory keep data in memory.
            run.arg("--no-data-dir");
        }
        let mut child = under(wrapper, run).spawn().unwrap();
        let logs = Arc::new(Mutex::new(Vec::<Value>::new()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let sink = Arc::clone(&logs);
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                // Anything else is kept as it is, for the test that asks.
                let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
                sink.lock().unwrap().push(line);
            }
        });
        let find = || logs.lock().unwrap().iter().find(|line| line["message"] == "ready").cloned();
        eventually("weir is ready", async || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none() || find().is_some(), "it ended: {ended:?} {:?}", logs.lock().unwrap());
            find().is_some()
        })
        .await;
        let ready = find().unwrap();
        let address = |name: &str| ready[name].as_str().unwrap_or("0.0.0.0:0").parse().unwrap();
        let (grpc, http, metrics, health) = (address("grpc"), address("http"), address("metrics"), address("health"));
        Self { child, reader: Some(reader), logs, grpc, http, metrics, health, directory }
    }

    /// Writes other manifests, as an editor does: a new file takes the place of the old one.
    pub(crate) fn edit(&self, manifests: &str) {
        self.write(MANIFESTS, manifests);
    }

    /// Writes a file of its directory in the same way.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let (file, new) = (self.directory.path().join(name), self.directory.path().join("new"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    /// Puts a pipe in the place of its manifests, which can be read when somebody writes to it: as on a file system that
    /// hangs.
    pub(crate) fn hang(&self) -> PathBuf {
        let (file, new) = (self.directory.path().join(MANIFESTS), self.directory.path().join("new"));
        assert!(std::process::Command::new("mkfifo").arg(&new).status().unwrap().success());
        std::fs::rename(new, &file).unwrap();
        file
    }

    /// Removes a file of its directory.
    pub(crate) fn remove(&self, name: &str) {
        std::fs::remove_file(self.directory.path().join(name)).unwrap();
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id().unwrap()).unwrap()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Signals until one is taken for a second one, and not for an echo of the first.
    pub(crate) async fn hurry(&mut self) {
        eventually("a signal is taken for a second one", async || {
            let ended = self.has_ended();
            if !ended {
                self.signal(Signal::TERM);
            }
            ended
        })
        .await;
    }

    /// No file that it writes may become larger than `bytes` from now on; `None` lifts the limit.
    pub(crate) fn limit_files(&self, bytes: Option<u64>) {
        prlimit(Some(self.pid()), Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    }

    /// Ends it without a warning (`kill -9`).
    pub(crate) async fn kill(mut self) {
        self.signal(Signal::KILL);
        self.wait().await;
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Tells it to end; how it ended, and what it wrote to its standard output.
    pub(crate) async fn end(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        let status = self.wait().await;
        let mut out = String::new();
        let mut stdout = self.child.stdout.take().unwrap();
        in_time("end of the output", stdout.read_to_string(&mut out)).await.unwrap();
        (status, out)
    }

    /// Waits for its end, and for its last log line.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        let status = in_time("end of weir", self.child.wait()).await.unwrap();
        if let Some(reader) = self.reader.take() {
            in_time("end of the log", reader).await.unwrap();
        }
        status
    }

    /// The log lines so far.
    pub(crate) fn logs(&self) -> Vec<Value> {
        self.logs.lock().unwrap().clone()
    }

    /// The first log line so far with this message.
    pub(crate) fn logged(&self, message: &str) -> Option<Value> {
        self.logs.lock().unwrap().iter().find(|line| line["message"] == message).cloned()
    }

    /// The log lines so far with this message.
    pub(crate) fn all_logged(&self, message: &str) -> Vec<Value> {
        self.logs().into_iter().filter(|line| line["message"] == message).collect()
    }

    /// The most memory it has had, in bytes, without what is mapped of the program: a debug build's is larger than all
    /// that these tests count.
    pub(crate) fn peak(&self) -> u64 {
        self.memory("VmHWM").saturating_sub(self.memory("RssFile"))
    }

    /// A figure of `/proc/PID/status` about memory, in bytes.
    pub(crate) fn memory(&self, field: &str) -> u64 {
        self.status(field) * 1024
    }

    /// A figure of `/proc/PID/status`.
    pub(crate) fn status(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// `command` as an argument of `wrapper`.
pub(crate) fn under(wrapper: &[&str], command: Command) -> Command {
    let [program, arguments @ ..] = wrapper else { return command };
    let mut wrapped = Command::new(program);
    wrapped.args(arguments).arg(command.as_std().get_program()).args(command.as_std().get_args());
    captured(wrapped)
}

/// `weir run FILE` on free ports.
pub(crate) fn run(file: &Path) -> Command {
    let mut command = command(&["run"]);
    command.arg(file);
    on_free_ports(command)
}

/// The same command on free ports.
pub(crate) fn on_free_ports(mut command: Command) -> Command {
    for port in ["--grpc-port", "--http-port", "--metrics-port", "--health-port", "--admin-port"] {
        command.args([port, "0"]);
    }
    command
}
