//! This crate's part of the schema, and its statements.

use reveille_access::Tokens;
use reveille_pg::Migrator;
use reveille_pg::testing::{TestDb, check_snapshot, prepare_all, sql_files};

pub(crate) async fn migrated() -> TestDb {
    let db = TestDb::new().await;
    Migrator::new(db.schema(), Tokens::components()).run(db.database()).await.expect("make the tables");
    db
}

/// A change of the schema must be visible in a review.
/// Migrates an empty schema and compares it with the committed text.
#[tokio::test]
async fn the_schema_is_the_committed_one() {
    let db = migrated().await;
    check_snapshot(db.database(), db.schema(), concat!(env!("CARGO_MANIFEST_DIR"), "/db/schema.sql")).await;
}

/// An invalid statement must be found here, even if it is rarely sent.
/// Prepares every statement file.
#[tokio::test]
async fn every_statement_fits_the_schema() {
    let db = migrated().await;
    let files = sql_files(concat!(env!("CARGO_MANIFEST_DIR"), "/db/statements"));
    prepare_all(db.database(), db.schema(), &files).await;
}
