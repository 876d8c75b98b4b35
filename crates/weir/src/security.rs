//! Who may send to the OTLP ports: certificate, key and token files of the command line.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use weir_engine::settings::{IngestSecurity, IngestTls};
use weir_plan::Secret;

use crate::cli::IngestArgs;

/// Files of this kind are small; what is larger is something else.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads the files.
pub(crate) fn read(args: &IngestArgs) -> anyhow::Result<IngestSecurity> {
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(IngestTls {
            cert_pem: text(cert, "--tls-cert")?,
            key_pem: Secret::new(text(key, "--tls-key")?),
            client_ca_pem: args.tls_client_ca.as_ref().map(|ca| text(ca, "--tls-client-ca")).transpose()?,
        }),
        _ => None,
    };
    let tokens = args.bearer_token_file.as_ref().map(|file| tokens(file)).transpose()?.unwrap_or_default();
    Ok(IngestSecurity { tls, tokens })
}

/// The files, to be read again when they change.
pub(crate) fn files(args: &IngestArgs) -> Vec<PathBuf> {
    let files = [&args.tls_cert, &args.tls_key, &args.tls_client_ca, &args.bearer_token_file];
    files.into_iter().flatten().cloned().collect()
}

/// A token on each line, so that a new one can be added before the old one goes.
fn tokens(file: &Path) -> anyhow::Result<Vec<Secret>> {
    const FLAG: &str = "--bearer-token-file";
    let text = text(file, FLAG)?;
    let tokens: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if tokens.is_empty() {
        bail!("cannot use {} ({FLAG}): there is no token in it; write one on each line", file.display());
    }
    if let Some(line) = text.lines().position(|line| !line.trim().bytes().all(|byte| byte.is_ascii_graphic())) {
        let line = line + 1;
        bail!("cannot use {} ({FLAG}): line {line} has characters that no token has", file.display());
    }
    Ok(tokens.into_iter().map(Secret::new).collect())
}

fn text(file: &Path, flag: &str) -> anyhow::Result<String> {
    let cannot = || format!("cannot read {} ({flag})", file.display());
    let bytes = fs::metadata(file).with_context(cannot)?.len();
    if bytes > MAX_FILE_BYTES {
        bail!("{}: it is larger than {} KiB", cannot(), MAX_FILE_BYTES >> 10);
    }
    fs::read_to_string(file).with_context(cannot)
}
