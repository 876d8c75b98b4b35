//! Connections into a service mesh: to targets behind Istio's sidecars, which want to see a certificate of the mesh.
//!
//! The files are those that Istio's own sidecar keeps fresh for whoever it stands beside. What the other side shows is not
//! verified: its certificate names a workload, and not an address.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task;
use weir_plan::{Identity, Secret, Tls};

/// Where the sidecar of Kyma's agent puts them.
pub const ISTIO_CERTIFICATES: &str = "/etc/istio-output-certs";

const CHAIN: &str = "cert-chain.pem";
const KEY: &str = "key.pem";

/// What is made of the files, and made anew when they say something else.
#[derive(Debug, Clone)]
pub(super) struct Certificates<T> {
    directory: PathBuf,
    made: Arc<Mutex<Option<(Identity, T)>>>,
}

impl<T: Clone + Send + 'static> Certificates<T> {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, made: Arc::default() }
    }

    /// What `make` makes of the files as they are now.
    ///
    /// # Errors
    /// When they cannot be read or used.
    pub(super) async fn now(&self, make: impl FnOnce(&Tls) -> Result<T, String> + Send + 'static) -> Result<T, String> {
        let Self { directory, made } = self.clone();
        // A file system may hang.
        let read = task::spawn_blocking(move || {
            let identity = read(&directory)?;
            let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((of, known)) = made.as_ref()
                && *of == identity
            {
                return Ok(known.clone());
            }
            let tls = Tls { insecure_skip_verify: true, ca_pem: None, identity: Some(identity.clone()) };
            let new = make(&tls).map_err(|error| format!("in {}: {error}", directory.display()))?;
            *made = Some((identity, new.clone()));
            Ok(new)
        });
        read.await.map_err(|error| error.to_string())?
    }
}

fn read(directory: &Path) -> Result<Identity, String> {
    let text = |name| {
        let path = directory.join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    Ok(Identity { cert_pem: text(CHAIN)?, key_pem: Secret::new(text(KEY)?) })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use weir_engine::client_config;
    use weir_testkit::tls::Authority;

    use super::*;

    fn write(directory: &TempDir, identity: &Identity) {
        fs::write(directory.path().join(CHAIN), &identity.cert_pem).unwrap();
        fs::write(directory.path().join(KEY), identity.key_pem.reveal()).unwrap();
    }

    #[tokio::test]
    async fn files_are_taken_up_when_they_change() {
        let (directory, authority) = (TempDir::new().unwrap(), Authority::new());
        let certificates = Certificates::new(directory.path().to_owned());
        let count = Arc::new(Mutex::new(0));
        let now = async || {
            let count = Arc::clone(&count);
            let make = move |tls: &Tls| {
                client_config(Some(tls))?;
                let mut count = count.lock().unwrap();
                *count += 1;
                Ok(*count)
            };
            certificates.now(make).await
        };
        let error = now().await.unwrap_err();
        assert!(error.contains("cert-chain.pem: No such file"), "{error}");
        let first = authority.identity();
        write(&directory, &first);
        assert_eq!((now().await, now().await), (Ok(1), Ok(1)));
        write(&directory, &authority.identity());
        assert_eq!((now().await, now().await), (Ok(2), Ok(2)));
        fs::write(directory.path().join(KEY), first.key_pem.reveal()).unwrap();
        let error = now().await.unwrap_err();
        assert!(error.contains("tls.cert with tls.key"), "{error}");
    }
}
