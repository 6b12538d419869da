//! Checks of the source and the target before anything is copied.

use reveille_pg::{Database, Schema, Sql};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgTransaction, Row};

use super::count::Imported;
use super::error::{Error, Result};
use super::progress::Position;
use super::stage::FIRST;

/// The columns that are read of the source, by table. duroxide-pg and duroxide-pg-opt number their migrations differently,
/// but both have these. The instance of an activity is in both only in its work item.
const COLUMNS: &[(&str, &[&str])] = &[
    (
        "instances",
        &[
            "instance_id",
            "orchestration_name",
            "orchestration_version",
            "parent_instance_id",
            "current_execution_id",
            "custom_status",
            "custom_status_version",
            "created_at",
            "updated_at",
        ],
    ),
    (
        "executions",
        &[
            "instance_id",
            "execution_id",
            "status",
            "output",
            "started_at",
            "completed_at",
            "duroxide_version_major",
            "duroxide_version_minor",
            "duroxide_version_patch",
        ],
    ),
    ("history", &["instance_id", "execution_id", "event_id", "event_data", "created_at"]),
    ("orchestrator_queue", &["id", "instance_id", "work_item", "visible_at", "attempt_count"]),
    ("worker_queue", &["id", "work_item", "visible_at", "locked_until", "attempt_count"]),
    ("instance_locks", &["locked_until"]),
    ("sessions", &["session_id", "worker_id", "locked_until", "last_activity_at"]),
    ("kv_store", &["instance_id", "key", "value", "last_updated_at_ms"]),
    ("kv_delta", &["instance_id", "key", "value", "last_updated_at_ms"]),
];

/// Which tables the target has.
pub(super) struct TargetTables {
    pub(super) instances: bool,
    pub(super) imports: bool,
}

/// The checks, for one source and one target.
pub(super) struct Checks {
    source: Schema,
    target: Schema,
    settings: Sql,
    inspect: Sql,
    lock: Sql,
    still_locked: Sql,
    leases: Sql,
    count: Sql,
    target_tables: Sql,
    conflicts: Sql,
}

impl Checks {
    /// # Errors
    /// [`Error::Itself`] if both are the same.
    pub(super) fn new(source: &Schema, target: &Schema) -> Result<Checks> {
        if source == target {
            return Err(Error::Itself { schema: source.name().to_owned() });
        }
        let both = |text| target.sql_with(text, &[("source", source.quoted())]);
        Ok(Checks {
            settings: both(reveille_pg::statement!("import/settings")),
            inspect: both(reveille_pg::statement!("import/check_source")),
            lock: both(reveille_pg::statement!("import/lock_source")),
            still_locked: both(reveille_pg::statement!("import/still_locked")),
            leases: both(reveille_pg::statement!("import/source_leases")),
            count: both(reveille_pg::statement!("import/count_source")),
            target_tables: both(reveille_pg::statement!("import/check_target")),
            conflicts: both(reveille_pg::statement!("import/conflicts")),
            source: source.clone(),
            target: target.clone(),
        })
    }

    fn schema(&self) -> String {
        self.source.name().to_owned()
    }

    /// A transaction whose statements may take long.
    pub(super) async fn begin(&self, database: &Database) -> Result<PgTransaction<'static>> {
        let mut transaction = database.begin().await?;
        sqlx::query(&self.settings).execute(&mut *transaction).await.map_err(reveille_pg::Error::from)?;
        Ok(transaction)
    }

    /// Checks that the source exists and has the expected columns.
    pub(super) async fn shape(&self, conn: &mut PgConnection) -> Result<()> {
        let columns = COLUMNS.iter().flat_map(|(table, columns)| columns.iter().map(|column| (*table, *column)));
        let (tables, columns): (Vec<&str>, Vec<&str>) = columns.unzip();
        let query = sqlx::query(&self.inspect).bind(self.source.name()).bind(tables).bind(columns);
        let row = query.fetch_one(conn).await.map_err(reveille_pg::Error::from)?;
        let (exists, duroxide, missing): (bool, bool, Vec<String>) =
            (column(&row, 0)?, column(&row, 1)?, column(&row, 2)?);
        match (exists, duroxide, missing.is_empty()) {
            (false, _, _) => Err(Error::NoSource { schema: self.schema() }),
            (_, false, _) => Err(Error::Foreign { schema: self.schema() }),
            (_, _, false) => Err(Error::Old { schema: self.schema(), missing }),
            _ => Ok(()),
        }
    }

    /// Blocks writes to the source until the end of the transaction.
    pub(super) async fn lock(&self, conn: &mut PgConnection) -> Result<()> {
        sqlx::query(&self.lock).execute(conn).await.map_err(reveille_pg::Error::from)?;
        Ok(())
    }

    /// Checks that the transaction has not ended.
    pub(super) async fn still_locked(&self, conn: &mut PgConnection) -> Result<()> {
        sqlx::query(&self.still_locked).execute(conn).await.map_err(reveille_pg::Error::from)?;
        Ok(())
    }

    /// Checks that no lease of the source is valid.
    pub(super) async fn leases(&self, conn: &mut PgConnection) -> Result<()> {
        let row = sqlx::query(&self.leases).fetch_one(conn).await.map_err(reveille_pg::Error::from)?;
        let (turns, activities, sessions) = (count(&row, 0)?, count(&row, 1)?, count(&row, 2)?);
        if turns + activities + sessions == 0 {
            return Ok(());
        }
        let (until, seconds) = (column::<Option<String>>(&row, 3)?, column::<Option<i64>>(&row, 4)?);
        Err(Error::Leased {
            schema: self.schema(),
            turns,
            activities,
            sessions,
            until: until.unwrap_or_default(),
            seconds: seconds.unwrap_or_default().max(0).unsigned_abs(),
        })
    }

    /// Counts everything in the source.
    pub(super) async fn count(&self, conn: &mut PgConnection) -> Result<Imported> {
        let row = sqlx::query(&self.count).fetch_one(conn).await.map_err(reveille_pg::Error::from)?;
        let mut counts = [0; 7];
        for (at, count) in counts.iter_mut().enumerate() {
            *count = column(&row, at)?;
        }
        Ok(Imported::of(counts))
    }

    /// Checks that the target is not a schema of duroxide-pg.
    pub(super) async fn target(&self, conn: &mut PgConnection) -> Result<TargetTables> {
        let query = sqlx::query(&self.target_tables).bind(self.target.name());
        let row = query.fetch_one(conn).await.map_err(reveille_pg::Error::from)?;
        if column(&row, 2)? {
            return Err(Error::Occupied { schema: self.target.name().to_owned() });
        }
        Ok(TargetTables { instances: column(&row, 0)?, imports: column(&row, 1)? })
    }

    /// Checks that the target has no instances of the source except those that this import has copied.
    pub(super) async fn conflicts(&self, conn: &mut PgConnection, position: Option<&Position>) -> Result<()> {
        let (after, from) = match position {
            Some(position) if position.stage != FIRST => return Ok(()),
            Some(position) => position.after(),
            None => ("", true),
        };
        let query = sqlx::query(&self.conflicts).bind(after).bind(from);
        let row = query.fetch_one(conn).await.map_err(reveille_pg::Error::from)?;
        match (count(&row, 0)?, column::<Option<String>>(&row, 1)?) {
            (0, _) => Ok(()),
            (instances, first) => {
                Err(Error::Taken { schema: self.schema(), instances, first: first.unwrap_or_default() })
            }
        }
    }
}

fn column<'r, T>(row: &'r PgRow, at: usize) -> Result<T>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    Ok(row.try_get(at).map_err(reveille_pg::Error::from)?)
}

fn count(row: &PgRow, at: usize) -> Result<u64> {
    Ok(column::<i64>(row, at)?.unsigned_abs())
}
