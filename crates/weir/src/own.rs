//! `weir own`: gives a directory to a user. The kubelet makes the directories of a node for root, and the container that
//! keeps data there is nobody.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct OwnArgs {
    /// The directory; what is in it stays as it is
    directory: PathBuf,
    /// Who gets it, by numbers
    #[arg(value_name = "UID:GID", value_parser = parse)]
    owner: (u32, u32),
}

fn parse(text: &str) -> Result<(u32, u32), String> {
    let wrong = || format!("{text:?} is not UID:GID, for example 10001:10001");
    let (user, group) = text.split_once(':').ok_or_else(wrong)?;
    Ok((user.parse().map_err(|_| wrong())?, group.parse().map_err(|_| wrong())?))
}

pub(crate) fn run(args: &OwnArgs) -> anyhow::Result<ExitCode> {
    let OwnArgs { directory, owner: (user, group) } = args;
    let shown = directory.display();
    let found = directory.symlink_metadata().with_context(|| format!("cannot look at {shown}"))?;
    if !found.is_dir() {
        bail!("cannot give {shown} to user {user}: it is not a directory");
    }
    // Who has it already may be all who can have it: the right to give may be missing.
    if (found.uid(), found.gid()) != (*user, *group) {
        // Telemetry is in it, which is nobody else's business. Whoever gives it away may not do this afterwards.
        if found.uid() == rustix::process::geteuid().as_raw() {
            let cannot = || format!("cannot keep other users out of {shown}");
            std::fs::set_permissions(directory, Permissions::from_mode(0o700)).with_context(cannot)?;
        }
        chown(directory, Some(*user), Some(*group)).with_context(|| format!("cannot give {shown} to user {user}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_two_numbers() {
        assert_eq!(parse("10001:0"), Ok((10_001, 0)));
        for wrong in ["", "10001", ":", "a:b", "1:2:3", "-1:0"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_directory_that_is_owned_needs_no_right_and_what_is_none_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let found = directory.path().metadata().unwrap();
        let owner = (found.uid(), found.gid());
        assert!(run(&OwnArgs { directory: directory.path().to_owned(), owner }).is_ok());
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = run(&OwnArgs { directory: file, owner }).unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");
    }

    #[test]
    fn nobody_else_may_look_into_what_is_given_away() {
        if !rustix::process::geteuid().is_root() {
            println!("warning: giving a directory away is not tested: that takes root");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        run(&OwnArgs { directory: directory.path().to_owned(), owner: (10_001, 10_001) }).unwrap();
        let found = directory.path().metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (10_001, 10_001, 0o700));
    }
}
