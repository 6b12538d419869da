//! Statistics of the products as Prometheus metrics: how much waits, for how long, what failed, what is in use.
//!
//! The products read the values; this module names them. A value is read from the database only if something has
//! happened since the last read ([`reveille_wake::Snapshot`]), so that a scraped idle server sends no statements; ages
//! are extrapolated. Of queues, groups and namespaces only the largest have samples of their own; the others are summed
//! up in one sample without their labels, so that the sum over all samples is the total.

mod durable;
mod flow;
mod queue;

use std::{future::Future, pin::Pin, time::Duration};

use ::reveille_durable::Watch;
use ::reveille_flow::Flow;
use ::reveille_queue::Queues;
use reveille_wake::Metric;

use crate::http::{MetricFamily, ScrapeSource};

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:literal, $about:literal;)*) => {
        $(const $id: Metric = Metric { name: $name, kind: $kind, about: $about };)*
        /// Every metric that is read on a scrape. `docs/metrics.md` lists exactly these.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    POOL_CONNECTIONS = "reveille_pool_connections", "gauge", "connections of the pool, by state (used, idle)";
    POOL_LIMIT = "reveille_pool_connections_limit", "gauge", "maximum size of the pool";
    DATABASE_ERRORS = "reveille_database_errors_total", "counter", "database errors, by kind";
    AGE = "reveille_statistics_age_seconds", "gauge", "time since statistics were read from the database, by product";
    FAILURES = "reveille_statistics_failures_total", "counter", "reads of statistics that failed or timed out, by product";
    QUEUE_DEPTH = "reveille_queue_depth", "gauge", "messages that a consumer group has not completed, or all messages if there is no group, by queue";
    QUEUE_OLDEST = "reveille_queue_oldest_message_seconds", "gauge", "age of the oldest of these messages, by queue";
    QUEUE_PARTITIONS = "reveille_queue_partitions", "gauge", "partitions, by queue";
    QUEUE_DEAD_LETTERS = "reveille_queue_dead_letters", "gauge", "dead letters, up to 10000 per queue, by queue";
    GROUP_LAG = "reveille_queue_group_lag", "gauge", "messages that a consumer group has not completed, by queue and group";
    TASKS = "reveille_flow_tasks", "gauge", "tasks, up to 10000 of each, by namespace and state (open, complete, error, cancelled, resolved_manually)";
    OPEN_TASKS = "reveille_flow_open_tasks", "gauge", "open tasks by namespace and state (steps_in_process, enqueuing_steps, waiting_for_retry, waiting_for_dependencies), of up to 10000 steps";
    STEPS = "reveille_flow_steps", "gauge", "steps by namespace and state: up to 10000 active ones (ready, in_progress, waiting_for_retry), and the others of up to 10000 steps of open tasks (pending, complete, error, cancelled, resolved_manually)";
    READY_OLDEST = "reveille_flow_oldest_ready_step_seconds", "gauge", "age of the oldest claimable step, by namespace";
    TASKS_FAILED = "reveille_flow_tasks_with_failures", "gauge", "tasks with a permanently failed step, up to 10000, by namespace";
    INVESTIGATIONS = "reveille_flow_investigations_open", "gauge", "tasks with an open investigation, up to 10000";
    ORCHESTRATIONS = "reveille_durable_orchestrations", "gauge", "orchestrations, by status; estimated if there are very many";
    MESSAGES = "reveille_durable_messages_due", "gauge", "messages to orchestrations that are due, up to 10000";
    MESSAGE_OLDEST = "reveille_durable_oldest_message_seconds", "gauge", "time since the oldest of these messages became due";
    TURNS = "reveille_durable_turns_running", "gauge", "orchestration turns in progress";
    ACTIVITIES = "reveille_durable_activities", "gauge", "due activities, up to 10000, by state (waiting, running)";
    ACTIVITY_OLDEST = "reveille_durable_oldest_activity_seconds", "gauge", "time since the oldest waiting activity became due";
    PUSHED = "reveille_queue_messages_pushed_total", "counter", "messages stored through this process, by queue";
    DELIVERED = "reveille_queue_messages_delivered_total", "counter", "messages delivered by this process, by queue and group";
    ACKED = "reveille_queue_messages_acked_total", "counter", "messages completed through this process, by queue and group";
    FAILED = "reveille_queue_messages_failed_total", "counter", "messages reported as failed through this process and redelivered, by queue and group";
    DEAD_LETTERED = "reveille_queue_messages_dead_lettered_total", "counter", "messages moved to the dead letters by this process, by queue and group";
    GROUP_OLDEST = "reveille_queue_group_oldest_message_seconds", "gauge", "age of the oldest message that a consumer group has not completed, by queue and group";
}

/// The sources of the statistics.
pub(crate) struct Statistics {
    pub(crate) database: reveille_pg::Database,
    pub(crate) queues: Queues,
    pub(crate) flow: Flow,
    pub(crate) orchestrations: Watch,
    /// How many queues, groups and namespaces have samples of their own.
    pub(crate) top: u32,
}

impl ScrapeSource for Statistics {
    fn collect(&self) -> Pin<Box<dyn Future<Output = Vec<MetricFamily>> + Send + '_>> {
        Box::pin(async {
            let (queues, tasks, orchestrations) =
                tokio::join!(self.queues.figures(self.top), self.flow.figures(self.top), self.orchestrations.figures());
            let mut age = MetricFamily::new(AGE);
            let mut failures = MetricFamily::new(FAILURES);
            failures.add([("product", "queue")], self.queues.failed_figures() as f64);
            failures.add([("product", "flow")], self.flow.failed_figures() as f64);
            failures.add([("product", "durable")], self.orchestrations.failed_figures() as f64);
            let mut families = self.in_memory();
            if let Some(read) = queues {
                age.add([("product", "queue")], read.age.as_secs_f64());
                families.extend(queue::families(&read.value, read.age));
            }
            if let Some(read) = tasks {
                age.add([("product", "flow")], read.age.as_secs_f64());
                families.extend(flow::families(&read.value, read.age));
            }
            if let Some(read) = orchestrations {
                age.add([("product", "durable")], read.age.as_secs_f64());
                families.extend(durable::families(&read.value, read.age));
            }
            families.extend([age, failures]);
            families
        })
    }
}

impl Statistics {
    /// Values that need no statement.
    fn in_memory(&self) -> Vec<MetricFamily> {
        let pool = self.database.pool();
        let idle = pool.num_idle().min(pool.size() as usize);
        let mut connections = MetricFamily::new(POOL_CONNECTIONS);
        connections.add([("state", "used")], (pool.size() as usize - idle) as f64);
        connections.add([("state", "idle")], idle as f64);
        let limit = MetricFamily::single(POOL_LIMIT, f64::from(pool.options().get_max_connections()));
        let mut errors = MetricFamily::new(DATABASE_ERRORS);
        for (kind, count) in reveille_pg::error_counts() {
            errors.add([("kind", kind)], count as f64);
        }
        let mut families = vec![connections, limit, errors];
        families.extend(queue::counted(&self.queues.message_counts(self.top)));
        families
    }
}

/// The current value of an age that was read `age` ago; 0 if nothing waits.
fn extrapolated(oldest: Option<Duration>, age: Duration) -> f64 {
    oldest.map_or(0.0, |oldest| (oldest + age).as_secs_f64())
}
