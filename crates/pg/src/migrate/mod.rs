//! Schema migrations.
//!
//! A product's part of the schema is a [`Component`]: numbered migrations, which are applied once and never change, and
//! functions, which are applied again whenever their text changes. Applied steps are recorded in the table `migration`
//! of the same schema.
//!
//! The dangers are processes that start together, a process that is older than the schema, and a migration that was
//! edited after it was applied. [`Migrator::run`] works in one transaction under an advisory lock, so one process
//! applies everything or nothing; the other two cases are rejected ([`MigrationError`]). It uses no session state, so
//! it works through a transaction-mode pooler. If nothing is missing, it takes no lock and runs one query.
//!
//! Rules for the texts:
//! - They name their objects `{schema}.thing`, and run inside a transaction: no `commit`, no `create index
//!   concurrently`.
//! - The functions of a component come after all its migrations. A trigger belongs to the file of its function, as
//!   `create or replace trigger`.
//! - A function's file uses `create or replace function`. PostgreSQL rejects that when the result type or an argument's
//!   name changes, and creates a second function when an argument's type changes: then the file starts with
//!   `drop function if exists {schema}.old(arguments);`, permanently.
//! - A function that is removed from the list stays in the database, because an older process may still call it.

mod error;
mod ledger;
mod plan;

use std::fmt;
use std::time::Duration;

use sqlx::PgConnection;

use crate::retry::{Policy, retry};
use crate::schema::{check_name, identifier, literal};
use crate::{Database, Error, Result, Schema, Sql};
pub use error::MigrationError;
use ledger::Ledger;

/// How long to wait for another process that migrates the same schema. Its longest migration may rewrite a table.
const LOCK_WAIT: Duration = Duration::from_secs(10 * 60);

/// How long one statement of a migration may wait for a table lock. While it waits, later queries on the table queue
/// behind it; so it times out, and the whole run is retried.
const TABLE_WAIT: Duration = Duration::from_secs(5);

/// A product's part of the schema.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name, under which its steps are recorded. It never changes.
    pub name: &'static str,
    /// Numbered from 1 without a gap; append-only.
    pub migrations: &'static [Migration],
    /// In the order in which they are applied.
    pub functions: &'static [Function],
    /// Additional placeholders of the texts, beside `{schema}` and `{schema_text}`, with their values.
    pub vars: Vec<(String, String)>,
}

/// A step that is applied once. Once released, its number and text never change.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number, from 1.
    pub number: u32,
    /// What it does, for messages.
    pub name: &'static str,
    /// One or more statements.
    pub sql: &'static str,
}

/// A function (or view, or trigger) whose text is applied whenever it differs from the last applied text.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name, under which it is recorded.
    pub name: &'static str,
    /// One or more idempotent statements.
    pub sql: &'static str,
}

/// One migration or function to apply, or applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A migration.
    Migration {
        /// The component's name.
        component: &'static str,
        /// Its number.
        number: u32,
        /// Its name.
        name: &'static str,
    },
    /// A function that is new or has changed.
    Function {
        /// The component's name.
        component: &'static str,
        /// Its name.
        name: &'static str,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Migration { component, number, name } => write!(f, "{component} migration {number} ({name})"),
            Step::Function { component, name } => write!(f, "{component} function {name}"),
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The applied steps, in order. Empty if the schema was up to date or another process migrated it.
    pub applied: Vec<Step>,
}

/// Migrates one schema to a list of components.
#[derive(Clone, Debug)]
pub struct Migrator {
    schema: Schema,
    components: Vec<plan::Rendered>,
}

impl Migrator {
    /// Takes the components in order of dependency.
    ///
    /// # Panics
    /// If a text has a placeholder that is not in the component's `vars`.
    pub fn new(schema: &Schema, components: Vec<Component>) -> Migrator {
        let components = components.into_iter().map(|component| plan::Rendered::new(schema, component)).collect();
        Migrator { schema: schema.clone(), components }
    }

    /// Applies all missing steps in one transaction. Transient failures are retried.
    ///
    /// # Errors
    /// [`Error::Migration`] with the [`MigrationError`], or a connection error. Nothing was applied.
    ///
    /// # Cancel safety
    /// Dropping the future rolls back.
    pub async fn run(&self, db: &Database) -> Result<Report> {
        retry(&Policy::default(), "migrate", async |_| self.attempt(db).await).await
    }

    /// What [`Migrator::run`] would apply, in order. Changes nothing.
    ///
    /// # Errors
    /// As [`Migrator::run`].
    pub async fn plan(&self, db: &Database) -> Result<Vec<Step>> {
        let ledger = Ledger::read(&self.schema, &mut *db.session().await?).await?;
        Ok(self.missing(&ledger)?.into_iter().map(|pending| pending.step).collect())
    }

    /// Checks that nothing is missing, for processes that may not change the schema. Changes nothing.
    ///
    /// # Errors
    /// [`MigrationError::Behind`] names what is missing; otherwise as [`Migrator::run`].
    pub async fn verify(&self, db: &Database) -> Result<()> {
        let missing = self.plan(db).await?;
        match missing.is_empty() {
            true => Ok(()),
            false => Err(MigrationError::Behind { schema: self.schema.name().into(), missing }.into()),
        }
    }

    /// All steps as one SQL script for an empty database, to be applied by hand. The script records the steps, so a
    /// later [`Migrator::run`] finds nothing to do; on a schema that is not empty it fails and changes nothing.
    ///
    /// # Panics
    /// If the migrations are misnumbered, which [`Migrator::run`] would reject.
    pub fn dump(&self) -> String {
        let key = ledger::lock_key(&self.schema).to_string();
        let mut script = self.schema.sql_with(include_str!("dump_head.sql"), &[("key", &key)]).to_string();
        script.push_str(ledger::create_table(&self.schema).as_str());
        let pending = self.missing(&Ledger::default()).unwrap_or_else(|error| panic!("{error}"));
        for pending in pending {
            script.push_str(&format!("\n-- {}\n{}", pending.step, pending.sql));
        }
        script.push_str("\ncommit;\n");
        script
    }

    /// The SQL that gives `role` just the rights that a server needs on this schema, as [`Migrator::grant`] runs it.
    ///
    /// # Errors
    /// [`Error::Config`] naming the option `role`, if the name is not valid.
    pub fn grants(&self, role: &str) -> Result<Sql> {
        check_name("role", role)?;
        let vars = [("role", &*identifier(role)), ("role_text", &*literal(role))];
        Ok(self.schema.sql_with(include_str!("roles.sql"), &vars))
    }

    /// Gives `role` just the rights that a server needs on this schema, which is up to date. Creates the role without a
    /// login if it does not exist. Transient failures are retried.
    ///
    /// # Errors
    /// As [`Migrator::grants`], or that this user may not create roles or grant these rights. Nothing was changed.
    ///
    /// # Cancel safety
    /// Dropping the future rolls back.
    pub async fn grant(&self, db: &Database, role: &str) -> Result<()> {
        let sql = self.grants(role)?;
        let attempt = async |_| {
            let mut transaction = db.begin().await?;
            self.lock(&mut transaction).await?;
            sqlx::raw_sql(&sql).execute(&mut *transaction).await?;
            Ok(transaction.commit().await?)
        };
        retry(&Policy::default(), "grant", attempt).await
    }

    fn missing(&self, ledger: &Ledger) -> Result<Vec<plan::Pending>, MigrationError> {
        plan::missing(&self.schema, &self.components, ledger)
    }

    async fn attempt(&self, db: &Database) -> Result<Report> {
        let ledger = Ledger::read(&self.schema, &mut *db.session().await?).await?;
        if self.missing(&ledger)?.is_empty() {
            return Ok(Report::default());
        }
        let mut transaction = db.begin().await?;
        self.lock(&mut transaction).await?;
        ledger::create(&self.schema, &mut transaction).await?;
        let ledger = Ledger::read(&self.schema, &mut transaction).await?;
        let mut applied = Vec::new();
        for pending in self.missing(&ledger)? {
            if let Err(error) = sqlx::raw_sql(&pending.sql).execute(&mut *transaction).await {
                return Err(MigrationError::Failed { step: pending.step, source: Box::new(error.into()) }.into());
            }
            tracing::debug!(schema = self.schema.name(), step = %pending.step, "applied");
            applied.push(pending.step);
        }
        transaction.commit().await?;
        tracing::debug!(schema = self.schema.name(), steps = applied.len(), "schema migrated");
        Ok(Report { applied })
    }

    /// Sets the timeouts and takes the lock; both end with the transaction.
    async fn lock(&self, transaction: &mut PgConnection) -> Result<()> {
        let limits = self.schema.sql_with(
            include_str!("lock.sql"),
            &[
                ("lock_wait", &LOCK_WAIT.as_millis().to_string()),
                ("table_wait", &TABLE_WAIT.as_millis().to_string()),
                ("key", &ledger::lock_key(&self.schema).to_string()),
            ],
        );
        match sqlx::raw_sql(&limits).execute(transaction).await.map_err(Error::from) {
            Err(error) if error.sqlstate() == Some("55P03") => {
                Err(MigrationError::Locked { schema: self.schema.name().into(), waited: LOCK_WAIT }.into())
            }
            other => other.map(drop),
        }
    }
}
