//! A data directory on a file system of its own, which only the gateway sees.
//!
//! That needs the right to mount (root, or user namespaces). Where there is none, the tests that need it say so on standard
//! error; they fail if `CI` is set, unless `WEIR_WITHOUT_MOUNTS` is, too.

use std::path::PathBuf;

use tempfile::TempDir;
use tokio::process::Command;
use weir_testkit::data_dir::DataDir;
use weir_testkit::warn;

use crate::process::Weir;

/// Data reaches the disk at once.
pub(crate) const HASTY: [&str; 2] = ["--spill-after", "10ms"];

/// Mounted for one process at a time, and unmounted with its end.
pub(crate) struct Disk {
    dir: DataDir,
    /// The command that mounts it and runs another.
    wrapper: Vec<String>,
    /// What is on it is in a file here; otherwise it is gone with the process.
    image: Option<TempDir>,
}

impl Disk {
    /// In memory, of this size. `None`, and said so, where nothing can be mounted and that is no surprise.
    pub(crate) async fn small(mebibytes: u32) -> Option<Self> {
        let disk = Self::mounted(&format!("-t tmpfs -o size={mebibytes}m weir"), None).await;
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        assert!(
            disk.is_some() || !is_set("CI") || is_set("WEIR_WITHOUT_MOUNTS"),
            "this user may not mount a small disk, not even with `unshare`; WEIR_WITHOUT_MOUNTS=1 leaves its tests out"
        );
        if disk.is_none() {
            warn("no small disk was tested: this user may not mount one, not even with `unshare`");
        }
        disk
    }

    /// A real one, which the kernel makes read-only when it meets an error. `None`, and said so, where there is no such
    /// thing: it needs root, a loop device and ext4.
    pub(crate) async fn fragile() -> Option<Self> {
        let image = TempDir::new().unwrap();
        let file = image.path().join("image");
        std::fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
        let formatted = Command::new("mkfs.ext4").arg("-q").arg(&file).output().await;
        let mut disk = None;
        if formatted.is_ok_and(|output| output.status.success()) {
            let options = format!("-t ext4 -o loop,errors=remount-ro {}", file.display());
            disk = Self::mounted(&options, Some(image)).await;
        }
        if disk.is_none() {
            warn("no disk that becomes read-only was tested: this user may not mount a file as ext4");
        }
        disk
    }

    async fn mounted(what: &str, image: Option<TempDir>) -> Option<Self> {
        let dir = DataDir::new();
        for privileges in [&["--mount"][..], &["--mount", "--user", "--map-root-user"]] {
            let script = format!("mount {what} {} && exec \"$0\" \"$@\"", dir.arg());
            let wrapper = [&["unshare"], privileges, &["sh", "-c", &script]].concat();
            let probe = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output().await;
            if probe.is_ok_and(|output| output.status.success()) {
                let wrapper = wrapper.into_iter().map(str::to_owned).collect();
                return Some(Self { dir, wrapper, image });
            }
        }
        None
    }

    pub(crate) async fn start(&self, manifests: &str) -> Weir {
        let wrapper: Vec<&str> = self.wrapper.iter().map(String::as_str).collect();
        Weir::start_under(&wrapper, manifests, &["--data-dir", self.dir.arg(), HASTY[0], HASTY[1]]).await
    }

    /// The directory as the process sees it.
    pub(crate) fn seen_by(&self, weir: &Weir) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", weir.pid().as_raw_nonzero()));
        root.join(self.dir.path().strip_prefix("/").unwrap())
    }

    /// The kernel is told to behave as if it had met an error on a disk that is [fragile](Disk::fragile): from now on
    /// nothing can be written, whoever has files open.
    pub(crate) fn fail(&self, weir: &Weir) {
        assert!(self.image.is_some());
        let mounts = std::fs::read_to_string(format!("/proc/{}/mounts", weir.pid().as_raw_nonzero())).unwrap();
        let mount = mounts.lines().find(|line| line.split(' ').nth(1) == Some(self.dir.arg())).unwrap();
        let device = mount.split(' ').next().unwrap().strip_prefix("/dev/").unwrap();
        assert!(device.starts_with("loop"), "{device}");
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").unwrap();
    }
}
