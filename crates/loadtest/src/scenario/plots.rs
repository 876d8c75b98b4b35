//! The plots of a report: how a test went over time, or over a number of clients.

use super::course::{Course, Points};
use super::judgement::{Judgement, Kpis};
use crate::report::{Across, Band, Line, Plot};

/// The plots of a test. `items` are what is counted.
pub(crate) fn of(judgements: &[Judgement], items: &str) -> Vec<Plot> {
    match judgements.iter().map(clients).collect::<Option<Vec<f64>>>() {
        Some(clients) if !clients.is_empty() => over_clients(judgements, &clients, items),
        _ => over_time(judgements, items),
    }
}

/// One kind of lines of all systems: a figure of a course, what it is called behind the system, and whether it is dashed.
type Kind = (fn(&Course) -> &Points, &'static str, bool);

fn over_time(judgements: &[Judgement], items: &str) -> Vec<Plot> {
    let bands = bands(judgements);
    let plot = |title: &str, unit: &str, kinds: &[Kind]| Plot {
        title: title.to_owned(),
        unit: unit.to_owned(),
        across: Across::Time,
        lines: lines(judgements, kinds),
        bands: bands.clone(),
    };
    let per_s = format!("{items}/s");
    let mut plots = vec![
        plot(
            "Rate",
            &per_s,
            &[
                (|course| &course.accepted_per_s, " accepted", true),
                (|course| &course.delivered_per_s, " delivered", false),
            ],
        ),
        plot("Memory", "MB", &[(|course| &course.memory_mb, "", false)]),
        plot("CPU", "cores", &[(|course| &course.cpu_cores, "", false)]),
        plot("Pending", items, &[(|course| &course.pending, "", false)]),
        plot(
            "Delivery latency",
            "ms",
            &[(|course| &course.latency_ms_p50, " p50", true), (|course| &course.latency_ms_p99, " p99", false)],
        ),
    ];
    // A lock and an empty journal are no news.
    let disk = plot("Data on disk", "MB", &[(|course| &course.disk_mb, "", false)]);
    plots.extend(Some(disk).filter(|disk| disk.lines.iter().flat_map(|line| &line.points).any(|point| point.1 >= 1.0)));
    plots
}

fn lines(judgements: &[Judgement], kinds: &[Kind]) -> Vec<Line> {
    let line = |(colour, judgement): (usize, &Judgement)| {
        let each = kinds.iter().map(move |(points, suffix, dashed)| Line {
            label: format!("{}{suffix}", judgement.label),
            colour,
            dashed: *dashed,
            points: points(&judgement.course).clone(),
        });
        each.filter(|line| !line.points.is_empty()).collect::<Vec<_>>()
    };
    judgements.iter().enumerate().flat_map(line).collect()
}

/// When backends were away, and when there was no load any more.
fn bands(judgements: &[Judgement]) -> Vec<Band> {
    let courses = || judgements.iter().map(|judgement| &judgement.course);
    let away = courses().find_map(|course| course.away);
    let away = away.map(|(from, to)| Band { label: "backends away".to_owned(), calm: false, from, to });
    let load_ends = courses().map(|course| course.load_ends).fold(0.0, f64::max);
    let ends = courses().filter_map(|course| course.memory_mb.last()).map(|point| point.0).fold(0.0, f64::max);
    // Less than that cannot be seen.
    let settles = load_ends > 0.0 && ends - load_ends > ends / 50.0;
    let settling = settles.then(|| Band { label: "load has ended".to_owned(), calm: true, from: load_ends, to: ends });
    away.into_iter().chain(settling).collect()
}

/// Of the part `5 x 10` of a matrix: the product.
fn clients(judgement: &Judgement) -> Option<f64> {
    let (workers, replicas) = judgement.kpis.part.as_deref()?.split_once(" x ")?;
    Some(workers.parse::<f64>().ok()? * replicas.parse::<f64>().ok()?)
}

fn over_clients(judgements: &[Judgement], clients: &[f64], items: &str) -> Vec<Plot> {
    let mut systems: Vec<&str> = judgements.iter().map(|judgement| judgement.kpis.system.as_str()).collect();
    systems.dedup();
    let plot = |title: &str, unit: &str, figure: fn(&Kpis) -> f64| {
        let line = |(colour, system): (usize, &&str)| {
            let of_system = judgements.iter().zip(clients).filter(|(judgement, _)| judgement.kpis.system == **system);
            let mut points: Points =
                of_system.map(|(judgement, clients)| (*clients, figure(&judgement.kpis))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Line { label: (*system).to_owned(), colour, dashed: false, points }
        };
        Plot {
            title: title.to_owned(),
            unit: unit.to_owned(),
            across: Across::Clients,
            lines: systems.iter().enumerate().map(line).collect(),
            bands: Vec::new(),
        }
    };
    vec![
        plot("Accepted", &format!("{items}/s"), |kpis| kpis.accepted_per_s),
        plot("Memory at most", "MB", |kpis| kpis.memory_mb_peak),
        plot("CPU", "cores", |kpis| kpis.cpu_cores),
        plot("Delivery latency, p99", "ms", |kpis| kpis.latency_ms_p99),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(system: &str, part: Option<&str>) -> Judgement {
        let course = Course {
            load_ends: 10.0,
            away: Some((2.0, 4.0)),
            memory_mb: vec![(0.0, 5.0), (20.0, 6.0)],
            delivered_per_s: vec![(0.5, 100.0)],
            ..Course::default()
        };
        let kpis = Kpis { system: system.to_owned(), part: part.map(str::to_owned), ..Kpis::default() };
        Judgement { label: system.to_owned(), kpis, course, ..Judgement::default() }
    }

    #[test]
    fn systems_share_plots_and_what_happened_is_shaded() {
        let plots = of(&[judgement("weir", None), judgement("otelcol", None)], "spans");
        let rate: Vec<(&str, usize)> = plots[0].lines.iter().map(|line| (line.label.as_str(), line.colour)).collect();
        assert_eq!(rate, [("weir delivered", 0), ("otelcol delivered", 1)], "nobody counted what was accepted");
        let bands: Vec<(&str, f64, f64)> =
            plots[1].bands.iter().map(|band| (band.label.as_str(), band.from, band.to)).collect();
        assert_eq!(bands, [("backends away", 2.0, 4.0), ("load has ended", 10.0, 20.0)]);
        assert!(plots.iter().all(|plot| plot.title != "Data on disk"), "there was none");
    }

    #[test]
    fn a_matrix_goes_over_its_clients() {
        let cells = ["1 x 1", "5 x 5", "5 x 1"].map(|part| judgement("weir", Some(part)));
        let plots = of(&cells, "records");
        let across: Vec<f64> = plots[0].lines[0].points.iter().map(|point| point.0).collect();
        assert_eq!((plots[0].across, across), (Across::Clients, vec![1.0, 5.0, 25.0]));
        assert_eq!(of(&[judgement("weir", Some("alone"))], "spans")[0].across, Across::Time);
    }
}
