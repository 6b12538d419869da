//! Imports a schema of duroxide-pg or duroxide-pg-opt within one database.
//!
//! Instances, executions, histories, messages, activities, sessions, keys and values are copied; afterwards runtimes with
//! this provider continue where the old ones stopped. The source is not changed. The dangers, and what prevents them:
//!
//! - *The source is still in use*, and the same orchestration would run twice: an import is rejected while any
//!   lease of the source has not expired, and blocks writes to the source while it runs.
//! - *The import is interrupted*: it copies in batches, and each commits together with its progress, so the next run
//!   continues from there.
//! - *The target is in use*: messages are copied last, when everything they may lead to exists.
//! - *Something is missing*: counts are compared with those of the source before an import is done.
//!
//! ```no_run
//! # async fn example(provider: reveille_durable::PostgresProvider) -> Result<(), reveille_durable::import::Error> {
//! let source = reveille_durable::import::Source::new("duroxide")?;
//! let imported = provider.import_from(&source).await?;
//! tracing::info!(%imported, "orchestrations continue here");
//! # Ok(()) }
//! ```

mod activities;
mod check;
mod count;
mod error;
mod progress;
mod stage;

use std::time::{Duration, Instant};

use reveille_pg::{Database, Schema};

pub use count::Imported;
pub use error::{Error, Result};

use crate::provider::PostgresProvider;
use check::Checks;
use progress::{Position, Progress};
use stage::Stages;

/// Instances or queue rows per transaction: enough to make the commit cheap, and few enough that an interruption costs
/// about a second of work.
const BATCH: u32 = 500;
/// How often progress is logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// A schema of duroxide-pg or duroxide-pg-opt to import from, in the same database as the target.
#[derive(Debug, Clone)]
pub struct Source {
    schema: Schema,
    batch: u32,
}

impl Source {
    /// `schema` is the name of the schema, unquoted.
    ///
    /// # Errors
    /// [`Error::Database`] if the name is invalid.
    pub fn new(schema: &str) -> Result<Source> {
        Ok(Source { schema: Schema::new(schema)?, batch: BATCH })
    }

    /// Sets how many instances are copied in one transaction; the default is 500.
    #[must_use]
    pub fn batch(self, instances: u32) -> Source {
        Source { batch: instances.max(1), ..self }
    }

    /// A dry run: checks the source and the target, and counts what would be copied. Changes nothing; the target need not
    /// exist yet.
    ///
    /// # Errors
    /// Those for which an import would be rejected.
    pub async fn survey(&self, database: &Database, target: &Schema) -> Result<Imported> {
        let checks = Checks::new(&self.schema, target)?;
        let mut transaction = checks.begin(database).await?;
        checks.shape(&mut transaction).await?;
        checks.leases(&mut transaction).await?;
        let held = checks.count(&mut transaction).await?;
        let target_holds = checks.target(&mut transaction).await?;
        let position = match target_holds.imports {
            true => Progress::new(&self.schema, target).position(&mut transaction).await?,
            false => None,
        };
        if target_holds.instances {
            checks.conflicts(&mut transaction, position.as_ref()).await?;
        }
        transaction.rollback().await.map_err(reveille_pg::Error::from)?;
        Ok(held)
    }
}

impl PostgresProvider {
    /// Copies everything from a schema of duroxide-pg. Returns how much, over all runs.
    ///
    /// Uses two connections of the pool and logs its progress. If it fails halfway, another call continues from the last
    /// committed batch; after it is done, another call only compares the counts.
    ///
    /// # Errors
    /// Every variant of [`Error`] says what to do.
    ///
    /// # Cancel safety
    /// Dropping the future ends the import between two batches; call it again to continue.
    pub async fn import_from(&self, source: &Source) -> Result<Imported> {
        let (database, target) = (&self.inner.db, &self.inner.schema);
        let checks = Checks::new(&source.schema, target)?;
        // Blocks writes to the source until it ends, so that the counts stay valid.
        let mut guard = checks.begin(database).await?;
        checks.shape(&mut guard).await?;
        checks.lock(&mut guard).await?;
        checks.leases(&mut guard).await?;
        let held = checks.count(&mut guard).await?;

        let progress = Progress::new(&source.schema, target);
        let mut transaction = checks.begin(database).await?;
        progress.open(&mut transaction, stage::FIRST).await?;
        let mut position = progress.current(&mut transaction).await?;
        checks.conflicts(&mut transaction, Some(&position)).await?;
        transaction.commit().await.map_err(reveille_pg::Error::from)?;

        let stages = Stages::new(&source.schema, target, source.batch);
        let mut logged = Instant::now();
        loop {
            let before = stage::copied_before(&position.stage);
            position.copied.compare(&held, before, source.schema.name())?;
            if position.stage == stage::DONE {
                break;
            }
            // If the lock is lost, the source may change: stop here.
            checks.still_locked(&mut guard).await?;
            let mut transaction = checks.begin(database).await?;
            position = progress.current(&mut transaction).await?;
            position = stages.copy(&mut transaction, position).await?;
            progress.advance(&mut transaction, &position).await?;
            transaction.commit().await.map_err(reveille_pg::Error::from)?;
            if logged.elapsed() >= LOG_EVERY {
                logged = Instant::now();
                let Position { stage, copied, .. } = &position;
                tracing::info!(stage, %copied, of = %held, "importing");
            }
        }
        guard.rollback().await.map_err(reveille_pg::Error::from)?;
        Ok(position.copied)
    }
}
