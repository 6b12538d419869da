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
                Queries { $($name: schema.sql(include_str!(concat!("../sql/", $file, ".sql"))),)* }
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
    trim = "trim",
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
}

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "log", sql: include_str!("../migrations/0001_log.sql") },
    Migration { number: 2, name: "around", sql: include_str!("../migrations/0002_around.sql") },
];

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "offset_at", sql: include_str!("../functions/offset_at.sql") },
    Function { name: "due_after", sql: include_str!("../functions/due_after.sql") },
    Function { name: "subscribe", sql: include_str!("../functions/subscribe.sql") },
    Function { name: "open_partitions", sql: include_str!("../functions/open_partitions.sql") },
    Function { name: "backlog", sql: include_str!("../functions/backlog.sql") },
    Function { name: "push", sql: include_str!("../functions/push.sql") },
    Function { name: "shelve", sql: include_str!("../functions/shelve.sql") },
    Function { name: "put_off", sql: include_str!("../functions/put_off.sql") },
    Function { name: "lease_partitions", sql: include_str!("../functions/lease_partitions.sql") },
    Function { name: "claim", sql: include_str!("../functions/claim.sql") },
    Function { name: "locate", sql: include_str!("../functions/locate.sql") },
    Function { name: "ack", sql: include_str!("../functions/ack.sql") },
    Function { name: "release", sql: include_str!("../functions/release.sql") },
    Function { name: "extend", sql: include_str!("../functions/extend.sql") },
    Function { name: "counts", sql: include_str!("../functions/counts.sql") },
    Function { name: "configure", sql: include_str!("../functions/configure.sql") },
    Function { name: "remove_queue", sql: include_str!("../functions/remove_queue.sql") },
    Function { name: "sweep_removed", sql: include_str!("../functions/sweep_removed.sql") },
    Function { name: "trim", sql: include_str!("../functions/trim.sql") },
    Function { name: "seek", sql: include_str!("../functions/seek.sql") },
    Function { name: "unsubscribe", sql: include_str!("../functions/unsubscribe.sql") },
];
