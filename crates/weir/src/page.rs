//! The page: how data flows, for people. Static files and what they ask, beside the metrics and on the admin port.
//!
//! Beside the metrics it shows numbers, names and words of backends, and no telemetry. On the admin port, which wants a token or a
//! certificate or listens on this machine alone, the same page finds samples, taps, talkers, targets, log files and configurations as well.

mod attributes;
mod configurations;
mod json;
mod last_one;
mod logs;
mod losses;
mod now;
mod past;
mod recent;
mod redact;
mod rehearsal;
mod sample;
mod searches;
mod talkers;
mod taps;
mod target_pages;

use std::io::Write as _;

use http::StatusCode;
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Readers, Route, Shown};
use weir_engine::settings::Onlookers;
use weir_sources::scrape::TargetBoard;

use crate::health::{ChangesOfPipelines, HealthOfPipelines, Verdicts};
use attributes::AttributesPage;
pub(crate) use configurations::{Configurations, Provenance};
pub(crate) use logs::LogsPage;
use now::Now;
pub(crate) use past::Past;
use recent::RecentPage;
use rehearsal::RehearsalPage;
use sample::SamplePage;
use searches::Searches;
use talkers::TalkersPage;
pub(crate) use taps::EdgeName;
use taps::TapsPage;
use target_pages::TargetPages;

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What a browser gets: path, media type, content.
const FILES: [(&str, &str, &str); 23] = [
    ("/", "text/html; charset=utf-8", include_str!("../page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../page/page.css")),
    ("/page.js", SCRIPT, include_str!("../page/page.js")),
    ("/ask.js", SCRIPT, include_str!("../page/ask.js")),
    ("/dom.js", SCRIPT, include_str!("../page/dom.js")),
    ("/state.js", SCRIPT, include_str!("../page/state.js")),
    ("/table.js", SCRIPT, include_str!("../page/table.js")),
    ("/items.js", SCRIPT, include_str!("../page/items.js")),
    ("/taps.js", SCRIPT, include_str!("../page/taps.js")),
    ("/hour.js", SCRIPT, include_str!("../page/hour.js")),
    ("/events.js", SCRIPT, include_str!("../page/events.js")),
    ("/pipelines.js", SCRIPT, include_str!("../page/pipelines.js")),
    ("/destinations.js", SCRIPT, include_str!("../page/destinations.js")),
    ("/figures.js", SCRIPT, include_str!("../page/figures.js")),
    ("/losses.js", SCRIPT, include_str!("../page/losses.js")),
    ("/tap.js", SCRIPT, include_str!("../page/tap.js")),
    ("/find.js", SCRIPT, include_str!("../page/find.js")),
    ("/rules.js", SCRIPT, include_str!("../page/rules.js")),
    ("/diff.js", SCRIPT, include_str!("../page/diff.js")),
    ("/lists.js", SCRIPT, include_str!("../page/lists.js")),
    ("/target.js", SCRIPT, include_str!("../page/target.js")),
    ("/configuration.js", SCRIPT, include_str!("../page/configuration.js")),
    ("/attributes.js", SCRIPT, include_str!("../page/attributes.js")),
];

/// Everything of the page. Of the last route, which stands for every path, there is nothing but the first file.
pub(crate) fn routes(verdicts: &Verdicts, past: &Past) -> Vec<Route> {
    let api = [
        Route::new("/api/now", Now),
        Route::new("/api/history", past.clone()),
        Route::new("/health/pipelines", HealthOfPipelines::of(verdicts)),
        Route::new("/health/changes", ChangesOfPipelines::of(verdicts)),
    ];
    let files =
        FILES.iter().rev().map(|(path, content_type, content)| Route::new(path, File { path, content_type, content }));
    api.into_iter().chain(files).collect()
}

/// What shows telemetry, or names of what is in it: for the admin port alone.
pub(crate) fn private_routes(
    Onlookers { taps, talkers }: &Onlookers,
    configurations: &Configurations,
    targets: &TargetBoard,
) -> Vec<Route> {
    let page = TapsPage::new(taps, configurations);
    let recent = RecentPage::new(configurations);
    let rehearsal = RehearsalPage {
        taps: taps.clone(),
        opened: page.clone(),
        recent: recent.clone(),
        configurations: configurations.clone(),
        readers: Readers::default(),
    };
    let (pages, searches) = (TargetPages::new(targets), Searches::new(configurations));
    vec![
        Route::new("/api/taps", page.clone()),
        Route::new("/api/taps/", page),
        Route::new("/api/recent", recent.clone()),
        Route::new("/api/attributes", AttributesPage { recent, configurations: configurations.clone() }),
        Route::new("/api/preview", rehearsal),
        Route::new("/api/sample", SamplePage),
        Route::new("/api/talkers", TalkersPage(talkers.clone())),
        Route::new("/api/pages", pages.clone()),
        Route::new("/api/pages/", pages),
        Route::new("/api/searches", searches.clone()),
        Route::new("/api/searches/", searches),
        Route::new("/api/configuration", configurations.clone()),
        Route::new("/api/configuration/", configurations.clone()),
    ]
}

/// A static file.
#[derive(Debug)]
struct File {
    path: &'static str,
    content_type: &'static str,
    content: &'static str,
}

impl Page for File {
    /// A browser has to have the page before it can send a token.
    fn is_public(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        if asked.path != self.path {
            body.write_all(b"nothing is at this path; the page is at /, metrics are at /metrics\n").ok()?;
            return Some(Shown { status: StatusCode::NOT_FOUND, content_type: "text/plain; charset=utf-8" });
        }
        body.write_all(self.content.as_bytes()).ok()?;
        Some(Shown { status: StatusCode::OK, content_type: self.content_type })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_small() {
        assert!(FILES.iter().map(|(.., content)| content.len()).sum::<usize>() < 200 << 10);
    }

    /// Nobody pays for what is made on the way to their text.
    #[test]
    fn no_two_pages_of_the_admin_port_are_made_at_once() {
        for Route { path, page } in
            private_routes(&Onlookers::default(), &Configurations::default(), &TargetBoard::default())
        {
            assert!(page.makes_documents(), "{path}");
        }
    }

    /// It works behind a port-forward, without a network.
    #[test]
    fn the_files_name_no_other_host() {
        for (path, _, content) in FILES {
            assert!(!content.contains("//cdn") && !content.contains("https://"), "{path}");
        }
    }
}
