//! How one process goes on in place of another that uses the same data directory: two generations of a pod, during an
//! update.
//!
//! The newer one asks, by a socket in the directory. The older one gives it its listening sockets, so that whoever
//! connects waits and is not refused; stops reading; leaves all that it has with backends or on the disk; and frees the
//! directory. It stays until it is told to end: its address is in use until then, and what comes there is served by the
//! newer one. See docs/decisions/022-two-generations-of-a-pod.md.

mod generations;
mod messages;

use std::fs::Permissions;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use weir_engine::{Adopted, Engine, OtlpPorts};
use weir_journal::LockError;

pub(crate) use generations::enter;
use generations::is_newer;
use messages::{FREE, NO, YES};

/// What is under way has this long to be delivered. Then it is on the disk.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// For a process to say who it is, or to hear an answer.
const ANSWER: Duration = Duration::from_secs(2);

/// For a process to free the directory: deliveries, answers and last writes, each with its own bound.
const RELEASE: Duration = Duration::from_secs(15);

/// For clients of the old address to go elsewhere.
const FAREWELL: Duration = Duration::from_secs(10);

/// Between two looks whether the data directory is free.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two questions to the process that has it.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// The socket in the data directory.
const SOCKET: &str = "handover.sock";

/// The process that has the directory hears here who wants to go on in its place.
pub(crate) struct HandoverSocket {
    successors: mpsc::Receiver<Successor>,
    task: JoinHandle<()>,
    path: PathBuf,
}

impl HandoverSocket {
    /// Call this with the directory locked. `id`: who this process is.
    pub(crate) fn open(dir: &Path, id: String) -> io::Result<Self> {
        let path = dir.join(SOCKET);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        let (found, successors) = mpsc::channel(1);
        let task = tokio::spawn(listen(listener, dir.to_owned(), id, found));
        Ok(Self { successors, task, path })
    }

    /// Who goes on in place of this process. May be dropped and called again.
    pub(crate) async fn successor(socket: &mut Option<Self>) -> Successor {
        let Some(Self { successors, .. }) = socket else { return pending().await };
        match successors.recv().await {
            Some(successor) => successor,
            None => pending().await,
        }
    }
}

impl Drop for HandoverSocket {
    fn drop(&mut self) {
        self.task.abort();
        // Whoever has the directory next makes its own.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn listen(listener: UnixListener, dir: PathBuf, id: String, found: mpsc::Sender<Successor>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(Ok(asks)) = timeout(ANSWER, messages::hear(&stream)).await else { continue };
        if is_newer(&dir, &asks, &id) {
            if found.send(Successor(stream)).await.is_err() {
                return;
            }
        } else {
            // Whoever does not wait for the answer does not need it.
            let _ = timeout(ANSWER, messages::say(&stream, NO, &[])).await;
        }
    }
}

/// The process that goes on in place of this one.
pub(crate) struct Successor(UnixStream);

impl Successor {
    /// Gives it the listening sockets. If it does not take them, it has others.
    pub(crate) async fn give(&mut self, sockets: Vec<OwnedFd>) {
        if !matches!(timeout(ANSWER, messages::say(&self.0, YES, &sockets)).await, Ok(Ok(()))) {
            tracing::info!("the process that takes over does not take the ports; clients have to connect anew");
        }
    }

    /// The directory is free.
    pub(crate) async fn release(&mut self) {
        // It looks for itself as well.
        let _ = timeout(ANSWER, messages::say(&self.0, FREE, &[])).await;
    }

    /// Resolves when it is gone. May be dropped and called again.
    pub(crate) async fn gone(&mut self) {
        while messages::hear(&self.0).await.is_ok() {}
    }

    /// This process ends: whoever is connected by its address is asked to go elsewhere, and has time to.
    pub(crate) async fn farewell(self) {
        // The end of what this process says.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write);
        let _ = timeout(FAREWELL, async { while messages::hear(&self.0).await.is_ok() {} }).await;
    }
}

/// What the process before this one left.
pub(crate) struct Predecessor {
    stream: UnixStream,
    sockets: Vec<OwnedFd>,
    adopted: Option<Adopted>,
}

/// Waits until `open` can open the directory, and asks whoever has it to leave it. `id`: who this process is.
///
/// # Errors
/// What `open` says, unless it says that another process has the directory.
pub(crate) async fn take<T>(
    dir: &Path,
    id: &str,
    mut open: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<(T, Option<Predecessor>)> {
    let shown = dir.display();
    let mut predecessor = None;
    let mut ask_at = Instant::now();
    loop {
        match open() {
            Err(error) if is_held(&error) => {}
            opened => return Ok((opened?, predecessor)),
        }
        if Instant::now() < ask_at {
            sleep(LOOK_EVERY).await;
            continue;
        }
        if predecessor.take().is_some() {
            // What came to the ports of the one before waits for nobody any more.
            tracing::warn!(
                data_dir = %shown,
                advice = "let only one of them have this --data-dir",
                "a third process has taken the data directory meanwhile"
            );
        }
        tracing::info!(data_dir = %shown, "another process uses the data directory; asking it to hand over");
        // Whoever is not there, or is about to end, leaves the directory sooner or later.
        predecessor = ask(dir, id).await.ok().flatten();
        ask_at = Instant::now() + ASK_EVERY;
    }
}

fn is_held(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<LockError>(), Some(LockError::Held { .. }))
}

/// Asks whoever has the directory to leave it, and waits until it has. Nothing if it does not want to, or is not there.
async fn ask(dir: &Path, id: &str) -> io::Result<Option<Predecessor>> {
    let stream = UnixStream::connect(dir.join(SOCKET)).await?;
    messages::say(&stream, id, &[]).await?;
    // It may have to end what it does first.
    let (answer, sockets) = timeout(RELEASE, messages::hear_with_sockets(&stream)).await??;
    if answer != YES {
        return Ok(None);
    }
    // If it ends without a word, the directory is free as well.
    let _ = timeout(RELEASE, messages::hear(&stream)).await?;
    Ok(Some(Predecessor { stream, sockets, adopted: None }))
}

impl Predecessor {
    /// Serves whoever connects to the address of the other process.
    pub(crate) fn serve_ports(&mut self, engine: &Engine) {
        match OtlpPorts::inherited(std::mem::take(&mut self.sockets)) {
            Ok(ports) => self.adopted = Some(engine.adopt(ports)),
            Err(error) => tracing::info!(%error, "cannot serve the ports of the process before this one"),
        }
    }

    /// Resolves when the other process ends; never if there is none. May be dropped and called again.
    pub(crate) async fn ends(predecessor: &mut Option<Self>) {
        match predecessor {
            Some(Self { stream, .. }) => while messages::hear(stream).await.is_ok() {},
            None => pending().await,
        }
    }

    /// Serves these ports no more. The other process ends after that.
    pub(crate) async fn leave(self) {
        let Self { stream, sockets, adopted } = self;
        drop(sockets);
        if let Some(adopted) = adopted {
            adopted.leave(FAREWELL).await;
        }
        drop(stream);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// The one before has left the directory to this process, and another one was faster.
    #[tokio::test]
    async fn whoever_has_the_directory_meanwhile_is_asked_as_well() {
        let dir = tempfile::tempdir().unwrap();
        for id in ["first", "third", "second"] {
            enter(dir.path(), id).unwrap();
        }
        let is_free = AtomicBool::new(false);
        let open = || match is_free.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(LockError::Held { dir: dir.path().to_owned(), holder: None }.into()),
        };
        let others = async {
            for id in ["first", "third"] {
                let mut socket = HandoverSocket::open(dir.path(), id.to_owned()).ok();
                let mut successor = HandoverSocket::successor(&mut socket).await;
                successor.give(Vec::new()).await;
                drop(socket);
                successor.release().await;
            }
            is_free.store(true, Ordering::Relaxed);
        };
        let both = async { tokio::join!(take(dir.path(), "second", open), others).0 };
        let ((), predecessor) = timeout(Duration::from_secs(60), both).await.unwrap().unwrap();
        assert!(predecessor.is_some());
    }
}
