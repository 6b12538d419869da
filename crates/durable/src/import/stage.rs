//! The stages of an import, and how a batch is copied.
//!
//! Nothing runs in the target before activities and messages exist, so everything they may lead to is copied first; and
//! activities are copied before messages, because a turn may cancel them.

use reveille_pg::{Schema, Sql};
use sqlx::{PgConnection, Row};

use super::activities::Activities;
use super::count::Imported;
use super::error::Result;
use super::progress::Position;

/// The stages in order, by their names in the table `imports`, and the counts that belong to each.
const STAGES: [(&str, &[&str]); 4] = [
    ("instances", &["instances", "executions", "events", "keys"]),
    ("sessions", &["sessions"]),
    ("activities", &["activities"]),
    ("messages", &["messages"]),
];
/// The first stage.
pub(super) const FIRST: &str = STAGES[0].0;
/// After the last.
pub(super) const DONE: &str = "done";

/// The counts that are complete before a stage begins.
pub(super) fn copied_before(stage: &str) -> impl Iterator<Item = &'static str> {
    STAGES.iter().take_while(move |(name, _)| *name != stage).flat_map(|(_, copied)| copied.iter().copied())
}

/// Events per row of history. The source does not record turns; this many are read and compressed well together.
const EVENTS_PER_ROW: &str = "50";
/// Bytes per row of history; a larger event has a row of its own.
const BYTES_PER_ROW: &str = "65536";
/// Bytes of work items in memory, except for the last one.
const BYTES_PER_READ: &str = "16777216";

/// The count that a statement adds to.
type Field = fn(&mut Imported) -> &mut u64;

/// A stage, copied in batches.
struct Stage {
    name: &'static str,
    /// Selects the first and last name or id of the next batch.
    next: Sql,
    copy: Copy,
}

/// How a batch is copied.
enum Copy {
    /// By statements, from table to table.
    Statements(Vec<(Sql, Field)>),
    Activities(Activities),
}

/// All stages, for one source and one target.
pub(super) struct Stages {
    stages: [Stage; STAGES.len()],
    batch: i64,
}

impl Stages {
    pub(super) fn new(source: &Schema, target: &Schema, batch: u32) -> Stages {
        let vars = [
            ("source", source.quoted()),
            ("events_per_row", EVENTS_PER_ROW),
            ("bytes_per_row", BYTES_PER_ROW),
            ("bytes_per_read", BYTES_PER_READ),
        ];
        let both = |text| target.sql_with(text, &vars);
        let [instances, sessions, activities, messages] = STAGES.map(|(name, _)| name);
        let stages = [
            Stage {
                name: instances,
                next: both(reveille_pg::statement!("import/next_instances")),
                copy: Copy::Statements(vec![
                    (both(reveille_pg::statement!("import/copy_instances")), |to| &mut to.instances),
                    (both(reveille_pg::statement!("import/copy_executions")), |to| &mut to.executions),
                    (both(reveille_pg::statement!("import/copy_history")), |to| &mut to.events),
                    (both(reveille_pg::statement!("import/copy_keys")), |to| &mut to.keys),
                    (both(reveille_pg::statement!("import/copy_key_changes")), |to| &mut to.keys),
                ]),
            },
            Stage {
                name: sessions,
                next: both(reveille_pg::statement!("import/next_sessions")),
                copy: Copy::Statements(vec![(both(reveille_pg::statement!("import/copy_sessions")), |to| {
                    &mut to.sessions
                })]),
            },
            Stage {
                name: activities,
                next: both(reveille_pg::statement!("import/next_activities")),
                copy: Copy::Activities(Activities::new(source, target)),
            },
            Stage {
                name: messages,
                next: both(reveille_pg::statement!("import/next_messages")),
                copy: Copy::Statements(vec![(both(reveille_pg::statement!("import/copy_messages")), |to| {
                    &mut to.messages
                })]),
            },
        ];
        Stages { stages, batch: i64::from(batch) }
    }

    /// Copies the next batch, and returns the position after it.
    pub(super) async fn copy(&self, conn: &mut PgConnection, position: Position) -> Result<Position> {
        let Some(at) = self.stages.iter().position(|stage| stage.name == position.stage) else { return Ok(position) };
        let stage = &self.stages[at];
        let (after, from) = position.after();
        let query = sqlx::query(&stage.next).bind(after).bind(from).bind(self.batch);
        let row = query.fetch_one(&mut *conn).await.map_err(reveille_pg::Error::from)?;
        let first: Option<String> = row.try_get(0).map_err(reveille_pg::Error::from)?;
        let last: Option<String> = row.try_get(1).map_err(reveille_pg::Error::from)?;
        let (Some(first), Some(last)) = (first, last) else {
            let next = self.stages.get(at + 1).map_or(DONE, |stage| stage.name);
            return Ok(Position { stage: next.to_owned(), copied_through: None, ..position });
        };
        let mut copied = position.copied;
        match &stage.copy {
            Copy::Activities(activities) => copied.activities += activities.copy(conn, &first, &last).await?,
            Copy::Statements(statements) => {
                for (sql, field) in statements {
                    let query = sqlx::query_scalar::<_, i64>(sql).bind(&first).bind(&last);
                    *field(&mut copied) +=
                        query.fetch_one(&mut *conn).await.map_err(reveille_pg::Error::from)?.unsigned_abs();
                }
            }
        }
        Ok(Position { stage: position.stage, copied_through: Some(last), copied })
    }
}
