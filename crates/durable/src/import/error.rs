//! Why nothing, or not everything, was imported.
//!
//! Apart from [`crate::Error`]: an import is done once, by a person who reads why it was refused and what to do. Whoever only runs a provider
//! should not have to think of a source that is leased.

/// What keeps an import from beginning or going on. Nothing in the source has been changed, whatever it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database: a statement failed, or the connection. What was committed stays; import again to go on from there.
    #[error(transparent)]
    Database(#[from] pg::Error),

    /// There is no such schema in this database. Correct the name, or connect to the database that has it.
    #[error("there is no schema {schema:?} in this database to import from")]
    NoSource {
        /// The source.
        schema: String,
    },

    /// The schema is something else.
    #[error("schema {schema:?} is not duroxide-pg's: it has no table _duroxide_migrations")]
    Foreign {
        /// The source.
        schema: String,
    },

    /// The schema is an older duroxide-pg's. Start a current one on it once, which brings it up to date.
    #[error(
        "schema {schema:?} was made by an older duroxide-pg and lacks {}: start duroxide-pg 0.1.38 or newer on it once, \
         which brings it up to date, and import then", missing.join(", ")
    )]
    Old {
        /// The source.
        schema: String,
        /// What is missing, as `table.column`.
        missing: Vec<String>,
    },

    /// A schema cannot be imported into itself.
    #[error("schema {schema:?} is the source and the target: import into a schema of its own")]
    Itself {
        /// Both.
        schema: String,
    },

    /// The target is a schema of duroxide-pg as well, whose tables have the names of ours. Choose another.
    #[error("the target, schema {schema:?}, is one of duroxide-pg: import into a new schema, or one of Reveille's")]
    Occupied {
        /// The target.
        schema: String,
    },

    /// Somebody works on the source. Stop all its runtimes and import when the leases they left have ended.
    #[error(
        "somebody works on schema {schema:?}: {turns} turns, {activities} activities and {sessions} sessions are leased, the last \
         until {until} ({seconds} s from now): stop every runtime that uses it, and import when that time has passed"
    )]
    Leased {
        /// The source.
        schema: String,
        /// Instances that are being worked on.
        turns: u64,
        /// Activities that are being executed.
        activities: u64,
        /// Sessions that a worker has.
        sessions: u64,
        /// When the last of these leases ends, if nobody renews it.
        until: String,
        /// How long that takes.
        seconds: u64,
    },

    /// An activity is written in a way that this version of duroxide does not read. Let the old runtime execute it, or delete it there.
    #[error(
        "row {id} of worker_queue in schema {schema:?} is no activity that this version of duroxide can read ({reason}): let the old \
         runtime execute it first, or delete it"
    )]
    Unreadable {
        /// The source.
        schema: String,
        /// Its number.
        id: i64,
        /// What is wrong with it, without a word of it.
        reason: String,
    },

    /// The target has instances of the same names, which are somebody's own. Delete them there or here, or choose another target.
    #[error(
        "{instances} instances of schema {schema:?} exist in the target already, the first is {first:?}: delete them in one of the \
         two, or import into another schema"
    )]
    Taken {
        /// The source.
        schema: String,
        /// How many.
        instances: u64,
        /// The first of them.
        first: String,
    },

    /// Everything was carried over, and it is not what the source holds now. Somebody has worked on the source between two runs of the import,
    /// or since: what was carried over is older than what is there. Remove the target and begin anew, or leave the source alone for good.
    #[error(
        "{carried} {what} were carried over and schema {schema:?} holds {held}: it was changed since the import began; drop the \
         target schema and import anew"
    )]
    Changed {
        /// The source.
        schema: String,
        /// Of what.
        what: &'static str,
        /// How many were carried over.
        carried: u64,
        /// How many the source holds.
        held: u64,
    },
}

impl Error {
    /// Whether the same call may succeed later without anybody correcting anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Database(error) => error.is_transient(),
            Error::Leased { .. } => true,
            _ => false,
        }
    }
}

/// The result of imports.
pub type Result<T> = std::result::Result<T, Error>;
