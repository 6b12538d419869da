//! Errors of imports.
//!
//! Separate from [`crate::Error`]: an import runs once, and its errors concern only that.

/// Why an import was rejected or stopped. The source has not been changed in any case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A statement or the connection failed. Import again to continue from the last committed batch.
    #[error(transparent)]
    Database(#[from] reveille_pg::Error),

    /// There is no such schema in this database. Correct the name, or connect to the database that has it.
    #[error("there is no schema {schema:?} in this database to import from")]
    NoSource {
        /// The source.
        schema: String,
    },

    /// The schema is not one of duroxide-pg.
    #[error("schema {schema:?} is not duroxide-pg's: it has no table _duroxide_migrations")]
    Foreign {
        /// The source.
        schema: String,
    },

    /// The schema is of an older duroxide-pg. Start a current one on it once, which migrates it.
    #[error(
        "schema {schema:?} was created by an older duroxide-pg and lacks {}: start duroxide-pg 0.1.38 or newer on it \
         once, which migrates it, and import then", missing.join(", ")
    )]
    Old {
        /// The source.
        schema: String,
        /// What is missing, as `table.column`.
        missing: Vec<String>,
    },

    /// A schema cannot be imported into itself.
    #[error("schema {schema:?} is both the source and the target: import into another schema")]
    Itself {
        /// Both.
        schema: String,
    },

    /// The target is a schema of duroxide-pg, whose tables have the same names. Choose another.
    #[error("the target, schema {schema:?}, is one of duroxide-pg: import into a new schema, or one of Reveille")]
    Occupied {
        /// The target.
        schema: String,
    },

    /// The source is in use. Stop all its runtimes and import when their leases have expired.
    #[error(
        "schema {schema:?} is in use: {turns} turns, {activities} activities and {sessions} sessions are leased, the last \
         until {until} ({seconds} s from now): stop every runtime that uses it, and import after that time"
    )]
    Leased {
        /// The source.
        schema: String,
        /// Leased turns.
        turns: u64,
        /// Leased activities.
        activities: u64,
        /// Leased sessions.
        sessions: u64,
        /// When the last of these leases expires.
        until: String,
        /// In how many seconds that is.
        seconds: u64,
    },

    /// An activity cannot be decoded by this version of duroxide. Let the old runtime execute it, or delete it there.
    #[error(
        "row {id} of worker_queue in schema {schema:?} is not an activity that this version of duroxide can decode ({reason}): let \
         the old runtime execute it first, or delete it"
    )]
    Unreadable {
        /// The source.
        schema: String,
        /// Its id.
        id: i64,
        /// What is wrong with it, without the data.
        reason: String,
    },

    /// The target already has instances with the same names. Delete them in one of the two, or choose another target.
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

    /// The source has changed since the import began: the copied data is older than the source. Drop the target schema
    /// and import again.
    #[error(
        "{copied} {what} were copied and schema {schema:?} holds {held}: it has changed since the import began; drop the \
         target schema and import again"
    )]
    Changed {
        /// The source.
        schema: String,
        /// Of what.
        what: &'static str,
        /// How many were copied.
        copied: u64,
        /// How many the source has.
        held: u64,
    },
}

impl Error {
    /// Whether the same call may succeed later without any correction.
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
