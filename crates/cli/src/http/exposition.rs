//! Statistics in the text format of Prometheus.
//!
//! The `metrics` facade keeps every time series until the process ends. Statistics come and go with their queues, so
//! they are written separately, on every scrape. Names of queues and groups are user input of any length: labels are
//! escaped and cut to [`LABEL_MAX`].

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use reveille_wake::Metric;

/// Maximum length of a label value, in characters. A longer name is cut and ends with a hash that keeps it unique.
pub const LABEL_MAX: usize = 120;

/// One metric with all its samples.
#[derive(Debug, Clone)]
pub struct MetricFamily {
    metric: Metric,
    samples: Vec<Sample>,
}

/// Labels by name, and the value.
type Sample = (Vec<(&'static str, String)>, f64);

impl MetricFamily {
    /// A metric without samples. It is not written until it has one.
    pub fn new(metric: Metric) -> Self {
        Self { metric, samples: Vec::new() }
    }

    /// Adds a sample. An empty label is omitted.
    pub fn add<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: f64) {
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
        self.samples.push((labels.map(|(name, value)| (name, cut(value))).collect(), value));
    }

    /// A metric with one sample.
    pub fn single(metric: Metric, value: f64) -> Self {
        let mut family = Self::new(metric);
        family.add([], value);
        family
    }
}

/// The text of all families.
pub(super) fn write(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for MetricFamily { metric: Metric { name, kind, about }, samples } in
        families.iter().filter(|it| !it.samples.is_empty())
    {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP {name} {about}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    }
    text
}

fn cut(value: &str) -> String {
    match value.char_indices().nth(LABEL_MAX) {
        None => value.to_owned(),
        Some(_) => {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            let beginning: String = value.chars().take(LABEL_MAX - 17).collect();
            format!("{beginning}~{:016x}", hasher.finish())
        }
    }
}

/// Escapes backslashes, quotes and line breaks, as the format requires.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTH: Metric = Metric { name: "depth", kind: "gauge", about: "what waits" };

    /// Every sample is one valid line, whatever a name contains; a metric without samples is omitted.
    #[test]
    fn user_supplied_names_do_not_break_the_format() {
        let mut depth = MetricFamily::new(DEPTH);
        depth.add([("queue", "a\"b\\c\nd"), ("group", "")], 2.0);
        depth.add([], 0.5);
        let nothing = MetricFamily::new(Metric { name: "nothing", ..DEPTH });
        let expected = "# HELP depth what waits\n# TYPE depth gauge\ndepth{queue=\"a\\\"b\\\\c\\nd\"} 2\ndepth 0.5\n";
        assert_eq!(write(&[depth, nothing]), expected);
    }

    /// Long names are cut to the limit and stay unique.
    #[test]
    fn long_names_are_cut_and_stay_unique() {
        let (one, other) = (cut(&format!("{}1", "é".repeat(500))), cut(&format!("{}2", "é".repeat(500))));
        assert_eq!((one.chars().count(), other.chars().count()), (LABEL_MAX, LABEL_MAX));
        assert_ne!(one, other);
        assert_eq!(cut(&"é".repeat(LABEL_MAX)), "é".repeat(LABEL_MAX));
    }
}
