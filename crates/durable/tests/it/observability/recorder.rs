//! Metrics of one test: a recorder for its thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Everything that was recorded, by name and labels as `name{label=value}`.
#[derive(Clone, Default)]
pub(super) struct Recorded(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

impl Recorded {
    /// What was recorded under `name{label=value,…}`: the values of a histogram, the steps of a counter.
    pub(super) fn of(&self, key: &str) -> Vec<f64> {
        self.0.lock().expect("no panic").get(key).cloned().unwrap_or_default()
    }

    /// All that was recorded whose name begins so, with how often.
    pub(super) fn starting(&self, start: &str) -> Vec<(String, usize)> {
        let recorded = self.0.lock().expect("no panic");
        recorded.iter().filter(|(key, _)| key.starts_with(start)).map(|(key, all)| (key.clone(), all.len())).collect()
    }

    fn instrument(&self, key: &Key) -> Arc<Instrument> {
        let mut labels: Vec<String> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        labels.sort();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        Arc::new(Instrument { key: format!("{}{labels}", key.name()), recorded: self.clone() })
    }
}

/// One metric.
struct Instrument {
    key: String,
    recorded: Recorded,
}

impl Instrument {
    fn note(&self, value: f64) {
        self.recorded.0.lock().expect("no panic").entry(self.key.clone()).or_default().push(value);
    }
}

impl CounterFn for Instrument {
    fn increment(&self, by: u64) {
        self.note(by as f64);
    }

    fn absolute(&self, value: u64) {
        self.note(value as f64);
    }
}

impl GaugeFn for Instrument {
    fn increment(&self, by: f64) {
        self.note(by);
    }

    fn decrement(&self, by: f64) {
        self.note(-by);
    }

    fn set(&self, value: f64) {
        self.note(value);
    }
}

impl HistogramFn for Instrument {
    fn record(&self, value: f64) {
        self.note(value);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.instrument(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.instrument(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.instrument(key))
    }
}
