//! Writes SVG: a few elements, one style sheet for light and dark, and the places of all texts.
//!
//! The fonts of a reader are unknown, so widths are estimated, on the wide side. The estimated boxes are kept, so that a
//! test finds texts that overlap or leave the drawing.

use std::fmt::Write as _;

/// Colours are classes, and every class has a colour for both themes. The background is painted: a page may be light
/// where the system is dark. Texts have a border in its colour, so that lines do not cross them.
const STYLE: &str = "\
text { font: 12px system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif; fill: #24292f; \
font-variant-numeric: tabular-nums; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round }
.title { font-weight: 600; font-size: 15px } .heading { font-weight: 600 } .muted { fill: #57606a }
.small { font-size: 11px; fill: #57606a } .page { fill: #ffffff } .grid { stroke: #d8dee4; stroke-width: 1 }
.limit { stroke: #57606a; stroke-width: 1; stroke-dasharray: 4 3 }
.own, .a { fill: #d9480f; stroke: #d9480f } .b { fill: #0969da; stroke: #0969da }
.c { fill: #1a7f37; stroke: #1a7f37 } .d { fill: #8250df; stroke: #8250df }
.peer { fill: #8c959f; stroke: #8c959f } .reference { fill: #ffffff; stroke: #8c959f }
.whisker { stroke-width: 1.5 } .curve { fill: none; stroke-width: 2; stroke-linejoin: round }
.hollow { fill: #ffffff; stroke-width: 1.5 } .range { stroke: #24292f; stroke-width: 1.5 }
text.a, text.b, text.c, text.d { stroke: #ffffff }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; stroke: #0d1117 } .muted, .small { fill: #9198a1 } .page, .hollow { fill: #0d1117 } .grid { stroke: #2a313a }
.limit { stroke: #9198a1 } .own, .a { fill: #ff922b; stroke: #ff922b } .b { fill: #58a6ff; stroke: #58a6ff }
.c { fill: #56d364; stroke: #56d364 } .d { fill: #bc8cff; stroke: #bc8cff }
.peer { fill: #6e7681; stroke: #6e7681 } .reference { fill: #0d1117; stroke: #6e7681 }
.curve { fill: none } .hollow { fill: #0d1117 } .range { stroke: #e6edf3 }
text.a, text.b, text.c, text.d { stroke: #0d1117 }
}
";
/// Above and below the baseline of a text, as shares of its size.
const ASCENT: f64 = 0.8;
const DESCENT: f64 = 0.22;

/// Where a text is relative to its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text that was written, with its estimated box.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    pub(super) text: String,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// A drawing.
pub(super) struct Drawing {
    width: f64,
    height: f64,
    body: String,
    written: Vec<Written>,
}

impl Drawing {
    pub(super) fn new(width: f64, height: f64) -> Drawing {
        Drawing { width, height, body: String::new(), written: Vec::new() }
    }

    /// Writes a text; `class` is a list of classes of the style sheet, or empty.
    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, text: &str) {
        let (size, width) = (size(class), width(text, class));
        let (left, name) = match anchor {
            Anchor::Start => (x, "start"),
            Anchor::Middle => (x - width / 2.0, "middle"),
            Anchor::End => (x - width, "end"),
        };
        let (top, bottom) = (y - ASCENT * size, y + DESCENT * size);
        self.written.push(Written { text: text.to_owned(), left, top, right: left + width, bottom });
        let anchor = if anchor == Anchor::Start { String::new() } else { format!(" text-anchor=\"{name}\"") };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.element(format_args!("<text x=\"{}\" y=\"{}\"{class}{anchor}>{}</text>", px(x), px(y), escaped(text)));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
        self.element(format_args!("<line class=\"{class}\" x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"/>"));
    }

    pub(super) fn bar(&mut self, class: &str, at: (f64, f64), width: f64, height: f64) {
        let [x, y, width, height] = [at.0, at.1, width, height].map(px);
        self.element(format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"2\"/>"
        ));
    }

    pub(super) fn dot(&mut self, class: &str, at: (f64, f64), radius: f64) {
        let [x, y, radius] = [at.0, at.1, radius].map(px);
        self.element(format_args!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>"));
    }

    /// Straight lines from point to point.
    pub(super) fn curve(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", px(*x), px(*y))).collect();
        self.element(format_args!("<polyline class=\"{class} curve\" points=\"{}\"/>", points.join(" ")));
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// The document. A screen reader reads `title` and `description` instead of the drawing.
    pub(super) fn finish(self, title: &str, description: &str) -> String {
        let (width, height) = (px(self.width), px(self.height));
        let (title, description) = (escaped(title), escaped(description));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-labelledby=\"title description\">\n<title id=\"title\">{title}</title>\n\
             <desc id=\"description\">{description}</desc>\n<style>\n{STYLE}</style>\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            self.body
        )
    }

    /// Texts that overlap, and texts that leave the drawing.
    #[cfg(test)]
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (index, one) in self.written.iter().enumerate() {
            if one.left < 0.0 || one.top < 0.0 || one.right > self.width || one.bottom > self.height {
                faults.push(format!("`{}` leaves the drawing", one.text));
            }
            for other in &self.written[index + 1..] {
                let beside = one.right <= other.left || other.right <= one.left;
                if !beside && one.bottom > other.top && other.bottom > one.top {
                    faults.push(format!("`{}` and `{}` overlap", one.text, other.text));
                }
            }
        }
        faults
    }
}

fn size(class: &str) -> f64 {
    let has = |name| class.split(' ').any(|one| one == name);
    if has("title") {
        15.0
    } else if has("small") {
        11.0
    } else {
        12.0
    }
}

/// The estimated width of a text.
pub(super) fn width(text: &str, class: &str) -> f64 {
    let of = |letter: char| match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '\u{202f}' => 0.34,
        'f' | 'r' | 't' | ' ' | '(' | ')' | '/' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '→' => 0.95,
        'A'..='Z' => 0.72,
        _ => 0.62,
    };
    let bold = if class.contains("title") || class.contains("heading") { 1.08 } else { 1.0 };
    text.chars().map(of).sum::<f64>() * size(class) * bold
}

/// A coordinate with one decimal: more would be noise in a diff.
fn px(value: f64) -> f64 {
    let value = (value * 10.0).round() / 10.0;
    // Not the negative zero.
    value + 0.0
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name from a result must not become markup, and a document has what screen readers and both themes need.
    /// Compared as text.
    #[test]
    fn a_document_is_escaped_accessible_and_has_two_themes() {
        let mut drawing = Drawing::new(200.0, 40.0);
        drawing.text(10.0, 20.0, "muted", Anchor::Start, "a<b> & \"c\"");
        drawing.dot("own", (-0.01, 3.456), 4.0);
        let text = drawing.finish("T & t", "<d>");
        assert!(text.contains(">a&lt;b&gt; &amp; &quot;c&quot;</text>"), "{text}");
        assert!(text.contains("<circle class=\"own\" cx=\"0\" cy=\"3.5\" r=\"4\"/>"), "{text}");
        assert!(text.contains("<title id=\"title\">T &amp; t</title>"), "{text}");
        assert!(text.contains("<desc id=\"description\">&lt;d&gt;</desc>"), "{text}");
        assert!(text.contains("prefers-color-scheme: dark") && !text.contains("url("), "{text}");
    }

    /// The tests of the charts rely on this check: texts beside each other pass, overlapping ones and one that leaves
    /// the drawing do not.
    #[test]
    fn overlapping_texts_are_found() {
        let mut drawing = Drawing::new(200.0, 60.0);
        drawing.text(10.0, 20.0, "", Anchor::Start, "one");
        drawing.text(60.0, 20.0, "", Anchor::Start, "two");
        drawing.text(10.0, 40.0, "", Anchor::Start, "three");
        assert_eq!(drawing.faults(), Vec::<String>::new());
        drawing.text(12.0, 24.0, "", Anchor::Start, "four");
        drawing.text(10.0, 55.0, "", Anchor::End, "five");
        assert_eq!(drawing.faults(), ["`one` and `four` overlap", "`five` leaves the drawing"]);
    }
}
