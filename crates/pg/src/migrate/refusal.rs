//! Why a schema is left as it is.

use std::time::Duration;

use super::Step;
use crate::Error;

/// Why a schema was not, or is not, brought up to date. In every case nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
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
    #[error("the {component} migrations are misnumbered: {expected} should come where {found} is")]
    Misnumbered {
        /// The component.
        component: &'static str,
        /// The number that should be there.
        expected: u32,
        /// The number that is.
        found: u32,
    },

    /// Only verified: the schema lacks something. Migrate it.
    #[error("schema \"{schema}\" is not up to date, run the migrations; missing: {}", list(missing))]
    Behind {
        /// The schema's name.
        schema: String,
        /// What is missing, in order.
        missing: Vec<Step>,
    },

    /// Another process has been migrating this schema for too long. Try again when it is done.
    #[error("schema \"{schema}\" is being migrated by another process, for more than {} s", waited.as_secs())]
    Locked {
        /// The schema's name.
        schema: String,
        /// How long it was waited for.
        waited: Duration,
    },

    /// The server did not accept a step; all steps of the run were rolled back.
    #[error("{step} failed, nothing was applied")]
    Failed {
        /// The step.
        step: Step,
        /// Why.
        source: Box<Error>,
    },
}

impl Refusal {
    /// Whether the same run may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Refusal::Locked { .. } => true,
            Refusal::Failed { source, .. } => source.is_transient(),
            _ => false,
        }
    }

    pub(crate) fn cause(&self) -> Option<&Error> {
        match self {
            Refusal::Failed { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The longest list a message shows; a fresh schema lacks everything, and one screen is enough to see that.
const LISTED: usize = 10;

fn list(steps: &[Step]) -> String {
    let mut text = steps.iter().take(LISTED).map(Step::to_string).collect::<Vec<_>>().join(", ");
    if steps.len() > LISTED {
        text.push_str(&format!(" and {} more", steps.len() - LISTED));
    }
    text
}
