//! `weir loadtest`: a test, all of the published ones, or a comparison of what was measured.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::compare::{self, CompareArgs};
use crate::scenario::{self, AllArgs, LoadtestArgs};

/// A test, unless something else is asked for.
#[derive(Args, Debug, Clone)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LoadtestCommand {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    test: LoadtestArgs,
}

#[derive(Subcommand, Debug, Clone)]
enum Action {
    /// Run every published test one after the other, and report all of them on one page
    All(AllArgs),
    /// Compare two load tests, or repeated ones, and say what is better, worse or noise
    Compare(CompareArgs),
}

/// Does what was asked for.
///
/// # Errors
/// See [`scenario::run`], [`scenario::run_all`] and [`compare::run`].
pub fn run(command: LoadtestCommand) -> anyhow::Result<ExitCode> {
    match command.action {
        None => scenario::run(command.test),
        Some(Action::All(args)) => scenario::run_all(&args),
        Some(Action::Compare(args)) => compare::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        command: LoadtestCommand,
    }

    fn parsed(line: &str) -> Result<LoadtestCommand, clap::Error> {
        let words = std::iter::once("loadtest").chain(line.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.command)
    }

    #[test]
    fn without_a_command_it_is_a_test() {
        let test = |line: &str| parsed(line).map(|command| (command.action.is_none(), command.test));
        let (is_test, args) = test("-t metrics -m -b true -o results").unwrap();
        assert!(is_test && args.multi && args.backpressure && args.test == scenario::Test::Metrics);
        assert!(matches!(parsed("compare a b").unwrap().action, Some(Action::Compare(_))));
        assert!(matches!(parsed("all -d 5 -o results").unwrap().action, Some(Action::All(_))));
        assert!(parsed("-t metrics compare a b").is_err(), "options of a test mean nothing to a comparison");
    }
}
