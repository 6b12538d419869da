//! Schemas of values that many routes accept.

use reveille_web::{schema, text};

use crate::name::LENGTH_MAX;

/// The most elements of a list in a body: as many messages as a pop returns. Each takes about a kilobyte in addition to
/// its bytes.
pub(super) const ELEMENTS_MAX: usize = 10_000;

schema! {
    /// A name of a queue, partition or consumer group, or a transaction id.
    Name, text("Any text without the character NUL")
        .min_length(Some(1))
        .max_length(Some(LENGTH_MAX))
        .pattern(Some(r"^[^\u0000]*$"))
}
schema! {
    /// The status in an ack.
    AckStatus, text("`completed` or `success`, `failed`, `dlq`, or `retry`, which charges no retry")
        .enum_values(Some(["completed", "success", "failed", "dlq", "retry"]))
}
schema! {
    /// The status of a message, as a filter.
    MessageStatus, text("The status of a message")
        .enum_values(Some(["all", "pending", "processing", "completed", "dlq", "dead_letter"]))
}
schema! {
    /// The state of a partition, as a filter.
    QueuePartitionState, text("The state of a partition").enum_values(Some(["leased", "waiting", "retrying"]))
}
schema! {
    /// The status of a message, as a filter of `/v1`.
    QueueMessageStatus, text("The status of a message").enum_values(Some(["pending", "processing", "completed"]))
}
schema! {
    /// The `after` of a page of messages.
    QueueMessageKey, text("The `next` of another page").pattern(Some(
        "^[0-9]{1,16}\\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\\.[0-9]{1,18}$",
    ))
}
