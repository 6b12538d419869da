//! What is carried over, in which order, and how a batch of it is.
//!
//! Nothing happens in the target before activities and messages are there, so everything they may lead to comes before them; and activities
//! come before messages, because a turn may cancel them.

use pg::{Schema, Sql};
use sqlx::{PgConnection, Row};

use super::activities::Activities;
use super::count::Imported;
use super::error::Result;
use super::ledger::Position;

/// The stages in order, by the names they have in the ledger, and what is carried over in each, as it is called where it is counted.
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

/// What has been carried over before a stage begins.
pub(super) fn carried_before(stage: &str) -> impl Iterator<Item = &'static str> {
    STAGES.iter().take_while(move |(name, _)| *name != stage).flat_map(|(_, carried)| carried.iter().copied())
}

/// Events per row of history. Ours are a row per turn; those of another provider come without turns, and this many are read and compressed well
/// together.
const EVENTS_PER_ROW: &str = "50";
/// Bytes per row of history, as a rule: larger rows would only be harder to read in part. A larger event has a row for itself.
const BYTES_PER_ROW: &str = "65536";
/// Bytes of work items in memory, but for the last of them.
const BYTES_PER_READ: &str = "16777216";

/// Where a count belongs.
type Field = fn(&mut Imported) -> &mut u64;

/// Something that is carried over by batches.
struct Stage {
    name: &'static str,
    /// The next batch: its first and last.
    next: Sql,
    carry: Carry,
}

/// How a batch is carried over.
enum Carry {
    /// From table to table, within the database.
    Statements(Vec<(Sql, Field)>),
    Activities(Activities),
}

/// All of them, for one source and one target.
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
                next: both(pg::statement!("import/next_instances")),
                carry: Carry::Statements(vec![
                    (both(pg::statement!("import/carry_instances")), |to| &mut to.instances),
                    (both(pg::statement!("import/carry_executions")), |to| &mut to.executions),
                    (both(pg::statement!("import/carry_history")), |to| &mut to.events),
                    (both(pg::statement!("import/carry_keys")), |to| &mut to.keys),
                    (both(pg::statement!("import/carry_key_changes")), |to| &mut to.keys),
                ]),
            },
            Stage {
                name: sessions,
                next: both(pg::statement!("import/next_sessions")),
                carry: Carry::Statements(vec![(both(pg::statement!("import/carry_sessions")), |to| &mut to.sessions)]),
            },
            Stage {
                name: activities,
                next: both(pg::statement!("import/next_activities")),
                carry: Carry::Activities(Activities::new(source, target)),
            },
            Stage {
                name: messages,
                next: both(pg::statement!("import/next_messages")),
                carry: Carry::Statements(vec![(both(pg::statement!("import/carry_messages")), |to| &mut to.messages)]),
            },
        ];
        Stages { stages, batch: i64::from(batch) }
    }

    /// Carries over what comes next, and says where the import stands then.
    pub(super) async fn carry(&self, conn: &mut PgConnection, position: Position) -> Result<Position> {
        let Some(at) = self.stages.iter().position(|stage| stage.name == position.stage) else { return Ok(position) };
        let stage = &self.stages[at];
        let (after, from) = position.after();
        let query = sqlx::query(&stage.next).bind(after).bind(from).bind(self.batch);
        let row = query.fetch_one(&mut *conn).await.map_err(pg::Error::from)?;
        let first: Option<String> = row.try_get(0).map_err(pg::Error::from)?;
        let last: Option<String> = row.try_get(1).map_err(pg::Error::from)?;
        let (Some(first), Some(last)) = (first, last) else {
            let next = self.stages.get(at + 1).map_or(DONE, |stage| stage.name);
            return Ok(Position { stage: next.to_owned(), through: None, ..position });
        };
        let mut carried = position.carried;
        match &stage.carry {
            Carry::Activities(activities) => carried.activities += activities.carry(conn, &first, &last).await?,
            Carry::Statements(statements) => {
                for (sql, field) in statements {
                    let query = sqlx::query_scalar::<_, i64>(sql).bind(&first).bind(&last);
                    *field(&mut carried) += query.fetch_one(&mut *conn).await.map_err(pg::Error::from)?.unsigned_abs();
                }
            }
        }
        Ok(Position { stage: position.stage, through: Some(last), carried })
    }
}
