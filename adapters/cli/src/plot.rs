//! Pictures of numbers: horizontal bars per policy, the best on top, with the lower bound; and lines over time.

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::{Error, Result};
use crate::gantt::{self, Form};
use crate::text::number;

const WIDTH: u32 = 1000;
const BAR: u32 = 24;
const FONT: &str = "system-ui, Helvetica, Arial, sans-serif";

/// Height of a panel of lines.
const LINES: u32 = 320;
const COLOURS: [RGBColor; 3] = [RGBColor(68, 119, 170), RGBColor(34, 136, 51), RGBColor(170, 51, 119)];

/// Lines that share their axes.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) title: String,
    /// A line across, for what the others are compared with.
    pub(crate) level: Option<f64>,
    /// Name and points; at most three lines.
    pub(crate) lines: Vec<(&'static str, Vec<(f64, f64)>)>,
}

/// One group of bars.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    /// What the axis counts.
    pub(crate) measure: &'static str,
    /// Where the line of the lower bound stands.
    pub(crate) bound: Option<f64>,
    /// Policy, value, lowest and highest; the first on top.
    pub(crate) bars: Vec<(&'static str, f64, f64, f64)>,
}

impl Panel {
    fn height(&self) -> u32 {
        self.bars.len() as u32 * BAR + 110
    }
}

/// Draws all panels below each other.
///
/// # Errors
/// [`Error::Plot`].
pub(crate) fn draw(panels: &[Panel], form: Form) -> Result<String> {
    let mut svg = String::new();
    {
        let height = panels.iter().map(Panel::height).sum();
        let mut rest = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        rest.fill(&WHITE).map_err(failed)?;
        for panel in panels {
            let (area, below) = rest.split_vertically(panel.height());
            draw_panel(panel, &area).map_err(failed)?;
            rest = below;
        }
        rest.present().map_err(failed)?;
    }
    Ok(match form {
        Form::Svg => svg,
        Form::Html => gantt::embed("Comparison of policies", &svg),
    })
}

/// Draws all panels below each other; `measure` is what their lower axis counts.
///
/// # Errors
/// [`Error::Plot`].
pub(crate) fn draw_lines(title: &str, measure: &str, panels: &[Lines], form: Form) -> Result<String> {
    let mut svg = String::new();
    {
        let height = panels.len() as u32 * LINES;
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        for (panel, area) in panels.iter().zip(area.split_evenly((panels.len(), 1))) {
            draw_panel_of_lines(panel, measure, &area).map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(match form {
        Form::Svg => svg,
        Form::Html => gantt::embed(title, &svg),
    })
}

/// The smallest range that holds all values, with some room; never empty.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (low, high) = values
        .filter(|x| x.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    if low > high {
        return 0.0..1.0;
    }
    let room = if high > low { (high - low) * 0.08 } else { 0.5 };
    low - room..high + room
}

fn draw_panel_of_lines(panel: &Lines, measure: &str, area: &Area<'_>) -> Drawn {
    let points = || panel.lines.iter().flat_map(|line| line.1.iter().copied());
    let last = points().map(|p| p.0).fold(1.0, f64::max);
    let mut values = range(points().map(|p| p.1).chain(panel.level));
    let has_legend = panel.lines.len() > 1;
    if has_legend {
        // Room for it above the lines.
        values.end += 0.3 * (values.end - values.start);
    }
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 18))
        .margin(12)
        .margin_right(28) // half of the last number
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..last, values)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(218, 223, 229))
        .axis_style(RGBColor(140, 150, 160))
        .x_desc(measure)
        .x_label_formatter(&|x| number(*x))
        .y_label_formatter(&|y| number(*y))
        .label_style((FONT, 13))
        .draw()?;
    if let Some(level) = panel.level {
        let line = [(0.0, level), (last, level)];
        chart.draw_series([PathElement::new(line, RGBColor(194, 24, 91).stroke_width(1))])?;
    }
    for ((name, points), colour) in panel.lines.iter().zip(COLOURS) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    if has_legend {
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.85));
        legend.border_style(RGBColor(218, 223, 229)).label_font((FONT, 13)).draw()?;
    }
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Plot(error.to_string())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw_panel(panel: &Panel, area: &Area<'_>) -> Drawn {
    let count = i32::try_from(panel.bars.len())?;
    let highest = panel.bars.iter().map(|b| b.3).chain(panel.bound).fold(0.0, f64::max);
    let end = if highest > 0.0 { highest * 1.12 } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(130)
        .build_cartesian_2d(0.0..end, (0..count - 1).into_segmented())?;
    let name = |at: &SegmentValue<i32>| match at {
        // The axis counts upwards, the table downwards.
        SegmentValue::CenterOf(i) => {
            let bar = usize::try_from(count - 1 - i).ok().and_then(|i| panel.bars.get(i));
            bar.map_or(String::new(), |bar| bar.0.to_owned())
        }
        _ => String::new(),
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(218, 223, 229))
        .axis_style(RGBColor(140, 150, 160))
        .x_desc(panel.measure)
        .x_labels(8)
        .x_label_formatter(&|x| number(*x))
        .y_labels(panel.bars.len().max(2))
        .y_label_formatter(&name)
        .label_style((FONT, 13))
        .draw()?;
    for (row, (_, value, low, high)) in (0..count).rev().zip(&panel.bars) {
        let (above, below) = (SegmentValue::Exact(row + 1), SegmentValue::Exact(row));
        let colour = if row == count - 1 { RGBColor(34, 136, 51) } else { RGBColor(68, 119, 170) };
        let mut bar = Rectangle::new([(0.0, below), (*value, above)], colour.filled());
        bar.set_margin(3, 3, 0, 0);
        chart.draw_series([bar])?;
        let middle = SegmentValue::CenterOf(row);
        let whisker = [(*low, middle.clone()), (*high, middle.clone())];
        if high > low {
            chart.draw_series([PathElement::new(whisker, BLACK.mix(0.7).stroke_width(2))])?;
        }
        let text =
            EmptyElement::at((high.max(*value), middle)) + Text::new(number(*value), (6, -6), (FONT, 12));
        chart.draw_series([text])?;
    }
    if let Some(bound) = panel.bound {
        let line = [(bound, SegmentValue::Exact(0)), (bound, SegmentValue::Exact(count))];
        chart.draw_series([PathElement::new(line, RGBColor(194, 24, 91).stroke_width(2))])?;
    }
    Ok(())
}
