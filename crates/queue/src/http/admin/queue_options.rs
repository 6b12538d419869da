//! The options of a queue in a request: each is optional and has limits.

use utoipa::ToSchema;

/// Options of a queue. A missing or null option stays as it is.
#[derive(ToSchema)]
#[schema(as = QueueOptionsGiven, rename_all = "camelCase")]
#[expect(dead_code, reason = "read one by one, described here")]
pub(super) struct GivenOptions {
    /// The lease time in seconds.
    #[schema(minimum = 1, maximum = 604_800)]
    lease_time: Option<i32>,
    /// How often a message that fails, or whose lease expires, is redelivered before it becomes a dead letter.
    #[schema(minimum = 0, maximum = 1_000_000)]
    retry_limit: Option<i32>,
    /// The delay of a redelivery in milliseconds.
    #[schema(minimum = 0, maximum = 604_800_000)]
    retry_delay: Option<i32>,
    /// The most messages that are not consumed; 0: any number.
    #[schema(minimum = 0, maximum = 1_000_000_000_000_i64)]
    max_size: Option<i64>,
    /// Seconds after which a message is deleted.
    #[schema(minimum = 0, maximum = 315_360_000)]
    ttl: Option<i32>,
    dead_letter_queue: Option<bool>,
    dlq_after_max_retries: Option<bool>,
    /// Of the queues of a namespace, the one with the highest priority is read first.
    #[schema(minimum = -1_000_000, maximum = 1_000_000)]
    priority: Option<i32>,
    /// Seconds before a message can be read.
    #[schema(minimum = 0, maximum = 315_360_000)]
    delayed_processing: Option<i32>,
    /// Seconds after the last push before a partition can be read.
    #[schema(minimum = 0, maximum = 315_360_000)]
    window_buffer: Option<i32>,
    /// Seconds after which a message is deleted, consumed or not; 0: never.
    #[schema(minimum = 0, maximum = 315_360_000)]
    retention_seconds: Option<i32>,
    /// Seconds after which a message is deleted that every consumer group has consumed; 0: never.
    #[schema(minimum = 0, maximum = 315_360_000)]
    completed_retention_seconds: Option<i32>,
    /// Whether the two options above apply.
    retention_enabled: Option<bool>,
    /// Rejected if the server has no key.
    encryption_enabled: Option<bool>,
    /// Seconds that a message waits for a consumer group before the group skips it; 0: without limit.
    #[schema(minimum = 0, maximum = 315_360_000)]
    max_wait_time_seconds: Option<i32>,
    /// Whether a lease that expires without an ack counts against `retryLimit`.
    charge_expired_leases: Option<bool>,
    /// Seconds after which a message is deleted that every consumer group has consumed, unless `retentionEnabled`; 0:
    /// never.
    #[schema(minimum = 0, maximum = 315_360_000)]
    consumed_retention_seconds: Option<i32>,
}
