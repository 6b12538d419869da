//! From duroxide-pg to here: a schema of duroxide-pg or duroxide-pg-opt, read and carried over within one database.
//!
//! Carried over are instances, executions, histories, messages, activities, sessions, keys and values; afterwards runtimes on this provider
//! go on where the others stopped. Nothing in the source is changed. The dangers, and what is done about them:
//!
//! - *Somebody still works on the source*, and the same orchestration would go on in two places: leases that have not ended are a refusal, and
//!   while an import runs nobody can write to the source.
//! - *It takes long and breaks off*: it goes by batches, each committed together with how far that is, so the next run goes on from there.
//! - *Somebody works on the target meanwhile*: messages come last, when everything they may lead to is there.
//! - *Something is left behind*: what was carried over is counted and compared with the source before an import is done.
//!
//! ```no_run
//! # async fn example(provider: durable::PostgresProvider) -> Result<(), durable::import::Error> {
//! let source = durable::import::Source::new("duroxide")?;
//! let imported = provider.import_from(&source).await?;
//! tracing::info!(%imported, "orchestrations go on here");
//! # Ok(()) }
//! ```

mod activities;
mod count;
mod error;
mod inspect;
mod ledger;
mod stage;

use std::time::{Duration, Instant};

use pg::{Database, Schema};

pub use count::Imported;
pub use error::{Error, Result};

use crate::provider::PostgresProvider;
use inspect::Looking;
use ledger::{Ledger, Position};
use stage::Stages;

/// Instances, or rows of a queue, per transaction: enough to pay for its commit, and few enough that a break costs a second's work.
const BATCH: u32 = 500;
/// How often progress is logged.
const LOG_EVERY: Duration = Duration::from_secs(5);

/// A schema to import from: duroxide-pg's or duroxide-pg-opt's, in the target's own database.
#[derive(Debug, Clone)]
pub struct Source {
    schema: Schema,
    batch: u32,
}

impl Source {
    /// The schema's name, unquoted.
    ///
    /// # Errors
    /// [`Error::Database`] for a name that no schema can have.
    pub fn new(schema: &str) -> Result<Source> {
        Ok(Source { schema: Schema::new(schema)?, batch: BATCH })
    }

    /// How many instances are carried over in one transaction: 500 unless this says otherwise.
    #[must_use]
    pub fn batch(self, instances: u32) -> Source {
        Source { batch: instances.max(1), ..self }
    }

    /// The dry run: how much there is to carry over, and whether anything stands in the way. Changes nothing; the target need not exist yet.
    ///
    /// # Errors
    /// What an import would be refused for.
    pub async fn survey(&self, database: &Database, target: &Schema) -> Result<Imported> {
        let looking = Looking::new(&self.schema, target)?;
        let mut transaction = looking.begin(database).await?;
        looking.shape(&mut transaction).await?;
        looking.leases(&mut transaction).await?;
        let held = looking.count(&mut transaction).await?;
        let target_holds = looking.target(&mut transaction).await?;
        let position = match target_holds.imports {
            true => Ledger::new(&self.schema, target).position(&mut transaction).await?,
            false => None,
        };
        if target_holds.instances {
            looking.conflicts(&mut transaction, position.as_ref()).await?;
        }
        transaction.rollback().await.map_err(pg::Error::from)?;
        Ok(held)
    }
}

impl PostgresProvider {
    /// Carries everything over from a schema of duroxide-pg. Answers how much that was, in all its runs.
    ///
    /// It takes two connections of the pool. Progress is logged. If it fails after it has begun, what is committed stays, and a further call
    /// goes on from there; after it is done, a further call compares the counts and carries nothing.
    ///
    /// # Errors
    /// Every variant of [`Error`] says what to do.
    ///
    /// # Cancel safety
    /// Dropping the future ends the import between two batches; call it again to go on.
    pub async fn import_from(&self, source: &Source) -> Result<Imported> {
        let (database, target) = (&self.inner.db, &self.inner.schema);
        let looking = Looking::new(&source.schema, target)?;
        // Until it ends, the source stays as it is counted here.
        let mut guard = looking.begin(database).await?;
        looking.shape(&mut guard).await?;
        looking.lock(&mut guard).await?;
        looking.leases(&mut guard).await?;
        let held = looking.count(&mut guard).await?;

        let ledger = Ledger::new(&source.schema, target);
        let mut transaction = looking.begin(database).await?;
        ledger.open(&mut transaction, stage::FIRST).await?;
        let mut position = ledger.stand(&mut transaction).await?;
        looking.conflicts(&mut transaction, Some(&position)).await?;
        transaction.commit().await.map_err(pg::Error::from)?;

        let stages = Stages::new(&source.schema, target, source.batch);
        let mut logged = Instant::now();
        loop {
            let before = stage::carried_before(&position.stage);
            position.carried.compare(&held, before, source.schema.name())?;
            if position.stage == stage::DONE {
                break;
            }
            // Without the guard the source may change: what follows is for another run then.
            looking.still_locked(&mut guard).await?;
            let mut transaction = looking.begin(database).await?;
            position = ledger.stand(&mut transaction).await?;
            position = stages.carry(&mut transaction, position).await?;
            ledger.advance(&mut transaction, &position).await?;
            transaction.commit().await.map_err(pg::Error::from)?;
            if logged.elapsed() >= LOG_EVERY {
                logged = Instant::now();
                let Position { stage, carried, .. } = &position;
                tracing::info!(stage, %carried, of = %held, "importing");
            }
        }
        guard.rollback().await.map_err(pg::Error::from)?;
        Ok(position.carried)
    }
}
