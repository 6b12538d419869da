//! The metrics of `GET /metrics` for a collector, under the same names.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::{
    export::{Warnings, resource, scope, send},
    span::nanoseconds,
};
use crate::{
    client::{Client, Route},
    http::Metrics,
};

/// How often metrics are sent: as often as they are usually scraped.
const EVERY: Duration = Duration::from_secs(60);

/// OTLP's number for values that count since the start.
const CUMULATIVE: u64 = 2;

/// Sends the metrics at once and then once a minute. Never returns.
///
/// # Cancel safety
/// Dropping the future ends it.
pub(crate) async fn export(client: Client, metrics: Metrics) {
    let (since, mut warnings) = (nanoseconds(), Warnings::default());
    loop {
        let text = metrics.text().await;
        warnings.note(send(&client, Route::new("/v1/metrics"), &document(&text, since, nanoseconds())).await);
        tokio::time::sleep(EVERY).await;
    }
}

/// One metric while the text is read.
#[derive(Default)]
struct Family<'a> {
    kind: &'a str,
    about: &'a str,
    samples: Vec<Sample<'a>>,
}

struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

/// The Prometheus text as OTLP's JSON.
fn document(text: &str, since: u64, now: u64) -> Value {
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    let mut name = "";
    for line in text.lines() {
        if let Some((of, about)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(of).or_default().about = about;
        } else if let Some((of, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            name = of;
            families.entry(of).or_default().kind = kind;
        } else if let Some(sample) = sample(line) {
            families.entry(name).or_default().samples.push(sample);
        }
    }
    let metrics: Vec<Value> = families
        .iter()
        .filter(|(_, family)| !family.samples.is_empty())
        .map(|(name, family)| metric(name, family, since, now))
        .collect();
    json!({"resourceMetrics": [{"resource": resource(), "scopeMetrics": [{"scope": scope(), "metrics": metrics}]}]})
}

fn metric(name: &str, family: &Family<'_>, since: u64, now: u64) -> Value {
    let (since, now) = (since.to_string(), now.to_string());
    let point = |sample: &Sample<'_>| {
        json!({"attributes": attributes(&sample.labels), "startTimeUnixNano": since, "timeUnixNano": now,
               "asDouble": sample.value})
    };
    let points = || family.samples.iter().map(point).collect::<Vec<_>>();
    let unit = if name.contains("_seconds") { "s" } else { "1" };
    let mut metric = json!({"name": name, "description": family.about, "unit": unit});
    match family.kind {
        "counter" => {
            metric["sum"] = json!({"aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points()});
        }
        "histogram" => {
            let points = histogram(name, &family.samples, &since, &now);
            metric["histogram"] = json!({"aggregationTemporality": CUMULATIVE, "dataPoints": points});
        }
        _ => metric["gauge"] = json!({"dataPoints": points()}),
    }
    metric
}

/// The buckets, sums and counts of a histogram, one point for each set of labels. Prometheus' buckets include the
/// smaller ones, OTLP's do not.
fn histogram(name: &str, samples: &[Sample<'_>], since: &str, now: &str) -> Vec<Value> {
    #[derive(Default)]
    struct Point {
        buckets: Vec<(f64, f64)>,
        sum: f64,
        count: f64,
    }
    let mut points: BTreeMap<Vec<(&str, String)>, Point> = BTreeMap::new();
    for sample in samples {
        let labels = sample.labels.iter().filter(|(name, _)| *name != "le").cloned().collect();
        let point = points.entry(labels).or_default();
        match sample.name.strip_prefix(name) {
            Some("_sum") => point.sum = sample.value,
            Some("_count") => point.count = sample.value,
            _ => {
                let bound =
                    sample.labels.iter().find(|(name, _)| *name == "le").and_then(|(_, bound)| bound.parse().ok());
                point.buckets.extend(bound.map(|bound: f64| (bound, sample.value)));
            }
        }
    }
    let value = |(labels, mut point): (Vec<(&str, String)>, Point)| {
        point.buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut below = 0.0;
        let mut counts: Vec<String> = Vec::new();
        for (_, up_to) in &point.buckets {
            counts.push(whole(up_to - below));
            below = *up_to;
        }
        let bounds: Vec<f64> =
            point.buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()).collect();
        // One bucket more than bounds: what is beyond the last.
        if counts.len() == bounds.len() {
            counts.push(whole(point.count - below));
        }
        json!({"attributes": attributes(&labels), "startTimeUnixNano": since, "timeUnixNano": now,
               "count": whole(point.count), "sum": point.sum, "bucketCounts": counts, "explicitBounds": bounds})
    };
    points.into_iter().map(value).collect()
}

/// A count as OTLP writes it.
fn whole(count: f64) -> String {
    (count.max(0.0) as u64).to_string()
}

fn attributes(labels: &[(&str, String)]) -> Vec<Value> {
    labels.iter().map(|(name, value)| json!({"key": name, "value": {"stringValue": value}})).collect()
}

/// A line `name{label="value",…} 1.5`; `None` for a comment or an empty line.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (series, value) = line.rsplit_once(' ').filter(|_| !line.starts_with('#'))?;
    let value = value.parse().ok()?;
    let Some((name, rest)) = series.split_once('{') else {
        return Some(Sample { name: series, labels: Vec::new(), value });
    };
    let mut rest = rest.strip_suffix('}')?;
    let mut labels = Vec::new();
    while let Some((label, after)) = rest.trim_start_matches(',').split_once("=\"") {
        let (value, length) = unescaped(after)?;
        labels.push((label, value));
        rest = &after[length..];
    }
    Some(Sample { name, labels, value })
}

/// The text up to the closing quote, and the length of what was read.
fn unescaped(text: &str) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, at + 1)),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            letter => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter, a gauge and a histogram keep their values, labels and units; cumulative buckets become single ones.
    #[test]
    fn prometheus_text_becomes_otlp() {
        let text = "# HELP a_total All of them.\n# TYPE a_total counter\na_total{q=\"x \\\"y\\\" \\\\ {z},\\n=\"} 3\n\n\
                    # TYPE b gauge\nb 1.5\n# HELP c_seconds Time.\n# TYPE c_seconds histogram\n\
                    c_seconds_bucket{k=\"v\",le=\"0.1\"} 2\nc_seconds_bucket{k=\"v\",le=\"1\"} 5\n\
                    c_seconds_bucket{k=\"v\",le=\"+Inf\"} 6\nc_seconds_sum{k=\"v\"} 4.5\nc_seconds_count{k=\"v\"} 6\n\
                    # TYPE empty gauge\n";
        let all = document(text, 1, 2);
        let metrics = &all["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics.as_array().map(Vec::len), Some(3), "{metrics}");
        assert_eq!((&metrics[0]["name"], &metrics[0]["description"]), (&json!("a_total"), &json!("All of them.")));
        let sum = &metrics[0]["sum"];
        assert_eq!((&sum["isMonotonic"], &sum["dataPoints"][0]["asDouble"]), (&json!(true), &json!(3.0)));
        let label = json!({"key": "q", "value": {"stringValue": "x \"y\" \\ {z},\n="}});
        assert_eq!(sum["dataPoints"][0]["attributes"], json!([label]));
        assert_eq!(metrics[1]["gauge"]["dataPoints"][0]["asDouble"], 1.5);
        let point = &metrics[2]["histogram"]["dataPoints"][0];
        assert_eq!(metrics[2]["unit"], "s");
        assert_eq!((&point["bucketCounts"], &point["explicitBounds"]), (&json!(["2", "3", "1"]), &json!([0.1, 1.0])));
        assert_eq!((&point["count"], &point["sum"]), (&json!("6"), &json!(4.5)));
        assert_eq!(point["attributes"], json!([{"key": "k", "value": {"stringValue": "v"}}]));
    }
}
