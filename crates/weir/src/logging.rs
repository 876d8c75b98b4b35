//! Log lines on standard error: for people on a terminal, JSON elsewhere.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::cli::{LogFormat, LogLevel};

/// Starts logging. Libraries are heard from `warn` on.
pub(crate) fn init(format: LogFormat, level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let filter = Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("weir", level);
    let terminal = io::stderr().is_terminal();
    let human = match format {
        LogFormat::Auto => terminal,
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let layer = if human {
        fmt::layer().with_writer(io::stderr).with_ansi(terminal).with_target(false).boxed()
    } else {
        fmt::layer().json().flatten_event(true).with_writer(io::stderr).boxed()
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
}
