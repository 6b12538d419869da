//! What operators alert on, as Prometheus sees it: how much waits, for how long, what failed, what is in use.
//!
//! The products say what the figures are; here they get their names. A figure of the database is read only if something has happened since
//! it was last read ([`wake::Snapshot`]), so that a server that is scraped and has nothing to do stays silent. Ages grow meanwhile by
//! arithmetic. Of things whose number is up to users the largest are told by themselves and the others as one sample
//! without their labels, so that a sum over all samples is the whole.

mod durable;
mod flow;
mod queue;

use std::{future::Future, pin::Pin, time::Duration};

use ::durable::Watch;
use ::flow::Flow;
use ::queue::Queues;
use wake::Metric;

use crate::http::{Family, Observe};

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:literal, $about:literal;)*) => {
        $(const $id: Metric = Metric { name: $name, kind: $kind, about: $about };)*
        /// Every metric that is read when it is asked for. `docs/metrics.md` lists exactly these.
        pub const METRICS: &[Metric] = &[$($id),*];
    };
}

metrics! {
    POOL_CONNECTIONS = "reveille_pool_connections", "gauge", "connections of the pool, by state (used, idle)";
    POOL_LIMIT = "reveille_pool_connections_limit", "gauge", "connections that the pool may open";
    DATABASE_ERRORS = "reveille_database_errors_total", "counter", "failures of the database, by kind";
    AGE = "reveille_figures_age_seconds", "gauge", "how long ago figures were read from the database, by product";
    FAILURES = "reveille_figures_failures_total", "counter", "readings of figures that failed or took too long, by product";
    QUEUE_DEPTH = "reveille_queue_depth", "gauge", "messages that some consumer group has not ended, or all where there is no group, by queue";
    QUEUE_OLDEST = "reveille_queue_oldest_message_seconds", "gauge", "age of the oldest of these messages, by queue";
    QUEUE_PARTITIONS = "reveille_queue_partitions", "gauge", "partitions, by queue";
    QUEUE_DEAD_LETTERS = "reveille_queue_dead_letters", "gauge", "dead letters, up to 10000 per queue, by queue";
    GROUP_LAG = "reveille_queue_group_lag", "gauge", "messages that a consumer group has not ended, by queue and group";
    TASKS = "reveille_flow_tasks", "gauge", "tasks, up to 10000 of each, by namespace and state (open, complete, error, cancelled, resolved_manually)";
    OPEN_TASKS = "reveille_flow_open_tasks", "gauge", "open tasks by namespace and state (steps_in_process, enqueuing_steps, waiting_for_retry, waiting_for_dependencies), of up to 10000 steps";
    STEPS = "reveille_flow_steps", "gauge", "steps by namespace and state: up to 10000 that can go on (ready, in_progress, waiting_for_retry), and of up to 10000 of open tasks the others (pending, complete, error, cancelled, resolved_manually)";
    READY_OLDEST = "reveille_flow_oldest_ready_step_seconds", "gauge", "for how long the step that can be claimed and has waited longest has waited, by namespace";
    TASKS_FAILED = "reveille_flow_tasks_with_failures", "gauge", "tasks in which a step has failed for good, up to 10000, by namespace";
    INVESTIGATIONS = "reveille_flow_investigations_open", "gauge", "tasks with an open investigation, up to 10000";
    ORCHESTRATIONS = "reveille_durable_orchestrations", "gauge", "orchestrations, by status; estimated where there are very many";
    MESSAGES = "reveille_durable_messages_due", "gauge", "messages to orchestrations that are due, up to 10000";
    MESSAGE_OLDEST = "reveille_durable_oldest_message_seconds", "gauge", "for how long the oldest of these messages has been due";
    TURNS = "reveille_durable_turns_running", "gauge", "turns of orchestrations under way";
    ACTIVITIES = "reveille_durable_activities", "gauge", "activities that are due, up to 10000, by state (waiting, running)";
    ACTIVITY_OLDEST = "reveille_durable_oldest_activity_seconds", "gauge", "for how long the oldest activity that waits for a worker has been due";
    PUSHED = "reveille_queue_messages_pushed_total", "counter", "messages stored through this process, by queue";
    DELIVERED = "reveille_queue_messages_delivered_total", "counter", "messages given to consumers by this process, by queue and group";
    ACKED = "reveille_queue_messages_acked_total", "counter", "messages completed through this process, by queue and group";
    FAILED = "reveille_queue_messages_failed_total", "counter", "messages refused as failed through this process, to come again, by queue and group";
    DEAD_LETTERED = "reveille_queue_messages_dead_lettered_total", "counter", "messages made dead letters by this process, by queue and group";
    GROUP_OLDEST = "reveille_queue_group_oldest_message_seconds", "gauge", "age of the oldest message that a consumer group has not ended, by queue and group";
}

/// Everything that is watched.
pub(crate) struct Figures {
    pub(crate) database: pg::Database,
    pub(crate) queues: Queues,
    pub(crate) flow: Flow,
    pub(crate) orchestrations: Watch,
    /// How many queues, groups and namespaces are told by themselves.
    pub(crate) top: u32,
}

impl Observe for Figures {
    fn observe(&self) -> Pin<Box<dyn Future<Output = Vec<Family>> + Send + '_>> {
        Box::pin(async {
            let (queues, tasks, orchestrations) =
                tokio::join!(self.queues.figures(self.top), self.flow.figures(self.top), self.orchestrations.figures());
            let mut age = Family::new(AGE);
            let mut failures = Family::new(FAILURES);
            failures.add([("product", "queue")], self.queues.failed_figures() as f64);
            failures.add([("product", "flow")], self.flow.failed_figures() as f64);
            failures.add([("product", "durable")], self.orchestrations.failed_figures() as f64);
            let mut families = self.process();
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

impl Figures {
    /// What needs no statement.
    fn process(&self) -> Vec<Family> {
        let pool = self.database.pool();
        let idle = pool.num_idle().min(pool.size() as usize);
        let mut connections = Family::new(POOL_CONNECTIONS);
        connections.add([("state", "used")], (pool.size() as usize - idle) as f64);
        connections.add([("state", "idle")], idle as f64);
        let limit = Family::single(POOL_LIMIT, f64::from(pool.options().get_max_connections()));
        let mut errors = Family::new(DATABASE_ERRORS);
        for (kind, count) in pg::error_counts() {
            errors.add([("kind", kind)], count as f64);
        }
        let mut families = vec![connections, limit, errors];
        families.extend(queue::counted(&self.queues.message_counts(self.top)));
        families
    }
}

/// An age that was read so long ago; 0 if nothing waits.
fn grown(oldest: Option<Duration>, age: Duration) -> f64 {
    oldest.map_or(0.0, |oldest| (oldest + age).as_secs_f64())
}
