//! Who may use the ports: certificate, key and token files of the command line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use weir_engine::settings::{PortSecurity, PortTls};
use weir_plan::Secret;

use crate::cli::{AdminArgs, IngestArgs, ProcessArgs};

/// Files of this kind are small; what is larger is something else.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What the files say.
pub(crate) struct Security {
    pub(crate) ingest: PortSecurity,
    pub(crate) admin: PortSecurity,
}

/// The files of a port, each with its flag.
struct Files<'a> {
    cert: (&'a Option<PathBuf>, &'static str),
    key: (&'a Option<PathBuf>, &'static str),
    client_ca: (&'a Option<PathBuf>, &'static str),
    tokens: (&'a Option<PathBuf>, &'static str),
}

impl<'a> Files<'a> {
    fn of_ingest(args: &'a IngestArgs) -> Self {
        let IngestArgs { tls_cert, tls_key, tls_client_ca, bearer_token_file } = args;
        Self {
            cert: (tls_cert, "--tls-cert"),
            key: (tls_key, "--tls-key"),
            client_ca: (tls_client_ca, "--tls-client-ca"),
            tokens: (bearer_token_file, "--bearer-token-file"),
        }
    }

    fn of_admin(args: &'a AdminArgs) -> Self {
        let AdminArgs { admin_tls_cert, admin_tls_key, admin_tls_client_ca, admin_token_file, .. } = args;
        Self {
            cert: (admin_tls_cert, "--admin-tls-cert"),
            key: (admin_tls_key, "--admin-tls-key"),
            client_ca: (admin_tls_client_ca, "--admin-tls-client-ca"),
            tokens: (admin_token_file, "--admin-token-file"),
        }
    }

    fn read(&self) -> anyhow::Result<PortSecurity> {
        let tls = match (self.cert, self.key) {
            ((Some(cert), of_cert), (Some(key), of_key)) => Some(PortTls {
                cert_pem: text(cert, of_cert)?,
                key_pem: Secret::new(text(key, of_key)?),
                client_ca_pem: self.client_ca.0.as_ref().map(|ca| text(ca, self.client_ca.1)).transpose()?,
            }),
            _ => None,
        };
        let (file, flag) = self.tokens;
        Ok(PortSecurity { tls, tokens: tokens(file.as_deref(), flag)? })
    }

    fn all(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let files = [self.cert, self.key, self.client_ca, self.tokens].map(|(file, _)| file.clone());
        files.into_iter().flatten()
    }
}

/// Reads the files.
pub(crate) fn read(args: &ProcessArgs) -> anyhow::Result<Security> {
    Ok(Security { ingest: Files::of_ingest(&args.ingest).read()?, admin: Files::of_admin(&args.admin).read()? })
}

/// The files, to be read again when they change.
pub(crate) fn files(args: &ProcessArgs) -> Vec<PathBuf> {
    Files::of_ingest(&args.ingest).all().chain(Files::of_admin(&args.admin).all()).collect()
}

/// One token on each line, so that a new one can be added before the old one goes; by the numbers of the lines. None
/// without a file.
pub(crate) fn tokens(file: Option<&Path>, flag: &str) -> anyhow::Result<BTreeMap<u32, Secret>> {
    let Some(file) = file else { return Ok(BTreeMap::new()) };
    let text = text(file, flag)?;
    let lines = || (1_u32..).zip(text.lines().map(str::trim));
    if let Some((line, _)) = lines().find(|(_, token)| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
        bail!("cannot use {} ({flag}): line {line} has characters that no token has", file.display());
    }
    let written = lines().filter(|(_, token)| !token.is_empty());
    let tokens: BTreeMap<_, _> = written.map(|(line, token)| (line, Secret::new(token))).collect();
    if tokens.is_empty() {
        bail!("cannot use {} ({flag}): there is no token in it; write one on each line", file.display());
    }
    Ok(tokens)
}

pub(crate) fn text(file: &Path, flag: &str) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {} ({flag})", file.display());
    let mut text = String::new();
    File::open(file).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)).with_context(cannot)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("{}: it is larger than {} KiB", cannot(), MAX_FILE_BYTES >> 10);
    }
    Ok(text)
}
