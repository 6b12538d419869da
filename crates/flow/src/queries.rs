//! What is in the schema, and the statements that are neither a claim nor part of a flight.

use pg::{Function, Migration, Schema, Sql};

/// The statements, rendered for one schema.
pub(crate) struct Queries {
    pub(crate) register_template: Sql,
    pub(crate) open_lanes: Sql,
    pub(crate) find_template: Sql,
    pub(crate) load_template: Sql,
    pub(crate) limit_steps: Sql,
    pub(crate) limits: Sql,
    pub(crate) age_tasks: Sql,
    pub(crate) investigations: Sql,
    pub(crate) close_investigation: Sql,
    pub(crate) domain_events: Sql,
    pub(crate) template_of_task: Sql,
    pub(crate) task_detail: Sql,
    pub(crate) task_steps: Sql,
    pub(crate) task_attempts: Sql,
    pub(crate) task_history: Sql,
    pub(crate) mark_watched: Sql,
    pub(crate) find_tasks: Sql,
    pub(crate) pick_tasks: Sql,
    pub(crate) list_templates: Sql,
    pub(crate) performance: Sql,
    pub(crate) bottlenecks: Sql,
    pub(crate) find_schedules: Sql,
    pub(crate) put_schedule: Sql,
    pub(crate) delete_schedule: Sql,
}

impl Queries {
    pub(crate) fn new(schema: &Schema) -> Queries {
        Queries {
            register_template: schema.sql(include_str!("../sql/register_template.sql")),
            open_lanes: schema.sql(include_str!("../sql/open_lanes.sql")),
            find_template: schema.sql(include_str!("../sql/find_template.sql")),
            load_template: schema.sql(include_str!("../sql/load_template.sql")),
            limit_steps: schema.sql(include_str!("../sql/limit_steps.sql")),
            limits: schema.sql(include_str!("../sql/limits.sql")),
            age_tasks: schema.sql(include_str!("../sql/age_tasks.sql")),
            investigations: schema.sql(include_str!("../sql/investigations.sql")),
            close_investigation: schema.sql(include_str!("../sql/close_investigation.sql")),
            domain_events: schema.sql(include_str!("../sql/domain_events.sql")),
            template_of_task: schema.sql(include_str!("../sql/template_of_task.sql")),
            task_detail: schema.sql(include_str!("../sql/task_detail.sql")),
            task_steps: schema.sql(include_str!("../sql/task_steps.sql")),
            task_attempts: schema.sql(include_str!("../sql/task_attempts.sql")),
            task_history: schema.sql(include_str!("../sql/task_history.sql")),
            mark_watched: schema.sql(include_str!("../sql/mark_watched.sql")),
            find_tasks: schema.sql(include_str!("../sql/find_tasks.sql")),
            pick_tasks: schema.sql(include_str!("../sql/pick_tasks.sql")),
            list_templates: schema.sql(include_str!("../sql/list_templates.sql")),
            performance: schema.sql(include_str!("../sql/performance.sql")),
            bottlenecks: schema.sql(include_str!("../sql/bottlenecks.sql")),
            find_schedules: schema.sql(include_str!("../sql/find_schedules.sql")),
            put_schedule: schema.sql(include_str!("../sql/put_schedule.sql")),
            delete_schedule: schema.sql(include_str!("../sql/delete_schedule.sql")),
        }
    }
}

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "templates", sql: include_str!("../migrations/0001_templates.sql") },
    Migration { number: 2, name: "tasks", sql: include_str!("../migrations/0002_tasks.sql") },
    Migration { number: 3, name: "afterwards", sql: include_str!("../migrations/0003_afterwards.sql") },
    Migration { number: 4, name: "schedules", sql: include_str!("../migrations/0004_schedules.sql") },
];

pub(crate) const FUNCTIONS: &[Function] = &[
    Function { name: "register_template", sql: include_str!("../functions/register_template.sql") },
    Function { name: "open_lanes", sql: include_str!("../functions/open_lanes.sql") },
    Function { name: "submit_tasks", sql: include_str!("../functions/submit_tasks.sql") },
    Function { name: "free_slots", sql: include_str!("../functions/free_slots.sql") },
    Function { name: "limit_steps", sql: include_str!("../functions/limit_steps.sql") },
    Function { name: "hand_out", sql: include_str!("../functions/hand_out.sql") },
    Function { name: "claim_steps", sql: include_str!("../functions/claim_steps.sql") },
    Function { name: "renew_steps", sql: include_str!("../functions/renew_steps.sql") },
    Function { name: "backoff_ms", sql: include_str!("../functions/backoff_ms.sql") },
    Function { name: "suspend_tasks", sql: include_str!("../functions/suspend_tasks.sql") },
    Function { name: "resume_tasks", sql: include_str!("../functions/resume_tasks.sql") },
    Function { name: "advance_tasks", sql: include_str!("../functions/advance_tasks.sql") },
    Function { name: "appear", sql: include_str!("../functions/appear.sql") },
    Function { name: "decide", sql: include_str!("../functions/decide.sql") },
    Function { name: "divide", sql: include_str!("../functions/divide.sql") },
    Function { name: "investigate", sql: include_str!("../functions/investigate.sql") },
    Function { name: "tell", sql: include_str!("../functions/tell.sql") },
    Function { name: "end_tasks", sql: include_str!("../functions/end_tasks.sql") },
    Function { name: "age_tasks", sql: include_str!("../functions/age_tasks.sql") },
    Function { name: "follow", sql: include_str!("../functions/follow.sql") },
    Function { name: "settle_steps", sql: include_str!("../functions/settle_steps.sql") },
    Function { name: "operate_step", sql: include_str!("../functions/operate_step.sql") },
    Function { name: "end_task", sql: include_str!("../functions/end_task.sql") },
    Function { name: "advance_schedules", sql: include_str!("../functions/advance_schedules.sql") },
];
