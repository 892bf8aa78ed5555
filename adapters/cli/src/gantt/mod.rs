//! Gantt charts: who runs what when, as one SVG picture or one HTML page that needs no network.

mod chart;
mod html;
mod svg;

pub(crate) use chart::Chart;

use std::path::Path;

use crate::error::{Error, Result};

/// The two forms of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Svg,
    Html,
}

impl Form {
    /// The form of a file with this extension.
    ///
    /// # Errors
    /// [`Error::Usage`] for any other extension.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("html" | "htm") => Ok(Self::Html),
            _ => {
                let path = path.display();
                Err(Error::Usage(format!("{path}: the extension names no picture; use .svg or .html")))
            }
        }
    }
}

/// Draws a chart.
pub(crate) fn draw(chart: &Chart, form: Form) -> String {
    match form {
        Form::Svg => svg::draw(chart),
        Form::Html => html::page(&chart.title, &svg::draw(chart)),
    }
}

pub(crate) use html::embed;
