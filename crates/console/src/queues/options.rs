//! The options of a queue, with their meanings and defaults.

use maud::{Markup, html};

use crate::Json;
use crate::parts::Table;

/// An option.
pub(super) struct QueueOption {
    /// Its name in the API.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) about: &'static str,
    pub(super) default: &'static str,
    pub(super) is_flag: bool,
}

const fn number(name: &'static str, label: &'static str, default: &'static str, about: &'static str) -> QueueOption {
    QueueOption { name, label, about, default, is_flag: false }
}

const fn flag(name: &'static str, label: &'static str, default: &'static str, about: &'static str) -> QueueOption {
    QueueOption { name, label, about, default, is_flag: true }
}

/// All options, those that are changed most first.
pub(super) const OPTIONS: [QueueOption; 17] = [
    number("leaseTime", "Lease time", "300", "Seconds after which a message that was not acked is delivered again."),
    number(
        "retryLimit",
        "Retry limit",
        "3",
        "How often a message that fails, or whose lease expires, is delivered again before it becomes a dead letter.",
    ),
    number("retryDelay", "Retry delay", "none", "Milliseconds before a failed message is delivered again."),
    number(
        "maxSize",
        "Maximum size",
        "0",
        "The most messages that are not consumed; further pushes fail. 0: any number.",
    ),
    number("ttl", "Time to live", "none", "Seconds after which a message is deleted, consumed or not. 0: never."),
    number("delayedProcessing", "Delay", "0", "Seconds before a message can be read."),
    number("windowBuffer", "Window", "0", "Seconds after the last push before a partition can be read."),
    number(
        "maxWaitTimeSeconds",
        "Maximum wait",
        "0",
        "Seconds that a message waits for a consumer group before the group skips it. 0: without limit.",
    ),
    number(
        "priority",
        "Priority",
        "0",
        "Of the queues of a namespace, the one with the highest priority is read first.",
    ),
    flag(
        "chargeExpiredLeases",
        "Charge expired leases",
        "true",
        "Whether a lease that expires without an ack counts against the retry limit, as a failed ack does.",
    ),
    number(
        "consumedRetentionSeconds",
        "Retention of consumed messages",
        "86400",
        "Seconds after which a message is deleted that every consumer group has consumed, unless retention is enabled. 0: never.",
    ),
    flag("retentionEnabled", "Retention enabled", "false", "Whether the next two options apply."),
    number(
        "retentionSeconds",
        "Retention",
        "0",
        "Seconds after which a message is deleted, consumed or not. 0: never.",
    ),
    number(
        "completedRetentionSeconds",
        "Retention of completed messages",
        "0",
        "Seconds after which a message is deleted that every consumer group has consumed. 0: never.",
    ),
    flag(
        "encryptionEnabled",
        "Encryption",
        "false",
        "Whether payloads are stored encrypted from now on. The server needs a key.",
    ),
    flag("deadLetterQueue", "Dead letter queue", "false", "Stored for clients only: every queue has dead letters."),
    flag(
        "dlqAfterMaxRetries",
        "Dead letters after the last retry",
        "false",
        "Stored for clients only: it is always so.",
    ),
];

pub(super) fn list(queue: &Json) -> Markup {
    let options = &queue["options"];
    let shown = |option: &QueueOption| match &options[option.name] {
        Json::Null => html! { span.quiet { "not set" } },
        value => html! { (value.shown()) },
    };
    let table = Table::new("Options", &["Option", "Value", "Default", "Meaning"]).rows(&OPTIONS, |option| {
        vec![
            html! { (option.label) " " code.quiet { (option.name) } },
            shown(option),
            html! { span.quiet { (option.default) } },
            html! { (option.about) },
        ]
    });
    html! { section data-live="options" { (table) } }
}
