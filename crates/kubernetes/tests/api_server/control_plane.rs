//! An API server with its etcd, for one test program: on free ports of the loopback address, in a directory that goes
//! away with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use weir_kubernetes::Client;
use weir_loadtest::ports::free_ports;

/// How long it may take until it answers, on a machine that has much else to do.
const START: Duration = Duration::from_secs(120);
const TOKEN: &str = "token-of-the-test";

/// Ends with its value.
pub(crate) struct ControlPlane {
    pub(crate) client: Client,
    /// How another program reaches it.
    #[expect(clippy::allow_attributes, reason = "this module is in several programs")]
    #[allow(dead_code, reason = "not every program starts others")]
    pub(crate) kubeconfig: PathBuf,
    processes: [Child; 2],
    directory: TempDir,
}

/// Where `etcd` and `kube-apiserver` are, if they are on this machine: in the directory that `WEIR_CLUSTER_BIN` names,
/// or where `tests/cluster/build.sh` leaves them.
pub(crate) fn programs() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "a test is told where the programs are")]
    let named = std::env::var("WEIR_CLUSTER_BIN").ok().map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cluster/.cache/bin");
    named.or(Some(built)).filter(|directory| directory.join("kube-apiserver").exists())
}

impl ControlPlane {
    pub(crate) async fn start(programs: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let [etcd_port, peer_port, port] = *free_ports(3).unwrap() else { unreachable!("three were asked for") };
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let etcd = spawn(
            programs,
            "etcd",
            &path("etcd.log"),
            &[
                "--name=a".to_owned(),
                format!("--data-dir={}", path("etcd")),
                "--unsafe-no-fsync".to_owned(),
                format!("--listen-client-urls={etcd_url}"),
                format!("--advertise-client-urls={etcd_url}"),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--initial-cluster=a={peer_url}"),
                "--log-level=warn".to_owned(),
            ],
        );
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        fs::write(path("tls.crt"), certificate.pem()).unwrap();
        fs::write(path("tls.key"), key.serialize_pem()).unwrap();
        fs::write(path("account.pub"), key.public_key_pem()).unwrap();
        fs::write(path("tokens.csv"), format!("{TOKEN},admin,1,system:masters\n")).unwrap();
        let server = spawn(
            programs,
            "kube-apiserver",
            &path("kube-apiserver.log"),
            &[
                format!("--etcd-servers={etcd_url}"),
                "--bind-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                "--endpoint-reconciler-type=none".to_owned(),
                format!("--tls-cert-file={}", path("tls.crt")),
                format!("--tls-private-key-file={}", path("tls.key")),
                format!("--token-auth-file={}", path("tokens.csv")),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-key-file={}", path("account.pub")),
                format!("--service-account-signing-key-file={}", path("tls.key")),
                "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                "--authorization-mode=RBAC".to_owned(),
                // Nobody makes accounts here, which pods would need.
                "--disable-admission-plugins=ServiceAccount".to_owned(),
            ],
        );
        let kubeconfig = directory.path().join("kubeconfig");
        fs::write(&kubeconfig, self::kubeconfig(&format!("https://127.0.0.1:{port}"), &path("tls.crt"))).unwrap();
        let client = weir_kubernetes::client(Some(&kubeconfig)).await.unwrap();
        let mut started = Self { client, kubeconfig, processes: [etcd, server], directory };
        started.until_ready().await;
        started
    }

    async fn until_ready(&mut self) {
        let deadline = Instant::now() + START;
        while !self.is_ready().await {
            // Of etcd, and of the server.
            let ended: Vec<_> = self.processes.iter_mut().map(|process| process.try_wait().unwrap()).collect();
            let log = |name: &str| last_lines(&self.directory.path().join(name));
            let is_over = ended.iter().any(Option::is_some) || Instant::now() > deadline;
            assert!(!is_over, "no API server: {ended:?}{}{}", log("etcd.log"), log("kube-apiserver.log"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
        self.client.request_text(request).await.is_ok_and(|text| text == "ok")
    }
}

fn kubeconfig(server: &str, ca: &str) -> String {
    let cluster = serde_json::json!({"server": server, "certificate-authority": ca});
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": {"token": TOKEN}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    })
    .to_string()
}

/// What a program said last: why it ended.
fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    format!("\n{}: {}", log.display(), lines[lines.len().saturating_sub(3)..].join(" | "))
}

fn spawn(programs: &Path, name: &str, log: &str, arguments: &[String]) -> Child {
    let log = fs::File::create(log).unwrap();
    let mut command = Command::new(programs.join(name));
    command.args(arguments).stdout(log.try_clone().unwrap()).stderr(log).kill_on_drop(true).spawn().unwrap()
}
