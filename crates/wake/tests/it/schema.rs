//! The engine's tables and functions, and its statements.

use reveille_pg::Migrator;
use reveille_pg::testing::{TestDb, check_snapshot, prepare_all, sql_files};
use reveille_wake::Wake;

async fn migrated() -> TestDb {
    let db = TestDb::new().await;
    Migrator::new(db.schema(), vec![Wake::component()]).run(db.database()).await.expect("create the tables");
    db
}

/// A change of the schema must be committed.
/// Migrates an empty schema and compares it with the committed text.
#[tokio::test]
async fn the_schema_is_the_committed_one() {
    let db = migrated().await;
    check_snapshot(db.database(), db.schema(), concat!(env!("CARGO_MANIFEST_DIR"), "/db/schema.sql")).await;
}

/// Statements that are rarely sent are checked as well.
/// Prepares every file, and the calls that products make, with the types they bind.
#[tokio::test]
async fn every_statement_fits_the_schema() {
    let db = migrated().await;
    let files = sql_files(concat!(env!("CARGO_MANIFEST_DIR"), "/db/statements"));
    prepare_all(db.database(), db.schema(), &files).await;
    let calls = [
        ("notify", "select {schema}.notify($1::text[], $2::text[])"),
        ("finish_batch", "select {schema}.finish_batch($1::uuid, $2::text[], $3::text[], $4::text[])"),
    ];
    prepare_all(db.database(), db.schema(), &calls).await;
}
