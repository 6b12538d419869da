//! Forms of values that many routes take, as the document describes them.

use reveille_web::{schema, text};

use crate::name::LENGTH_MAX;

/// Elements of a list in a body: as many messages as a pop answers at most. Each takes about a kilobyte beside its bytes.
pub(super) const ELEMENTS_MAX: usize = 10_000;

schema! {
    /// The name of a queue, a partition, a consumer group; a transaction id.
    Name, text("Any text, but for the character NUL").min_length(Some(1)).max_length(Some(LENGTH_MAX)).pattern(Some(r"^[^\u0000]*$"))
}
schema! {
    /// What is said of a message.
    Verdict, text("`completed` or `success`, `failed`, `dlq`, or `retry`, which charges nothing")
        .enum_values(Some(["completed", "success", "failed", "dlq", "retry"]))
}
schema! {
    /// How far a message has come, as a filter.
    Stage, text("How far a message has come").enum_values(Some(["all", "pending", "processing", "completed", "dlq", "dead_letter"]))
}
