//! A chart as one SVG picture, with its own style for light and dark surroundings.
//!
//! The picture reads without scripts: names and times are tooltips of the bars. The page of [`super::html`] finds
//! what it needs in `data-` attributes. O(bars).

use std::fmt::Write as _;

use super::chart::{Bar, Chart};
use crate::text::number;

/// Width of the whole picture.
const WIDTH: f64 = 1200.0;
/// Free space at the right edge.
const RIGHT: f64 = 24.0;
/// Height of the axis below the rows.
const AXIS: f64 = 42.0;
/// Mean width of a letter at size 11.
const LETTER: f64 = 6.5;
/// Most entries of the legend.
const LEGEND: usize = 24;
/// Space between two bars, and between a row's edge and its bars.
const GAP: f64 = 1.5;

const STYLE: &str = include_str!("gantt.css");

/// Colours that stay apart for all kinds of sight (after Paul Tol's bright and light schemes); beyond them, hues
/// at the golden angle.
const COLOURS: [&str; 12] = [
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee8866", "#77aadd", "#44bb99",
    "#bbcc33", "#ffaabb", "#99ddff",
];

/// Draws the picture.
pub(super) fn draw(chart: &Chart) -> String {
    let layout = Layout::new(chart);
    let mut svg = String::with_capacity(4096 + chart.bars.len() * 220);
    layout.open(chart, &mut svg);
    layout.rows(chart, &mut svg);
    layout.bars(chart, &mut svg);
    layout.marks(chart, &mut svg);
    layout.legend(chart, &mut svg);
    svg += "</svg>\n";
    svg
}

/// Where everything stands.
struct Layout {
    left: f64,
    width: f64,
    top: f64,
    bottom: f64,
    lane: f64,
    /// Upper edge of every node's row, and the lower edge of the last.
    rows: Vec<f64>,
    /// Seconds at the right edge; more than 0.
    end: f64,
    legend: Vec<(usize, f64, f64)>,
    legend_top: f64,
    height: f64,
}

impl Layout {
    fn new(chart: &Chart) -> Self {
        let longest = chart.nodes.iter().map(|n| n.chars().count()).max().unwrap_or(0);
        let left = 32.0 + LETTER * longest.clamp(4, 24) as f64;
        let lanes: usize = chart.lanes.iter().sum();
        let lane = match lanes {
            0..=16 => 28.0,
            17..=48 => 20.0,
            49..=160 => 12.0,
            161..=600 => 6.0,
            _ => 3.0,
        };
        let top = 76.0;
        let mut rows = vec![top];
        for lanes in &chart.lanes {
            let above = rows[rows.len() - 1];
            rows.push(above + *lanes as f64 * lane + if lane > 6.0 { 4.0 } else { 1.0 });
        }
        let bottom = rows[rows.len() - 1];
        let last = chart.makespan().max(chart.bound);
        let end = if last > 0.0 { last * 1.02 } else { 1.0 };
        let (legend, below) = place_legend(chart, bottom + AXIS + 14.0);
        let (width, legend_top) = (WIDTH - left - RIGHT, bottom + AXIS);
        Self { left, width, top, bottom, lane, rows, end, legend, legend_top, height: below + 12.0 }
    }

    fn x(&self, seconds: f64) -> f64 {
        self.left + seconds / self.end * self.width
    }

    fn open(&self, chart: &Chart, svg: &mut String) {
        let (title, subtitle) = (escape(&chart.title), escape(&chart.subtitle));
        _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"gantt\" viewBox=\"0 0 {WIDTH} {:.0}\" \
             width=\"{WIDTH}\" height=\"{:.0}\" role=\"img\" data-left=\"{:.2}\" data-width=\"{:.2}\" \
             data-top=\"{:.2}\" data-bottom=\"{:.2}\" data-end=\"{}\">\n<title>{title}</title>\n\
             <style>{STYLE}{}</style>\n\
             <defs><clipPath id=\"plot\"><rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\"/></clipPath>\
             </defs>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
             <text class=\"title\" x=\"20\" y=\"32\">{title}</text>\n\
             <text class=\"subtitle\" x=\"20\" y=\"52\">{subtitle}</text>",
            self.height,
            self.height,
            self.left,
            self.width,
            self.top,
            self.bottom,
            self.end,
            colours(chart.kinds.len()),
            self.left,
            self.top - 6.0,
            self.width + 1.0,
            self.bottom - self.top + 6.0,
        );
    }

    /// Bands, names of nodes, grid and axis.
    fn rows(&self, chart: &Chart, svg: &mut String) {
        let mut last_name = f64::NEG_INFINITY;
        for (i, edges) in self.rows.windows(2).enumerate() {
            let (y, height) = (edges[0], edges[1] - edges[0]);
            let band = if i % 2 == 0 { "band" } else { "band odd" };
            _ = writeln!(
                svg,
                "<rect class=\"{band}\" x=\"{:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{height:.2}\"/>",
                self.left, self.width
            );
            let middle = y + height / 2.0;
            if middle - last_name >= 12.0 {
                last_name = middle;
                let name = escape(&shorten(&chart.nodes[i], 24));
                _ = writeln!(
                    svg,
                    "<text class=\"node\" x=\"{:.2}\" y=\"{:.2}\">{name}</text>",
                    self.left - 10.0,
                    middle + 4.0
                );
            }
        }
        svg.push_str("<g class=\"axis\">\n");
        for (seconds, label) in ticks(self.end) {
            let x = self.x(seconds);
            _ = writeln!(
                svg,
                "<path d=\"M{x:.2} {:.2}V{:.2}\"/><text x=\"{x:.2}\" y=\"{:.2}\">{label}</text>",
                self.top,
                self.bottom + 5.0,
                self.bottom + 18.0
            );
        }
        _ = writeln!(
            svg,
            "</g>\n<text class=\"unit\" x=\"{:.2}\" y=\"{:.2}\">seconds</text>",
            self.left + self.width,
            self.bottom + 34.0
        );
    }

    fn bars(&self, chart: &Chart, svg: &mut String) {
        svg.push_str("<g clip-path=\"url(#plot)\">\n<g class=\"bars\">\n");
        for bar in &chart.bars {
            self.bar(chart, bar, svg);
        }
        svg.push_str("</g>\n<g class=\"labels\">\n");
        for bar in chart.bars.iter().filter(|_| self.lane >= 12.0) {
            self.label(chart, bar, svg);
        }
        svg.push_str("</g>\n</g>\n");
    }

    /// Upper edge and height of a bar.
    fn span(&self, bar: &Bar) -> (f64, f64) {
        let gap = if self.lane > 6.0 { GAP } else { 0.25 };
        let inset = if self.lane > 6.0 { 2.0 } else { 0.5 };
        (self.rows[bar.node.index()] + inset + bar.lane as f64 * self.lane + gap, self.lane - 2.0 * gap)
    }

    fn bar(&self, chart: &Chart, bar: &Bar, svg: &mut String) {
        let (y, height) = self.span(bar);
        let x = self.x(bar.start);
        let width = (self.x(bar.finish) - x).max(0.8);
        let failed = if bar.failed { " failed" } else { "" };
        let round = if height > 8.0 { " rx=\"2\"" } else { "" };
        _ = write!(
            svg,
            "<rect class=\"bar k{}{failed}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" \
             height=\"{height:.2}\"{round}><title>{}\n{}{} on {}\n{} \u{2013} {} s ({} s)</title></rect>\n",
            bar.kind.index(),
            escape(&chart.tasks[bar.task.index()]),
            escape(&chart.kinds[bar.kind.index()]),
            if bar.failed { ", failed" } else { "" },
            escape(&chart.nodes[bar.node.index()]),
            number(bar.start),
            number(bar.finish),
            number(bar.finish - bar.start),
        );
    }

    /// The task's name, if it fits into its bar.
    fn label(&self, chart: &Chart, bar: &Bar, svg: &mut String) {
        let (x, (y, height)) = (self.x(bar.start), self.span(bar));
        let room = ((self.x(bar.finish) - x - 8.0) / LETTER).max(0.0) as usize;
        let name = &chart.tasks[bar.task.index()];
        if room >= name.chars().count().min(7) {
            _ = writeln!(
                svg,
                "<text class=\"i{}\" x=\"{:.2}\" y=\"{:.2}\">{}</text>",
                bar.kind.index(),
                x + 5.0,
                y + height / 2.0 + 3.8,
                escape(&shorten(name, room))
            );
        }
    }

    /// Lines at the lower bound and at the end, with their labels above the rows.
    fn marks(&self, chart: &Chart, svg: &mut String) {
        let makespan = chart.makespan();
        let mut mark = |class: &str, seconds: f64, anchor: &str, label: String| {
            let x = self.x(seconds);
            let shift = if anchor == "end" { -5.0 } else { 5.0 };
            _ = writeln!(
                svg,
                "<g class=\"mark {class}\" data-x=\"{x:.2}\" transform=\"translate({x:.2} 0)\">\
                 <path d=\"M0 {:.2}V{:.2}\"/><text x=\"{shift}\" y=\"{:.2}\" text-anchor=\"{anchor}\">{label}</text></g>",
                self.top - 14.0,
                self.bottom,
                self.top - 6.0
            );
        };
        let met = (makespan - chart.bound).abs() <= 1e-9 * makespan.max(1.0);
        if met {
            return mark("end", makespan, "end", format!("{} s, the lower bound", number(makespan)));
        }
        if chart.bound > 0.0 {
            mark("bound", chart.bound, "end", format!("lower bound {} s", number(chart.bound)));
        }
        // Both labels stand on the outer sides of their lines when these are close.
        let close = self.x(makespan) - self.x(chart.bound) < 120.0;
        let room = WIDTH - self.x(makespan) > 80.0;
        let anchor = if close && room { "start" } else { "end" };
        if !close || room {
            mark("end", makespan, anchor, format!("{} s", number(makespan)));
        } else {
            mark("end", makespan, "end", String::new());
        }
    }

    fn legend(&self, chart: &Chart, svg: &mut String) {
        for (kind, x, y) in &self.legend {
            let name = escape(&shorten(&chart.kinds[*kind], 28));
            _ = writeln!(
                svg,
                "<g class=\"key\" data-kind=\"{kind}\"><rect class=\"k{kind}\" x=\"{x:.2}\" y=\"{:.2}\" width=\"12\" \
                 height=\"12\" rx=\"2\"/><text x=\"{:.2}\" y=\"{y:.2}\">{name}</text></g>",
                y - 10.0,
                x + 18.0
            );
        }
        if chart.kinds.len() > LEGEND {
            let more = chart.kinds.len() - LEGEND;
            let y = self.legend_top;
            _ = writeln!(svg, "<text class=\"subtitle\" x=\"20\" y=\"{y:.2}\">and {more} more kinds</text>");
        }
    }
}

/// Places of the legend's entries, and the line below which the picture may end.
fn place_legend(chart: &Chart, mut y: f64) -> (Vec<(usize, f64, f64)>, f64) {
    let (mut x, mut places) = (20.0, Vec::new());
    for (kind, name) in chart.kinds.iter().enumerate().take(LEGEND) {
        let width = 42.0 + LETTER * name.chars().count().min(28) as f64;
        if x + width > WIDTH - 20.0 && x > 20.0 {
            (x, y) = (20.0, y + 20.0);
        }
        places.push((kind, x, y));
        x += width;
    }
    (places, y)
}

/// One rule per kind: the colour of its bars and of the text on them.
fn colours(kinds: usize) -> String {
    let mut style = String::new();
    for kind in 0..kinds {
        let (red, green, blue) = colour(kind);
        let luminance = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
        let ink = if luminance > 140.0 { "#15181d" } else { "#ffffff" };
        _ = write!(style, ".k{kind}{{fill:#{red:02x}{green:02x}{blue:02x}}}.gantt .i{kind}{{fill:{ink}}}");
    }
    style
}

/// The colour of a kind: the same in every chart of one workflow.
fn colour(kind: usize) -> (u8, u8, u8) {
    if let Some(hex) = COLOURS.get(kind).and_then(|c| u32::from_str_radix(&c[1..], 16).ok()) {
        return ((hex >> 16) as u8, (hex >> 8) as u8, hex as u8);
    }
    let hue = (kind as f64 * 137.508) % 360.0;
    let (saturation, lightness) = (0.45 + 0.15 * (kind % 3) as f64, 0.45 + 0.1 * (kind % 4) as f64);
    let amplitude = saturation * lightness.min(1.0 - lightness);
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        ((lightness - amplitude * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)) * 255.0).round() as u8
    };
    (channel(0.0), channel(8.0), channel(4.0))
}

/// Round times from 0 to `end`, with labels: steps of 1, 2 or 5 times a power of ten, at most 12 of them.
fn ticks(end: f64) -> Vec<(f64, String)> {
    let power = 10_f64.powf((end / 10.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| end / s <= 12.0);
    let step = step.unwrap_or(end);
    let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
    (0..=(end / step) as usize)
        .map(|i| (i as f64 * step, format!("{:.decimals$}", i as f64 * step)))
        .collect()
}

/// At most `room` characters, the last an ellipsis if some are left out.
fn shorten(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['\u{2026}']).collect()
}

/// Text as XML content; characters that XML does not have become replacement marks.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |end: f64| ticks(end).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(
            labels(1.0),
            ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]
        );
        assert_eq!(labels(81.6), ["0", "10", "20", "30", "40", "50", "60", "70", "80"]);
        for end in [1e-9, 3e-4, 0.5, 7.0, 999.0, 123_456.0, 1e15] {
            assert!((4..=13).contains(&ticks(end).len()), "{end}: {}", ticks(end).len());
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a & \"b\">\u{1}\n"), "&lt;a &amp; &quot;b&quot;&gt;\u{fffd} ");
        assert_eq!(shorten("alignment", 5), "alig\u{2026}");
    }

    #[test]
    fn kinds_have_colours_of_their_own() {
        let colours: std::collections::BTreeSet<_> = (0..40).map(colour).collect();
        assert_eq!(colours.len(), 40);
    }
}
