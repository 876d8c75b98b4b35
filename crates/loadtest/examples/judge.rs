//! The judge on its own: sink, generator and load test without the gateway's binary, for trials and comparisons.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use weir_loadtest::{load, scenario, sink};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Sink, generator and load test.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Sink(sink::SinkArgs),
    Load(load::LoadArgs),
    Loadtest(Box<scenario::LoadtestArgs>),
}

fn main() -> anyhow::Result<ExitCode> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match Cli::parse().command {
        Command::Sink(args) => sink::run(args),
        Command::Load(args) => load::run(args),
        Command::Loadtest(args) => scenario::run(*args),
    }
}
