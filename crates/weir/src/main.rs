//! The `weir` program: command line, logging, wiring. What is worth testing lives in the other crates.

// But for the allocator, and what is told the kernel of the program's text.
#![deny(unsafe_code)]

mod allocator;
mod ask;
mod before_books;
mod changed_by;
mod check;
mod cli;
mod configuration;
mod container_logs;
mod convert;
mod crds;
mod data_dir;
mod doctor;
mod downward;
mod findings;
mod gateway;
mod handover;
mod health;
mod host;
mod journal;
mod limits;
mod logging;
mod logs;
mod node;
mod operator;
mod own;
mod page;
mod program_text;
mod proxy;
mod run;
mod runtime_metrics;
mod scraping;
mod security;
mod signals;
mod state;
mod tables;
mod tap;
mod targets;
mod top;
mod try_rules;
mod watch;
mod why;
mod yaml;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use weir_legible::with_causes;
use weir_loadtest::output;

use cli::{Cli, Command};
use logging::Style;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let serves = matches!(cli.command, Command::Run(_) | Command::Node(_) | Command::Sink(_) | Command::Operator(_));
    let style = logging::style(cli.log_format, serves);
    logging::init(style, cli.log_level);
    let result = execute(cli.command);
    result.unwrap_or_else(|error| {
        match style {
            // Where standard error is closed, the exit code has to do.
            Style::Plain => drop(writeln!(io::stderr(), "error: {}", explain(&error))),
            Style::Json | Style::Human => tracing::error!("{}", explain(&error)),
        }
        ExitCode::FAILURE
    })
}

fn execute(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Check(args) => check::check(&args),
        Command::Convert(args) => convert::convert(&args),
        Command::Crds(args) => crds::run(&args),
        Command::Try(args) => try_rules::run(&args),
        Command::Journal(args) => journal::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Targets(args) => targets::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Tap(args) => tap::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Operator(args) => operator::run(args),
        Command::Node(args) => node::run(args),
        Command::Own(args) => own::run(&args),
        Command::Sink(args) => {
            limits::raise_file_limit();
            weir_loadtest::sink::run(args)
        }
        Command::Load(args) => {
            limits::raise_file_limit();
            weir_loadtest::load::run(args)
        }
        Command::Loadtest(args) => weir_loadtest::command::run(args),
        Command::Demo(args) => weir_loadtest::demo::run(args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
            output::printed(io::stdout().write_all(&script))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// An error and its causes.
pub(crate) fn explain(error: &anyhow::Error) -> String {
    with_causes(&**error)
}

#[cfg(test)]
mod tests {
    use weir_engine::settings;

    use super::*;

    #[test]
    fn the_defaults_of_flags_are_those_of_the_engine() {
        let Command::Run(args) = Cli::parse_from(["weir", "run", "pipelines"]).command else { panic!("not run") };
        let args = args.process;
        let durations = [args.spill_after, args.drain_timeout, args.max_connection_age];
        assert_eq!(durations, [settings::SPILL_AFTER, settings::DRAIN_TIMEOUT, settings::MAX_CONNECTION_AGE]);
        let removed = u64::try_from(args.max_removed_logs);
        assert_eq!(removed, Ok(weir_sources::tail::MAX_REMOVED_BYTES));
    }
}
