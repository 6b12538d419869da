//! Instances as people and programs look at them: lists, one instance, its history, its children.
//!
//! A process that looks need not run orchestrations: reading is queries, and starting or raising is a message that any
//! runtime finds. The danger is size: a schema may have millions of instances, and an instance a history of any length.
//! So every answer is bounded in rows and bytes and says where to continue, and no query reads a whole table.

mod executions;
mod history;
mod instance;
mod keys;
mod list;
mod reason;
mod tree;

use std::sync::Arc;

use reveille_pg::{Database, Schema, Sql};
use reveille_web::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use time::OffsetDateTime;
use utoipa::ToSchema;

pub(crate) use executions::{EXECUTIONS_MAX, ExecutionPage};
pub(crate) use history::{EVENTS_MAX, Format, HistoryPage};
pub(crate) use instance::Instance;
pub(crate) use keys::{KEYS_MAX, KeyPage};
pub(crate) use list::{INSTANCES_MAX, InstancePage, ListFilter, not_a_cursor};
pub(crate) use tree::{TREE_MAX, Tree};

use crate::admin::Watch;
use crate::error::Result;
use crate::provider::PostgresProvider;
use crate::text::unescape;

macro_rules! statements {
    ($($name:ident = $file:literal),* $(,)?) => {
        /// The statements, rendered for one schema.
        pub(crate) struct Statements {
            $(pub(crate) $name: Sql,)*
        }

        impl Statements {
            fn new(schema: &Schema) -> Statements {
                Statements { $($name: schema.sql(reveille_pg::statement!($file)),)* }
            }
        }
    };
}

statements! {
    find_instances = "inspect/find_instances",
    find_unstarted = "inspect/find_unstarted",
    instance = "inspect/inspect_instance",
    messages = "inspect/inspect_messages",
    activities = "inspect/inspect_activities",
    executions = "inspect/inspect_executions",
    history = "inspect/inspect_history",
    keys = "inspect/inspect_keys",
    tree = "inspect/inspect_tree",
    running_children = "inspect/running_children",
    known = "operate/known_instance",
    find_ended = "operate/find_ended",
    descendants = "operate/descendants",
    size_of_trees = "operate/size_of_trees",
    find_continued = "operate/find_continued",
    size_of_executions = "operate/size_of_executions",
}

/// The instances of a schema, to look at and to operate on. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Instances {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) provider: PostgresProvider,
    pub(crate) watch: Watch,
    pub(crate) sql: Statements,
}

impl Instances {
    /// The instances of a schema. Returns at once; the schema must be migrated before the first call. `watch` is where
    /// the figures come from.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(db: &Database, schema: &Schema, wake: reveille_wake::Options, watch: Watch) -> Instances {
        let provider = PostgresProvider::without_migrations(db, schema, wake);
        Instances::of(provider, watch)
    }

    /// The instances of a provider.
    pub fn of(provider: PostgresProvider, watch: Watch) -> Instances {
        let sql = Statements::new(&provider.inner.schema);
        Instances { inner: Arc::new(Inner { provider, watch, sql }) }
    }

    /// A number that grows with everything that this process sends to the database or hears from others: see
    /// [`reveille_wake::Wake::activity`].
    pub fn activity(&self) -> u64 {
        self.inner.provider.inner.wake.activity()
    }

    /// Ends all waits with [`reveille_wake::Error::Closed`] and rejects further ones.
    pub async fn close(&self) {
        self.inner.provider.inner.watch.close().await;
    }

    /// Returns when all pending notifications for other processes have been sent.
    pub async fn flush(&self) {
        self.inner.provider.flush().await;
    }

    /// Sends a query, after the acks of this process that are under way.
    pub(crate) async fn ask<'q>(
        &self,
        what: &str,
        query: impl Fn() -> Query<'q, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>> {
        let provider = &self.inner.provider;
        provider.after_acks().await;
        // Plan for the current size of the tables; the parameters are different each time.
        Ok(provider.inner.db.ask(what, || query().persistent(false)).await?)
    }
}

impl std::fmt::Debug for Instances {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instances").field("provider", &self.inner.provider).finish_non_exhaustive()
    }
}

/// The state of an instance or of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = InstanceStatus)]
pub(crate) enum Status {
    /// It was started, and no runtime has begun it yet.
    Pending,
    /// It has begun and not ended.
    Running,
    /// It ended with an output.
    Completed,
    /// It ended with an error, or was cancelled.
    Failed,
    /// The execution ended, and another continues the instance.
    ContinuedAsNew,
}

impl Status {
    const ALL: [Status; 5] =
        [Status::Pending, Status::Running, Status::Completed, Status::Failed, Status::ContinuedAsNew];

    /// As it is stored, and as duroxide names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Pending => "Pending",
            Status::Running => "Running",
            Status::Completed => "Completed",
            Status::Failed => "Failed",
            Status::ContinuedAsNew => "ContinuedAsNew",
        }
    }

    /// The status of a name, in any case.
    pub(crate) fn named(name: &str) -> Option<Status> {
        Self::ALL.into_iter().find(|status| status.name().eq_ignore_ascii_case(name))
    }

    /// A status that this version does not know has begun and not ended.
    pub(crate) fn stored(name: &str) -> Status {
        Self::named(name).unwrap_or(Status::Running)
    }

    /// Whether it is the end of an instance.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self, Status::Completed | Status::Failed)
    }
}

/// A column of escaped text.
pub(crate) fn text(row: &PgRow, column: &str) -> reveille_pg::Result<String> {
    Ok(unescape(row.try_get(column)?))
}

/// A column of escaped text that may be null.
pub(crate) fn maybe_text(row: &PgRow, column: &str) -> reveille_pg::Result<Option<String>> {
    Ok(row.try_get::<Option<String>, _>(column)?.map(unescape))
}

/// A column of JSON text with a string, or nothing.
pub(crate) fn json_text(row: &PgRow, column: &str) -> reveille_pg::Result<Option<String>> {
    let text: Option<String> = row.try_get(column)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// A column with a time that may be null.
pub(crate) fn maybe_time(row: &PgRow, column: &str) -> reveille_pg::Result<Option<Timestamp>> {
    Ok(row.try_get::<Option<OffsetDateTime>, _>(column)?.map(Timestamp))
}

/// A column with a number from zero.
pub(crate) fn number(row: &PgRow, column: &str) -> reveille_pg::Result<u64> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map_or(0, |number| number.max(0) as u64))
}

/// A position in a list that is ordered by time and text: `microseconds~text`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) time: OffsetDateTime,
    pub(crate) text: String,
}

impl Cursor {
    /// Before everything.
    pub(crate) fn first() -> Cursor {
        Cursor { time: FIRST, text: String::new() }
    }

    /// After everything.
    pub(crate) fn last() -> Cursor {
        Cursor { time: LAST, text: String::new() }
    }

    /// `None`: the text is no cursor.
    pub(crate) fn parse(text: &str) -> Option<Cursor> {
        let (micros, text) = text.split_once('~')?;
        let nanos = i128::from(micros.parse::<i64>().ok()?) * 1_000;
        let time = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok()?;
        Some(Cursor { time, text: text.to_owned() })
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}~{}", self.time.unix_timestamp_nanos() / 1_000, self.text)
    }
}

/// Times beyond all others that PostgreSQL can compare.
pub(crate) const FIRST: OffsetDateTime = time::macros::datetime!(0001-01-01 00:00 UTC);
pub(crate) const LAST: OffsetDateTime = time::macros::datetime!(9999-12-31 00:00 UTC);

#[cfg(test)]
mod tests {
    use super::*;

    /// A cursor is read back with all digits, whatever the id contains; other texts are no cursors.
    #[test]
    fn cursors_are_read_back() {
        let time = time::macros::datetime!(2026-01-02 03:04:05.678901 UTC);
        for text in ["", "order-7", "a~b", "\u{0}é"] {
            let cursor = Cursor { time, text: text.to_owned() };
            assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
        }
        for text in ["", "7", "x~a", "1.5~a", "99999999999999999999~a"] {
            assert_eq!(Cursor::parse(text), None, "{text}");
        }
    }

    /// Names of states are found in any case, and an unknown stored one counts as not ended.
    #[test]
    fn states_are_found_by_name() {
        for status in Status::ALL {
            assert_eq!(Status::named(&status.name().to_uppercase()), Some(status));
        }
        assert_eq!(Status::named("other"), None);
        assert_eq!(Status::stored("other"), Status::Running);
    }
}
