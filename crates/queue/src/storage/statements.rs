//! The migrations, functions and statements of the schema.

use reveille_pg::{Function, Migration, Schema, Sql};

macro_rules! statements {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// The statements, rendered for one schema.
        pub(crate) struct Statements {
            $(pub(crate) $name: Sql,)*
        }

        impl Statements {
            pub(crate) fn new(schema: &Schema) -> Statements {
                Statements { $($name: schema.sql(reveille_pg::statement!($file)),)* }
            }
        }
    };
}

statements! {
    open_partitions = "open_partitions",
    locate_partitions = "locate_partitions",
    buffer_messages = "buffer_messages",
    extend_lease = "extend_lease",
    configure = "configure",
    page_queues = "page_queues",
    page_partitions = "page_partitions",
    page_messages = "page_messages",
    peek_messages = "peek_messages",
    page_dead_letters = "page_dead_letters",
    count_matching_dead_letters = "count_matching_dead_letters",
    add_replay_traces = "add_replay_traces",
    pause_queue = "pause_queue",
    pause_group = "pause_group",
    find_queue = "find_queue",
    heads = "heads",
    remove_queue = "remove_queue",
    delete_removed = "delete_removed",
    figures = "figures",
    next_retained = "next_retained",
    next_waiting = "next_waiting",
    trim = "trim",
    wait_briefly = "wait_briefly",
    seek = "seek",
    unsubscribe = "unsubscribe",
    find_consumers = "find_consumers",
    resubscribe = "resubscribe",
    lags = "lags",
    lagging = "lagging",
    overview = "overview",
    list_queues = "list_queues",
    namespaces = "namespaces",
    tasks = "tasks",
    partition_states = "partition_states",
    depth = "depth",
    count_dead_letters = "count_dead_letters",
    required_leases = "required_leases",
    transaction_status = "transaction_status",
    list_messages = "list_messages",
    reading_modes = "reading_modes",
    find_message = "find_message",
    message_readers = "message_readers",
    erase_message = "erase_message",
    make_dead_letter = "make_dead_letter",
    retry_now = "retry_now",
    list_dead_letters = "list_dead_letters",
    take_dead_letters = "take_dead_letters",
    read_dead_letters = "read_dead_letters",
    purge_dead_letters = "purge_dead_letters",
    delete_dead_letters = "delete_dead_letters",
    add_trace = "add_trace",
    traces_of = "traces_of",
    traces_named = "traces_named",
    trace_names = "trace_names",
    maintenance = "maintenance",
    set_maintenance = "set_maintenance",
    lock_drain = "lock_drain",
    lock_switch = "lock_switch",
    take_buffered = "take_buffered",
    delete_buffered = "delete_buffered",
    lock_housekeeping = "lock_housekeeping",
    expired = "expired",
    overdue = "overdue",
    evict = "evict",
    forget_traces = "forget_traces",
    database_state = "database_state",
    table_states = "table_states",
}

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "queues_and_messages",
        sql: include_str!("../../db/migrations/0001_queues_and_messages.sql"),
    },
    Migration {
        number: 2,
        name: "dead_letters_traces_and_maintenance",
        sql: include_str!("../../db/migrations/0002_dead_letters_traces_and_maintenance.sql"),
    },
    Migration {
        number: 3,
        name: "pauses_of_queues_and_groups",
        sql: include_str!("../../db/migrations/0003_pauses_of_queues_and_groups.sql"),
    },
];

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "offset_at", sql: include_str!("../../db/functions/offset_at.sql") },
    Function { name: "due_after", sql: include_str!("../../db/functions/due_after.sql") },
    Function { name: "subscribe", sql: include_str!("../../db/functions/subscribe.sql") },
    Function { name: "open_partitions", sql: include_str!("../../db/functions/open_partitions.sql") },
    Function { name: "full_queues", sql: include_str!("../../db/functions/full_queues.sql") },
    Function { name: "push", sql: include_str!("../../db/functions/push.sql") },
    Function { name: "buffer_messages", sql: include_str!("../../db/functions/buffer_messages.sql") },
    Function { name: "first_undeleted", sql: include_str!("../../db/functions/first_undeleted.sql") },
    Function { name: "find_offsets", sql: include_str!("../../db/functions/find_offsets.sql") },
    Function { name: "postpone", sql: include_str!("../../db/functions/postpone.sql") },
    Function { name: "add_dead_letter", sql: include_str!("../../db/functions/add_dead_letter.sql") },
    Function { name: "expire_lease", sql: include_str!("../../db/functions/expire_lease.sql") },
    Function { name: "lease_partitions", sql: include_str!("../../db/functions/lease_partitions.sql") },
    Function { name: "claim", sql: include_str!("../../db/functions/claim.sql") },
    Function { name: "lock_acked_cursor", sql: include_str!("../../db/functions/lock_acked_cursor.sql") },
    Function { name: "ack", sql: include_str!("../../db/functions/ack.sql") },
    Function { name: "ack_leases", sql: include_str!("../../db/functions/ack_leases.sql") },
    Function { name: "release_leases", sql: include_str!("../../db/functions/release_leases.sql") },
    Function { name: "extend_lease", sql: include_str!("../../db/functions/extend_lease.sql") },
    Function { name: "message_counts", sql: include_str!("../../db/functions/message_counts.sql") },
    Function { name: "configure", sql: include_str!("../../db/functions/configure.sql") },
    Function { name: "remove_queue", sql: include_str!("../../db/functions/remove_queue.sql") },
    Function { name: "delete_removed", sql: include_str!("../../db/functions/delete_removed.sql") },
    Function { name: "figures", sql: include_str!("../../db/functions/figures.sql") },
    Function { name: "trim", sql: include_str!("../../db/functions/trim.sql") },
    Function { name: "evict", sql: include_str!("../../db/functions/evict.sql") },
    Function { name: "seek", sql: include_str!("../../db/functions/seek.sql") },
    Function { name: "unsubscribe", sql: include_str!("../../db/functions/unsubscribe.sql") },
];

/// The error for a word in an answer of the database that this version does not know.
pub(crate) fn unknown_word(what: &str, word: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("unknown {what} {word:?}").into())
}
