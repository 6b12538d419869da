//! What is in the schema, and the statements that are neither a claim nor part of a flight.

use pg::{Function, Migration, Schema, Sql};

macro_rules! queries {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// The statements, rendered for one schema.
        pub(crate) struct Queries {
            $(pub(crate) $name: Sql,)*
        }

        impl Queries {
            pub(crate) fn new(schema: &Schema) -> Queries {
                Queries { $($name: schema.sql(pg::statement!($file)),)* }
            }
        }
    };
}

queries! {
    open_partitions = "open_partitions",
    locate_partitions = "locate_partitions",
    shelve = "shelve",
    extend = "extend",
    configure = "configure",
    find_queue = "find_queue",
    heads = "heads",
    remove_queue = "remove_queue",
    sweep_removed = "sweep_removed",
    figures = "figures",
    next_kept = "next_kept",
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
    bury_message = "bury_message",
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
    lock_house = "lock_house",
    expired = "expired",
    overdue = "overdue",
    evict = "evict",
    forget_traces = "forget_traces",
    database_state = "database_state",
    table_states = "table_states",
}

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "log", sql: include_str!("../db/migrations/0001_log.sql") },
    Migration { number: 2, name: "around", sql: include_str!("../db/migrations/0002_around.sql") },
    Migration { number: 3, name: "deliveries", sql: include_str!("../db/migrations/0003_deliveries.sql") },
];

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "offset_at", sql: include_str!("../db/functions/offset_at.sql") },
    Function { name: "due_after", sql: include_str!("../db/functions/due_after.sql") },
    Function { name: "subscribe", sql: include_str!("../db/functions/subscribe.sql") },
    Function { name: "open_partitions", sql: include_str!("../db/functions/open_partitions.sql") },
    Function { name: "backlog", sql: include_str!("../db/functions/backlog.sql") },
    Function { name: "push", sql: include_str!("../db/functions/push.sql") },
    Function { name: "shelve", sql: include_str!("../db/functions/shelve.sql") },
    Function { name: "put_off", sql: include_str!("../db/functions/put_off.sql") },
    Function { name: "bury", sql: include_str!("../db/functions/bury.sql") },
    Function { name: "expire_lease", sql: include_str!("../db/functions/expire_lease.sql") },
    Function { name: "lease_partitions", sql: include_str!("../db/functions/lease_partitions.sql") },
    Function { name: "claim", sql: include_str!("../db/functions/claim.sql") },
    Function { name: "first_live", sql: include_str!("../db/functions/first_live.sql") },
    Function { name: "locate", sql: include_str!("../db/functions/locate.sql") },
    Function { name: "ack", sql: include_str!("../db/functions/ack.sql") },
    Function { name: "finish", sql: include_str!("../db/functions/finish.sql") },
    Function { name: "release", sql: include_str!("../db/functions/release.sql") },
    Function { name: "extend", sql: include_str!("../db/functions/extend.sql") },
    Function { name: "counts", sql: include_str!("../db/functions/counts.sql") },
    Function { name: "configure", sql: include_str!("../db/functions/configure.sql") },
    Function { name: "remove_queue", sql: include_str!("../db/functions/remove_queue.sql") },
    Function { name: "sweep_removed", sql: include_str!("../db/functions/sweep_removed.sql") },
    Function { name: "figures", sql: include_str!("../db/functions/figures.sql") },
    Function { name: "trim", sql: include_str!("../db/functions/trim.sql") },
    Function { name: "evict", sql: include_str!("../db/functions/evict.sql") },
    Function { name: "seek", sql: include_str!("../db/functions/seek.sql") },
    Function { name: "unsubscribe", sql: include_str!("../db/functions/unsubscribe.sql") },
];
