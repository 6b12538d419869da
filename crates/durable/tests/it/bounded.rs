//! Lists of instances read a bounded number of rows, however many there are.

use reveille_pg::testing::TestDb;
use serde_json::Value;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::fixture::Fixture;

/// More than a page scans.
const INSTANCES: i64 = 50_000;
/// What a page of a list and a step of pruning scan.
const SCANNED: i64 = 20_000;
const STEP: i64 = 10_000;

const LAST: OffsetDateTime = datetime!(9999-12-31 00:00 UTC);
const FIRST: OffsetDateTime = datetime!(0001-01-01 00:00 UTC);

/// Instances that have all ended, a second apart.
async fn filled() -> TestDb {
    let Fixture { db, provider } = Fixture::new().await;
    let fill = "
        insert into {schema}.instances (instance_id, orchestration_name, current_execution_id, status, created_at)
        select 'instance-' || number, 'Order', 1, 'Completed', now() - number * interval '1 s'
        from generate_series(1, $1::bigint) as number;";
    let execute = "
        insert into {schema}.executions (instance_id, execution_id, status, started_at, completed_at)
        select 'instance-' || number, 1, 'Completed', now(), now() - number * interval '1 s'
        from generate_series(1, $1::bigint) as number;";
    for sql in [fill, execute] {
        let filled = sqlx::query(db.schema().sql(sql)).bind(INSTANCES).execute(db.database().pool()).await;
        filled.expect("filled");
    }
    sqlx::raw_sql(db.schema().sql("analyze {schema}.instances, {schema}.executions"))
        .execute(db.database().pool())
        .await
        .expect("analyzed");
    provider.flush().await;
    db
}

/// The nodes of an executed plan that read a table.
fn scans<'a>(plan: &'a Value, found: &mut Vec<&'a Value>) {
    if plan["Relation Name"].is_string() {
        found.push(plan);
    }
    plan["Plans"].as_array().into_iter().flatten().for_each(|child| scans(child, found));
}

/// The index that leads to the rows of `table`, and how many were read from it.
fn read(plan: &Value, table: &str) -> (String, i64) {
    let mut found = Vec::new();
    scans(&plan[0]["Plan"], &mut found);
    let scan = found.into_iter().find(|scan| scan["Relation Name"] == table).unwrap_or_else(|| panic!("{plan}"));
    let rows = scan["Actual Rows"].as_f64().expect("rows") * scan["Actual Loops"].as_f64().expect("loops");
    (scan["Index Name"].as_str().unwrap_or("none").to_owned(), rows as i64)
}

/// A page that finds nothing must end after a bounded scan of the index by age, and so must the search for instances that
/// may be deleted, by the index of ended executions.
/// Fifty thousand instances of which none matches; the executed plans tell what was read.
#[tokio::test]
async fn a_page_that_finds_nothing_ends_after_a_bounded_scan() {
    let db = filled().await;
    let explained = |file: &str| format!("explain (analyze, format json) {}", db.schema().sql(file).as_str());
    let none: Option<String> = None;
    let list = explained(include_str!("../../db/statements/inspect/find_instances.sql"));
    let plan: Value = sqlx::query_scalar(sqlx::AssertSqlSafe(list))
        .bind("Failed")
        .bind(&none)
        .bind(&none)
        .bind(&none)
        .bind(FIRST)
        .bind(LAST)
        .bind("")
        .bind(101_i64)
        .bind(SCANNED)
        .fetch_one(db.database().pool())
        .await
        .expect("a plan");
    assert_eq!(read(&plan, "instances"), ("instances_created".to_owned(), SCANNED));

    let ended = explained(include_str!("../../db/statements/operate/find_ended.sql"));
    let plan: Value = sqlx::query_scalar(sqlx::AssertSqlSafe(ended))
        .bind(LAST)
        .bind("Failed")
        .bind(&none)
        .bind(FIRST)
        .bind("")
        .bind(101_i64)
        .bind(STEP)
        .fetch_one(db.database().pool())
        .await
        .expect("a plan");
    // Sorting by the id as well reads those that ended at the same time as the last one, and a few ahead.
    let (index, rows) = read(&plan, "executions");
    assert!(index == "executions_ended" && (STEP..STEP + 100).contains(&rows), "{index}: {rows} rows");
}
