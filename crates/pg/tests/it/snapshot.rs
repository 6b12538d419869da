//! Schemas as text, and statements against them.

use reveille_pg::testing::{TestDb, check_snapshot, prepare_all, snapshot, sql_files};

/// One of everything a snapshot describes.
const RICH: &str = include_str!("snapshot/rich.sql");
/// How it is described, on every version.
const DESCRIBED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshot/schema.sql");

async fn apply(db: &TestDb, text: &str) {
    sqlx::raw_sql(db.schema().sql(text)).execute(db.database().pool()).await.expect("make the schema");
}

/// The file is compared on servers of every version, and in schemas of every name.
/// Makes one of everything in a plain and in an odd schema; the text is the committed one both times.
#[tokio::test]
async fn a_schema_is_described_alike_everywhere() {
    for db in [TestDb::new().await, TestDb::with_odd_name().await] {
        apply(&db, RICH).await;
        check_snapshot(db.database(), db.schema(), DESCRIBED).await;
    }
}

/// A missing index must be reported as such, with the fix.
/// Compares a schema without its index with a file that has it.
#[tokio::test]
#[should_panic(expected = "- CREATE INDEX note_text ON {schema}.note USING btree (text);")]
async fn a_schema_that_differs_is_rejected_with_the_difference() {
    let db = TestDb::new().await;
    apply(&db, "create table {schema}.note (text text); create index note_text on {schema}.note (text)").await;
    let file = Removed(std::env::temp_dir().join(format!("{}.sql", db.schema().name())));
    std::fs::write(&file.0, snapshot(db.database(), db.schema()).await).expect("write the file");
    check_snapshot(db.database(), db.schema(), &file.0).await;
    apply(&db, "drop index {schema}.note_text").await;
    check_snapshot(db.database(), db.schema(), &file.0).await;
}

/// Removes its file however the test ends.
struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An object that a snapshot cannot describe must cause an error, not be left out.
/// Asks for one of a schema with a view.
#[tokio::test]
#[should_panic(expected = "view ")]
async fn an_object_that_cannot_be_described_is_rejected() {
    let db = TestDb::new().await;
    apply(&db, "create view {schema}.one as select 1 as one").await;
    snapshot(db.database(), db.schema()).await;
}

/// A misspelt statement must be found without running it, and named.
/// Prepares one that is right and deletes, and one with a column that does not exist; nothing may have been deleted.
#[tokio::test]
async fn an_invalid_statement_is_named() {
    let db = TestDb::new().await;
    apply(&db, "create table {schema}.note (text text); insert into {schema}.note values ('kept')").await;
    let right = ("right", "delete from {schema}.note where text = $1 or true");
    prepare_all(db.database(), db.schema(), &[right]).await;
    let (database, schema) = (db.database().clone(), db.schema().clone());
    let wrong = ("wrong", "delete from {schema}.note where txet = $1");
    let refused = tokio::spawn(async move { prepare_all(&database, &schema, &[right, wrong]).await }).await;
    let reason = refused.expect_err("a statement without its column").into_panic();
    let reason = reason.downcast_ref::<String>().expect("a message");
    assert!(reason.contains("wrong: ") && reason.contains("txet") && !reason.contains("right: "), "{reason}");
    let count = db.schema().sql("select count(*) from {schema}.note");
    let kept: i64 = sqlx::query_scalar(count).fetch_one(db.database().pool()).await.expect("count");
    assert_eq!(kept, 1);
}

/// Every file of a folder must be found, and no other.
/// Reads the folder of this test's own texts.
#[test]
fn the_statements_of_a_folder_are_its_sql_files() {
    let found = sql_files(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/snapshot"));
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["rich", "schema"]);
    assert_eq!(found[0].1, RICH);
}
