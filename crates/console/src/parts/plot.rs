//! Lines over time as SVG, drawn on the server.

use maud::{Markup, Render, html};

/// The size of the drawing area, in its own units; it is stretched to its column.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;

/// A plot of lines over the same points in time, oldest first.
#[derive(Debug)]
pub struct Plot {
    title: String,
    unit: &'static str,
    lines: Vec<(String, Vec<Option<f64>>)>,
    /// What the left and the right end are: `30 min ago`, `now`.
    ends: (String, String),
}

impl Plot {
    /// A plot of values in `unit`.
    pub fn new(title: &str, unit: &'static str) -> Plot {
        Plot { title: title.to_owned(), unit, lines: Vec::new(), ends: (String::new(), "now".to_owned()) }
    }

    /// Adds a line. `None`: there is no value at this point.
    pub fn line(mut self, name: &str, values: Vec<Option<f64>>) -> Plot {
        self.lines.push((name.to_owned(), values));
        self
    }

    /// Names the left end.
    pub fn since(mut self, text: &str) -> Plot {
        self.ends.0 = text.to_owned();
        self
    }
}

/// The largest value, at least a little more than nothing.
fn largest<'a>(lines: impl IntoIterator<Item = &'a [Option<f64>]>) -> f64 {
    lines.into_iter().flatten().flatten().copied().fold(0.0, f64::max)
}

/// A round number above `value`: 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 || !value.is_finite() {
        return 1.0;
    }
    let power = 10f64.powi(value.log10().floor() as i32);
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|top| *top >= value).unwrap_or(10.0 * power)
}

/// The points of a line, broken where there is no value.
fn path(values: &[Option<f64>], top: f64, width: f64, height: f64) -> String {
    let step = width / (values.len().max(2) - 1) as f64;
    let mut path = String::new();
    let mut drawing = false;
    for (index, value) in values.iter().enumerate() {
        match value {
            Some(value) => {
                let (x, y) = (index as f64 * step, height - (value / top).clamp(0.0, 1.0) * height);
                path.push_str(&format!("{}{x:.1} {y:.1}", if drawing { "L" } else { "M" }));
                drawing = true;
            }
            None => drawing = false,
        }
    }
    path
}

/// A number for an axis.
pub fn short(value: f64) -> String {
    match value {
        _ if value >= 1e9 => format!("{:.1}G", value / 1e9),
        _ if value >= 1e6 => format!("{:.1}M", value / 1e6),
        _ if value >= 1e4 => format!("{:.1}k", value / 1e3),
        _ if value >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        _ if value >= 0.1 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

impl Render for Plot {
    fn render(&self) -> Markup {
        let top = round_up(largest(self.lines.iter().map(|(_, values)| values.as_slice())));
        let last = |values: &[Option<f64>]| values.iter().rev().flatten().next().copied();
        html! {
            figure.plot {
                figcaption {
                    span.name { (self.title) }
                    @for (index, (name, values)) in self.lines.iter().enumerate() {
                        span.legend.(format!("line-{index}")) { (name) " " b { (last(values).map_or("–".into(), short)) " " (self.unit) } }
                    }
                }
                span.top { (short(top)) " " (self.unit) }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(self.title) {
                    @for part in 1..4 {
                        @let y = HEIGHT * f64::from(part) / 4.0;
                        line.grid x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                    }
                    @for (index, (_, values)) in self.lines.iter().enumerate() {
                        path.(format!("line-{index}")) d=(path(values, top, WIDTH, HEIGHT - 2.0)) transform="translate(0 1)" fill="none" {}
                    }
                }
                div.ends { span { (self.ends.0) } span { (self.ends.1) } }
            }
        }
    }
}

/// A line in a table's cell, without axes.
pub fn sparkline(label: &str, values: &[Option<f64>]) -> Markup {
    let top = largest([values]).max(f64::MIN_POSITIVE);
    html! {
        svg.spark viewBox="0 0 80 20" width="80" height="20" role="img" aria-label=(label) {
            path.line-0 d=(path(values, top, 80.0, 18.0)) transform="translate(0 1)" fill="none" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gap breaks the line; the top of the axis is a round number above the largest value.
    #[test]
    fn lines_have_gaps_and_round_axes() {
        assert_eq!(path(&[Some(0.0), Some(10.0), None, Some(5.0)], 10.0, 30.0, 10.0), "M0.0 10.0L10.0 0.0M30.0 5.0");
        for (value, top) in [(0.0, 1.0), (0.3, 0.5), (1.0, 1.0), (3.2, 5.0), (73.0, 100.0), (1_900.0, 2_000.0)] {
            assert!((round_up(value) - top).abs() < 1e-9, "{value}");
        }
    }
}
