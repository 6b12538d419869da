//! The engine's part of the schema, and its statements.

use reveille_flow::Flow;
use reveille_pg::Migrator;
use reveille_pg::testing::{TestDb, check_snapshot, prepare_all, sql_files};

async fn migrated() -> TestDb {
    let db = TestDb::new().await;
    Migrator::new(db.schema(), Flow::components(db.schema())).run(db.database()).await.expect("make the tables");
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

/// A list of templates shows the start of each description, and does not read the documents.
/// One description is long, and one document has a NUL character in its schema, which PostgreSQL stores and cannot
/// decode.
#[tokio::test]
async fn templates_are_listed_without_reading_their_documents() {
    let db = TestDb::new().await;
    let flow = Flow::open(db.database().clone(), db.schema().clone(), reveille_flow::Options::default())
        .await
        .expect("a flow");
    let long = "é".repeat(2_000);
    for (name, rest) in [
        ("a", "\"description\": \"plain\"".to_owned()),
        ("b", format!("\"description\": \"{long}\"")),
        ("c", r#""input_schema": {"const": "\u0000"}, "description": "hidden""#.to_owned()),
    ] {
        let text = format!(r#"{{"name": "{name}", "namespace_name": "n", "steps": [{{"name": "s"}}], {rest}}}"#);
        flow.register(&text).await.expect("a template");
    }
    let page = flow.templates(&reveille_flow::TemplateFilter::default(), None, 10).await.expect("a page");
    let listed: Vec<&str> = page.templates.iter().map(|template| template.description.as_str()).collect();
    assert_eq!(listed, ["plain", &"é".repeat(1_000), "hidden"]);
}
