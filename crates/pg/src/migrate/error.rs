//! Reasons not to migrate a schema.

use std::time::Duration;

use super::Step;
use crate::Error;

/// Why a schema was not migrated, or is not up to date. In every case nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// The schema was migrated by a newer program. Update this one.
    #[error(
        "schema \"{schema}\" is newer than this program: its {component} migrations go to {found}, the program knows {known}; \
         run a newer program"
    )]
    Newer {
        /// The schema's name.
        schema: String,
        /// The component.
        component: &'static str,
        /// The highest number applied.
        found: u32,
        /// The highest number known.
        known: u32,
    },

    /// A migration was edited after it had been applied. Restore its text, and make the change a new migration.
    #[error(
        "{step} was applied to schema \"{schema}\" with another text; restore it and put the change in a new migration"
    )]
    Changed {
        /// The schema's name.
        schema: String,
        /// The migration.
        step: Step,
    },

    /// A migration is missing although a later one was applied: rows of the table `migration` were removed.
    #[error(
        "{step} is missing from schema \"{schema}\", which is already at {found}; restore the rows of its table migration"
    )]
    Skipped {
        /// The schema's name.
        schema: String,
        /// The migration.
        step: Step,
        /// The highest number applied.
        found: u32,
    },

    /// A programming error: a component's migrations are not numbered 1, 2, 3 and so on.
    #[error("the {component} migrations are misnumbered: expected number {expected}, found {found}")]
    Misnumbered {
        /// The component.
        component: &'static str,
        /// The expected number.
        expected: u32,
        /// The number found.
        found: u32,
    },

    /// Verification failed: steps are missing. Migrate the schema.
    #[error("schema \"{schema}\" is not up to date, run the migrations; missing: {}", list(missing))]
    Behind {
        /// The schema's name.
        schema: String,
        /// The missing steps, in order.
        missing: Vec<Step>,
    },

    /// Another process has been migrating this schema for too long. Try again when it is done.
    #[error("another process has been migrating schema \"{schema}\" for more than {} s", waited.as_secs())]
    Locked {
        /// The schema's name.
        schema: String,
        /// How long this process waited.
        waited: Duration,
    },

    /// A step failed; all steps of the run were rolled back.
    #[error("{step} failed, nothing was applied")]
    Failed {
        /// The step.
        step: Step,
        /// The error of the server.
        source: Box<Error>,
    },
}

impl MigrationError {
    /// Whether the same run may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            MigrationError::Locked { .. } => true,
            MigrationError::Failed { source, .. } => source.is_transient(),
            _ => false,
        }
    }

    pub(crate) fn cause(&self) -> Option<&Error> {
        match self {
            MigrationError::Failed { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The most steps that a message lists: all of them are missing from a new schema.
const LISTED: usize = 10;

fn list(steps: &[Step]) -> String {
    let mut text = steps.iter().take(LISTED).map(Step::to_string).collect::<Vec<_>>().join(", ");
    if steps.len() > LISTED {
        text.push_str(&format!(" and {} more", steps.len() - LISTED));
    }
    text
}
