//! The metrics of the queue.

use reveille_wake::Metric;

const UNDECRYPTABLE: &str = "reveille_queue_undecryptable_total";

/// Every metric of this crate. `docs/metrics.md` lists exactly these.
pub const METRICS: &[Metric] = &[Metric {
    name: UNDECRYPTABLE,
    kind: "counter",
    about: "messages that could not be encrypted or decrypted, by reason (no_key, missing_key, damaged)",
}];

/// Counts a message that could not be encrypted or decrypted.
pub(crate) fn undecryptable(reason: &'static str) {
    metrics::counter!(UNDECRYPTABLE, "reason" => reason).increment(1);
}
