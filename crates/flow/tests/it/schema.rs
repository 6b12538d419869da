//! What the engine keeps in a schema, and the statements it sends there.

use flow::Flow;
use pg::Migrator;
use pg::testing::{TestDb, check_snapshot, prepare_all, sql_files};

async fn migrated() -> TestDb {
    let db = TestDb::new().await;
    Migrator::new(db.schema(), Flow::components(db.schema())).run(db.database()).await.expect("make the tables");
    db
}

/// A change of the schema must be one that somebody has seen.
/// Migrates an empty schema and compares it with the committed text.
#[tokio::test]
async fn the_schema_is_the_committed_one() {
    let db = migrated().await;
    check_snapshot(db.database(), db.schema(), concat!(env!("CARGO_MANIFEST_DIR"), "/db/schema.sql")).await;
}

/// A mistake in a statement that is rarely sent must not wait for its day.
/// Prepares every file there is.
#[tokio::test]
async fn every_statement_fits_the_schema() {
    let db = migrated().await;
    let files = sql_files(concat!(env!("CARGO_MANIFEST_DIR"), "/db/statements"));
    prepare_all(db.database(), db.schema(), &files).await;
}

/// Templates of an earlier version must come through the migration, whatever is in their texts, and get what lists show of them.
/// What the migration adds is taken away again; then it runs with three templates: one is plain, one has a long description, and one has a NUL character in its schema.
#[tokio::test]
async fn earlier_templates_are_listed() {
    let db = migrated().await;
    let run = async |sql: &'static str| {
        let sql = db.schema().sql(sql);
        sqlx::raw_sql(sql).execute(db.database().pool()).await.expect("run a script");
    };
    run(r#"
        drop index {schema}.template_listed, {schema}.investigation_newest_open;
        alter table {schema}.template drop column description, drop column step_count;
        insert into {schema}.namespace (name) values ('n');
        insert into {schema}.template (namespace_id, name, version, document, staleness)
        select n.id, d.name, '1.0.0', d.document, 'e' from {schema}.namespace n, (values
            ('a', '{"description":"plain"}'),
            ('b', '{"description":"' || repeat('é', 2000) || '"}'),
            ('c', '{"input_schema":{"const":"\u0000"},"description":"hidden"}')) as d (name, document)
        where n.name = 'n'"#)
    .await;
    run(include_str!("../../db/migrations/0011_bounded_lists.sql")).await;
    let flow = Flow::open(db.database().clone(), db.schema().clone(), flow::Options::default()).await.expect("a flow");
    let page = flow.templates(&flow::TemplateFilter::default(), None, 10).await.expect("a page");
    let listed: Vec<&str> = page.templates.iter().map(|template| template.description.as_str()).collect();
    assert_eq!(listed, ["plain", &"é".repeat(1_000), ""]);
}
