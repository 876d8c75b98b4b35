//! Who may use the ports: certificate, key and token files of the command line.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use weir_engine::settings::{IngestSecurity, IngestTls};
use weir_plan::Secret;

use crate::cli::{IngestArgs, ProcessArgs};

/// Files of this kind are small; what is larger is something else.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What the files say.
pub(crate) struct Security {
    pub(crate) ingest: IngestSecurity,
    /// Of the admin port.
    pub(crate) admin_tokens: Vec<Secret>,
}

/// Reads the files.
pub(crate) fn read(args: &ProcessArgs) -> anyhow::Result<Security> {
    let IngestArgs { tls_cert, tls_key, tls_client_ca, bearer_token_file } = &args.ingest;
    let tls = match (tls_cert, tls_key) {
        (Some(cert), Some(key)) => Some(IngestTls {
            cert_pem: text(cert, "--tls-cert")?,
            key_pem: Secret::new(text(key, "--tls-key")?),
            client_ca_pem: tls_client_ca.as_ref().map(|ca| text(ca, "--tls-client-ca")).transpose()?,
        }),
        _ => None,
    };
    let tokens = tokens(bearer_token_file.as_deref(), "--bearer-token-file")?;
    let admin_tokens = self::tokens(args.admin.admin_token_file.as_deref(), "--admin-token-file")?;
    Ok(Security { ingest: IngestSecurity { tls, tokens }, admin_tokens })
}

/// The files, to be read again when they change.
pub(crate) fn files(args: &ProcessArgs) -> Vec<PathBuf> {
    let IngestArgs { tls_cert, tls_key, tls_client_ca, bearer_token_file } = &args.ingest;
    let files = [tls_cert, tls_key, tls_client_ca, bearer_token_file, &args.admin.admin_token_file];
    files.into_iter().flatten().cloned().collect()
}

/// One token on each line, so that a new one can be added before the old one goes. None without a file.
pub(crate) fn tokens(file: Option<&Path>, flag: &str) -> anyhow::Result<Vec<Secret>> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let text = text(file, flag)?;
    let tokens: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if tokens.is_empty() {
        bail!("cannot use {} ({flag}): there is no token in it; write one on each line", file.display());
    }
    if let Some(line) = text.lines().position(|line| !line.trim().bytes().all(|byte| byte.is_ascii_graphic())) {
        let line = line + 1;
        bail!("cannot use {} ({flag}): line {line} has characters that no token has", file.display());
    }
    Ok(tokens.into_iter().map(Secret::new).collect())
}

fn text(file: &Path, flag: &str) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {} ({flag})", file.display());
    let mut text = String::new();
    File::open(file).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)).with_context(cannot)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("{}: it is larger than {} KiB", cannot(), MAX_FILE_BYTES >> 10);
    }
    Ok(text)
}
