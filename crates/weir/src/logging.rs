//! Log lines on standard error: for people on a terminal, JSON elsewhere. A command that ends by itself writes no log: what
//! it has to say is for whoever called it.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};
use weir_engine::admin::AUDIT;

use crate::cli::{LogFormat, LogLevel};

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// For programs.
    Json,
    /// For people who read a log.
    Human,
    /// For people who wait for a command to end.
    Plain,
}

/// How lines of a command look. `serves`: it runs until it is told to end.
pub(crate) fn style(format: LogFormat, serves: bool) -> Style {
    match format {
        LogFormat::Json => Style::Json,
        LogFormat::Human => Style::Human,
        LogFormat::Auto if !serves => Style::Plain,
        LogFormat::Auto if io::stderr().is_terminal() => Style::Human,
        LogFormat::Auto => Style::Json,
    }
}

/// What is logged, and what the command line says of it.
static FILTER: OnceLock<(reload::Handle<Targets, Registry>, LogLevel)> = OnceLock::new();

/// Shows lines from this level on; without one, as the command line says.
pub(crate) fn set_level(level: Option<LogLevel>) {
    if let Some((handle, default)) = FILTER.get() {
        // It fails when nothing is logged any more.
        let _ = handle.reload(filter(level.unwrap_or(*default)));
    }
}

fn filter(level: LogLevel) -> Targets {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // Libraries name no pipeline and do not say what to do, and a client can have h2 warn of each frame that it sends.
    let of_libraries = if level == LevelFilter::DEBUG { LevelFilter::WARN } else { LevelFilter::OFF };
    // Who looks at telemetry is logged whatever the level. Watches that fail are logged once by Weir; the library would do so at each attempt.
    Targets::new()
        .with_default(of_libraries)
        .with_target("kube", LevelFilter::OFF)
        .with_target("weir", level)
        .with_target(AUDIT, LevelFilter::INFO)
}

/// Starts logging. If a line cannot be written, nobody is told, because there is nobody left to tell.
pub(crate) fn init(style: Style, level: LogLevel) {
    let (filter, handle) = reload::Layer::new(filter(level));
    // Nobody has set it before.
    let _ = FILTER.set((handle, level));
    let lines = || fmt::layer().log_internal_errors(false).with_writer(io::stderr);
    let people = || lines().with_ansi(io::stderr().is_terminal()).with_target(false);
    let layer = match style {
        Style::Json => lines().json().flatten_event(true).boxed(),
        Style::Human => people().boxed(),
        Style::Plain => people().without_time().boxed(),
    };
    tracing_subscriber::registry().with(layer.with_filter(filter)).init();
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn who_looks_at_telemetry_is_logged_whatever_the_level() {
        for level in [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug] {
            let filter = filter(level);
            assert!(filter.would_enable(AUDIT, &Level::INFO) && !filter.would_enable(AUDIT, &Level::DEBUG));
            assert!(filter.would_enable("weir_engine::taps", &Level::ERROR));
            assert_eq!(
                filter.would_enable("weir::gateway", &Level::INFO),
                matches!(level, LogLevel::Info | LogLevel::Debug)
            );
        }
    }

    #[test]
    fn what_libraries_warn_of_is_for_those_who_look_for_bugs() {
        let is_logged = |level| filter(level).would_enable("h2::proto::ping_pong", &Level::WARN);
        assert!(is_logged(LogLevel::Debug) && !is_logged(LogLevel::Info) && !is_logged(LogLevel::Error));
    }
}
