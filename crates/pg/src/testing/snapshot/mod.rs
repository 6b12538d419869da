//! A schema as one text, to be committed and compared.
//!
//! Migrations say how a schema came about, not what it is now; and a changed migration, a lost index or a function that
//! became `volatile` is easy to overlook in them. So each crate with a schema commits what its migrations and functions
//! lead to, `schema.sql`, and a test compares it with [`check_snapshot`]: a change of the schema is then a change that
//! a reviewer sees.
//!
//! The text is read from the catalogs. It is the same on every supported version of PostgreSQL, on every run and in
//! every schema: things are ordered by name, and the schema's own name is `{schema}`. It is meant to be read, not
//! applied. Owners, privileges, comments and the bodies of functions, which are files themselves, are not part of it.
//! What it cannot describe (views, domains, policies, …) makes it panic rather than be left out.

mod difference;

use std::path::Path;

use sqlx::{PgConnection, Row as _};

use crate::schema::literal;
use crate::{Database, Schema};

/// Set to `1`, it makes [`check_snapshot`] write the file instead of comparing it.
const UPDATE: &str = "REVEILLE_UPDATE_SNAPSHOTS";

/// The first line of every snapshot.
const HEAD: &str =
    "-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.\n";

/// The parts, in the order in which they build on each other.
const PARTS: [&str; 5] = [
    include_str!("enumerations.sql"),
    include_str!("composites.sql"),
    include_str!("sequences.sql"),
    include_str!("tables.sql"),
    include_str!("functions.sql"),
];

/// Describes everything in a schema: enumerations, composite types, sequences, tables with their columns, constraints,
/// storage parameters, indexes and triggers, and the signatures of functions.
///
/// Wherever the schema's name occurs in a definition `{schema}` replaces it, so that name must not be an everyday
/// word; those of a [`TestDb`](super::TestDb) are not.
///
/// # Panics
/// If the schema has something that cannot be described, with its name; or if the database does not answer.
pub async fn snapshot(database: &Database, schema: &Schema) -> String {
    let mut transaction = database.begin().await.expect("begin a transaction for the snapshot");
    let session = schema.sql(include_str!("session.sql"));
    sqlx::raw_sql(&session).execute(&mut *transaction).await.expect("set the format of definitions");
    let undescribed = definitions(&mut transaction, schema, include_str!("undescribed.sql")).await;
    assert!(
        undescribed.is_empty(),
        "a snapshot does not describe these yet, teach it in crates/pg/src/testing/snapshot: {}",
        undescribed.join(", ")
    );
    let mut text = HEAD.to_owned();
    for part in PARTS {
        for definition in definitions(&mut transaction, schema, part).await {
            text.push('\n');
            text.push_str(&nameless(&definition, schema));
            text.push('\n');
        }
    }
    text
}

/// Compares a schema with the committed `file`. With `REVEILLE_UPDATE_SNAPSHOTS=1` it writes the file instead.
///
/// # Panics
/// If they differ, with the difference and how to accept it; and as [`snapshot`].
pub async fn check_snapshot(database: &Database, schema: &Schema, file: impl AsRef<Path>) {
    let (file, now) = (file.as_ref(), snapshot(database, schema).await);
    if std::env::var_os(UPDATE).is_some_and(|value| value == "1") {
        return std::fs::write(file, now).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    }
    // A checkout may have changed the line endings. A file that is missing differs in every line.
    let committed = std::fs::read_to_string(file).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        committed == now,
        "the schema is not what {} says (- committed, + found):\n{}\nIf that is meant, run the test again with {UPDATE}=1 \
         and commit the file.",
        file.display(),
        difference::between(&committed, &now)
    );
}

/// Runs a statement that answers one text per row.
async fn definitions(connection: &mut PgConnection, schema: &Schema, text: &str) -> Vec<String> {
    let rows = sqlx::raw_sql(schema.sql(text)).fetch_all(connection).await;
    let rows = rows.unwrap_or_else(|error| panic!("cannot read the catalogs: {error}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// Puts placeholders where the schema's name is: as a literal, quoted as programs do it, and bare or within a longer
/// name.
fn nameless(definition: &str, schema: &Schema) -> String {
    definition
        .replace(&*literal(schema.name()), "{schema_text}")
        .replace(schema.quoted(), "{schema}")
        .replace(schema.name(), "{schema}")
}
