//! Plots over time, or over a number of clients, as SVG that needs nothing else.

use std::fmt::Write;

use super::axis::{self, Ticks};
use super::html::escape;

/// Lines over the same axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plot {
    pub(crate) title: String,
    /// Of the vertical axis.
    pub(crate) unit: String,
    pub(crate) across: Across,
    pub(crate) lines: Vec<Line>,
    pub(crate) bands: Vec<Band>,
}

/// The horizontal axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Across {
    /// Seconds since the measured time began.
    #[default]
    Time,
    /// A number of clients.
    Clients,
}

/// Points in order; a pause between two of them that is longer than usual is a gap.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) label: String,
    /// Lines of one system have one colour.
    pub(crate) colour: usize,
    pub(crate) dashed: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A time in which something was different.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Band {
    pub(crate) label: String,
    /// Whether nothing was wrong in it.
    pub(crate) calm: bool,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// How many colours there are; more lines than that share them.
const COLOURS: usize = 6;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
/// Space around the field for labels.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 38.0;
const STEPS_UP: u32 = 5;
const STEPS_ACROSS: u32 = 8;

impl Plot {
    /// Whether there is anything to be seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.is_empty())
    }

    /// Where its points end, if it goes over time.
    pub(crate) fn ends(&self) -> f64 {
        let points = self.lines.iter().flat_map(|line| &line.points).map(|point| point.0);
        let ends = points.chain(self.bands.iter().map(|band| band.to)).fold(0.0, f64::max);
        if self.across == Across::Time { ends } else { 0.0 }
    }

    /// A figure of HTML: of each line at most so many points, and times at least until `end`.
    pub(crate) fn render(&self, most_points: usize, end: f64) -> String {
        let lines: Vec<Line> =
            self.lines.iter().map(|line| Line { points: thinned(&line.points, most_points), ..line.clone() }).collect();
        let field = Field::around(&lines, self.across, self.ends().max(end));
        let mut out = format!("<figure>\n<figcaption>{}, {}</figcaption>\n", escape(&self.title), escape(&self.unit));
        out.push_str(&legend(&self.lines));
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}, {}\">",
            escape(&self.title),
            escape(&self.unit)
        );
        self.bands.iter().for_each(|band| field.draw_band(&mut out, band));
        field.draw_axes(&mut out, self.across);
        let gaps = self.across == Across::Time;
        lines.iter().for_each(|line| field.draw_line(&mut out, line, gaps));
        out.push_str("</svg>\n</figure>\n");
        out
    }
}

fn legend(lines: &[Line]) -> String {
    let item = |line: &Line| {
        let dash = if line.dashed { " dashed" } else { "" };
        format!("<li><i class=\"c{}{dash}\"></i>{}</li>", line.colour % COLOURS, escape(&line.label))
    };
    format!("<ul class=\"legend\">{}</ul>\n", lines.iter().map(item).collect::<String>())
}

/// Neighbours are joined to their mean until few enough are left.
fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let together = points.len().div_ceil(most.max(1)).max(1);
    #[expect(clippy::cast_precision_loss, reason = "numbers of points are small")]
    let mean = |group: &[(f64, f64)]| {
        let (x, y) = group.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
        (x / group.len() as f64, y / group.len() as f64)
    };
    points.chunks(together).map(mean).collect()
}

/// Where points are drawn.
struct Field {
    across: Ticks,
    up: Ticks,
    /// Where the horizontal axis ends, which may be before its last tick.
    end: f64,
}

impl Field {
    fn around(lines: &[Line], across: Across, until: f64) -> Self {
        let points = || lines.iter().flat_map(|line| &line.points);
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        let last = match across {
            Across::Time => until,
            Across::Clients => points().map(|point| point.0).fold(0.0, f64::max),
        };
        let end = if last > 0.0 { last } else { 1.0 };
        let ticks = match across {
            Across::Time => Ticks::of_time(end, STEPS_ACROSS),
            Across::Clients => Ticks::up_to(end, STEPS_ACROSS),
        };
        Self { across: ticks, up: Ticks::up_to(top, STEPS_UP), end }
    }

    fn x(&self, value: f64) -> f64 {
        LEFT + value.clamp(0.0, self.end) / self.end * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value.clamp(0.0, self.up.end()) / self.up.end() * (HEIGHT - TOP - BOTTOM)
    }

    fn draw_axes(&self, out: &mut String, across: Across) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for value in self.up.values() {
            let y = self.y(value);
            let label = axis::short(value, self.up);
            let _ = write!(out, "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>");
            let _ = writeln!(out, "<text class=\"up\" x=\"{}\" y=\"{:.1}\">{label}</text>", LEFT - 6.0, y + 3.5);
        }
        for value in self.across.values().filter(|value| *value <= self.end * 1.000_001) {
            let x = self.x(value);
            let label = match across {
                Across::Time => axis::time(value, self.across),
                Across::Clients => axis::short(value, self.across),
            };
            let _ = write!(
                out,
                "<line class=\"tick\" x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{}\"/>",
                bottom + 4.0
            );
            let _ = writeln!(out, "<text class=\"across\" x=\"{x:.1}\" y=\"{}\">{label}</text>", bottom + 15.0);
        }
        let unit = match across {
            Across::Time => format!("time, {}", axis::time_unit(self.across)),
            Across::Clients => "clients".to_owned(),
        };
        let _ = write!(out, "<line class=\"tick\" x1=\"{LEFT}\" y1=\"{bottom}\" x2=\"{right}\" y2=\"{bottom}\"/>");
        let _ = writeln!(out, "<text class=\"end\" x=\"{right}\" y=\"{}\">{unit}</text>", bottom + 30.0);
    }

    fn draw_band(&self, out: &mut String, band: &Band) {
        let (from, to) = (self.x(band.from), self.x(band.to));
        let height = HEIGHT - TOP - BOTTOM;
        let calm = if band.calm { " calm" } else { "" };
        let _ = write!(
            out,
            "<rect class=\"band{calm}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{height}\"/>",
            (to - from).max(1.0)
        );
        let _ =
            writeln!(out, "<text class=\"note\" x=\"{from:.1}\" y=\"{}\">{}</text>", TOP - 7.0, escape(&band.label));
    }

    fn draw_line(&self, out: &mut String, line: &Line, gaps: bool) {
        let class = format!("c{}{}", line.colour % COLOURS, if line.dashed { " dashed" } else { "" });
        for piece in pieces(&line.points, gaps) {
            if let [(x, y)] = piece {
                let _ = writeln!(
                    out,
                    "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
                    self.x(*x),
                    self.y(*y)
                );
                continue;
            }
            let points: Vec<String> =
                piece.iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
            let _ = writeln!(out, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
        }
    }
}

/// A pause of so many usual ones is a gap.
const GAP: f64 = 5.0;

/// The line without its gaps, if it has any.
fn pieces(points: &[(f64, f64)], gaps: bool) -> impl Iterator<Item = &[(f64, f64)]> {
    let mut pauses: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    pauses.sort_unstable_by(f64::total_cmp);
    let gap = pauses.get(pauses.len() / 2).map_or(f64::MAX, |usual| usual * GAP);
    points.chunk_by(move |a, b| !gaps || b.0 - a.0 <= gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> Plot {
        let line = Line { label: "weir <1>".to_owned(), points, ..Line::default() };
        Plot { title: "Memory & more".to_owned(), unit: "MB".to_owned(), lines: vec![line], ..Plot::default() }
    }

    #[test]
    fn points_stand_where_their_values_are() {
        let svg = plot(vec![(0.0, 0.0), (5.0, 50.0), (10.0, 100.0)]).render(100, 0.0);
        assert!(svg.contains("<polyline class=\"c0\" points=\"64.0,202.0 345.0,112.0 626.0,22.0\"/>"), "{svg}");
        assert!(svg.contains(">100</text>") && svg.contains(">10</text>") && svg.contains(">time, s</text>"), "{svg}");
        assert!(svg.contains("Memory &amp; more") && svg.contains("weir &lt;1&gt;") && !svg.contains("<1>"));
    }

    #[test]
    fn a_gap_is_not_drawn_over_and_a_single_point_is_seen() {
        let line: Vec<(f64, f64)> = [0.0, 1.0, 2.0, 20.0].map(|x| (x, 1.0)).into();
        let svg = plot(line).render(100, 0.0);
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (1, 1), "{svg}");
        assert!(plot(Vec::new()).is_empty());
    }

    #[test]
    fn many_points_become_few_with_the_same_mean() {
        let many: Vec<(f64, f64)> = (0..1000).map(|x| (f64::from(x), f64::from(x % 2))).collect();
        let few = thinned(&many, 100);
        assert_eq!(few.len(), 100);
        assert!(few.iter().all(|(_, y)| (*y - 0.5).abs() < 1e-9));
        assert_eq!(thinned(&many[..3], 100), many[..3]);
    }

    #[test]
    fn a_band_has_its_label() {
        let band = Band { label: "backend away".to_owned(), calm: false, from: 2.0, to: 6.0 };
        let svg = Plot { bands: vec![band], ..plot(vec![(0.0, 1.0), (8.0, 2.0)]) }.render(10, 0.0);
        assert!(svg.contains("class=\"band\" x=\"204.5\"") && svg.contains(">backend away</text>"), "{svg}");
    }
}
