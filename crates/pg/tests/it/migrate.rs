//! Migrations against a real server.

use std::time::Duration;

use reveille_pg::migrate::{Component, Function, Migration, MigrationError, Migrator, Step};
use reveille_pg::testing::TestDb;
use reveille_pg::{Database, Error, Options, Result};

const ONE: Migration = Migration {
    number: 1,
    name: "create jobs",
    sql: "create table {schema}.job (id bigint primary key, tags text[] not null default '{}'); -- jobs",
};
const TWO: Migration = Migration {
    number: 2,
    name: "add a due time",
    sql: "alter table {schema}.job add due_at timestamptz; create index job_due on {schema}.job (due_at)",
};
const COUNT: Function = Function {
    name: "count_jobs",
    sql: "create or replace function {schema}.count_jobs() returns bigint language sql stable \
          as 'select count(*) + {offset} from {schema}.job'",
};

fn component(migrations: &'static [Migration], offset: u32) -> Component {
    Component { name: "test", migrations, functions: &[COUNT], vars: vec![("offset".into(), offset.to_string())] }
}

fn migrator(db: &TestDb, migrations: &'static [Migration], offset: u32) -> Migrator {
    Migrator::new(db.schema(), vec![component(migrations, offset)])
}

fn all_steps() -> Vec<Step> {
    vec![
        Step::Migration { component: "test", number: 1, name: "create jobs" },
        Step::Migration { component: "test", number: 2, name: "add a due time" },
        Step::Function { component: "test", name: "count_jobs" },
    ]
}

fn migration_error(result: Result<impl std::fmt::Debug>) -> MigrationError {
    match result.expect_err("must be refused") {
        Error::Migration(error) => error,
        other => panic!("{other:?}"),
    }
}

async fn jobs(db: &TestDb) -> Result<i64> {
    Ok(sqlx::query_scalar(db.schema().sql("select {schema}.count_jobs()")).fetch_one(db.database().pool()).await?)
}

/// A description of the schema: columns, indexes, functions and applied steps, without names of schemas and times.
async fn picture(db: &TestDb) -> Result<Vec<String>> {
    let sql = db.schema().sql(
        "select format('%s.%s %s %s', table_name, column_name, data_type, column_default)
         from information_schema.columns where table_schema = {schema_text}
         union all select indexdef from pg_indexes where schemaname = {schema_text}
         union all select prosrc from pg_proc join pg_namespace n on n.oid = pronamespace where nspname = {schema_text}
         union all select format('%s %s %s', component, number, name) from {schema}.migration",
    );
    let lines: Vec<String> = sqlx::query_scalar(sql).fetch_all(db.database().pool()).await?;
    let nameless = |line: String| line.replace(db.schema().quoted(), "…").replace(db.schema().name(), "…");
    let mut lines: Vec<_> = lines.into_iter().map(nameless).collect();
    lines.sort();
    Ok(lines)
}

/// The server's identity of the function's current definition: it changes whenever the function is replaced.
async fn function_version(db: &TestDb) -> Result<String> {
    let sql = "select p.xmin::text from pg_proc p join pg_namespace n on n.oid = pronamespace where nspname = $1";
    Ok(sqlx::query_scalar(sql).bind(db.schema().name()).fetch_one(db.database().pool()).await?)
}

/// Everything is applied once, in order, and a second run finds nothing to do.
#[tokio::test]
async fn a_schema_is_brought_up_to_date_once() -> Result<()> {
    let db = TestDb::new().await;
    let migrator = migrator(&db, &[ONE, TWO], 0);
    assert_eq!(migrator.run(db.database()).await?.applied, all_steps());
    assert_eq!(jobs(&db).await?, 0);
    assert_eq!(migrator.run(db.database()).await?.applied, []);
    migrator.verify(db.database()).await
}

/// Ten processes that start together must all succeed, and each step is applied by one of them. Ten pools stand in for
/// them: nothing else is shared. They connect first, so that they begin at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn ten_processes_migrate_together() -> Result<()> {
    let db = TestDb::new().await;
    let ready = std::sync::Arc::new(tokio::sync::Barrier::new(10));
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (migrator, url, ready) = (migrator(&db, &[ONE, TWO], 0), db.url().to_owned(), ready.clone());
        runs.spawn(async move {
            let database = Database::connect(&url, Options::default().max_connections(1)).await?;
            database.session().await?.finish().await?;
            ready.wait().await;
            migrator.run(&database).await
        });
    }
    let mut applied = Vec::new();
    while let Some(run) = runs.join_next().await {
        applied.extend(run.expect("no panic")?.applied);
    }
    assert_eq!(applied, all_steps());
    Ok(())
}

/// The name of the schema may be anything. The name has quotes, blanks and letters beyond ASCII.
#[tokio::test]
async fn an_odd_schema_name_works() -> Result<()> {
    let db = TestDb::with_odd_name().await;
    let migrator = migrator(&db, &[ONE, TWO], 0);
    migrator.run(db.database()).await?;
    assert_eq!(jobs(&db).await?, 0);
    migrator.verify(db.database()).await
}

/// The schema itself is created where it is missing.
#[tokio::test]
async fn a_missing_schema_is_created() -> Result<()> {
    let db = TestDb::new().await;
    let drop = db.schema().sql("drop schema {schema}");
    sqlx::raw_sql(drop).execute(db.database().pool()).await?;
    assert_eq!(migrator(&db, &[ONE], 0).run(db.database()).await?.applied.len(), 2);
    Ok(())
}

/// A program older than the schema must not touch it. The newer one migrates first, the older one comes after it.
#[tokio::test]
async fn a_newer_schema_is_refused() -> Result<()> {
    let db = TestDb::new().await;
    migrator(&db, &[ONE, TWO], 0).run(db.database()).await?;
    let older = migrator(&db, &[ONE], 7);
    let refused = migration_error(older.run(db.database()).await);
    assert!(matches!(refused, MigrationError::Newer { found: 2, known: 1, component: "test", .. }), "{refused}");
    assert!(matches!(migration_error(older.verify(db.database()).await), MigrationError::Newer { .. }));
    assert_eq!(jobs(&db).await?, 0, "its function is not applied either");
    Ok(())
}

/// A migration that was edited after it had been applied is detected, and no further step is applied.
#[tokio::test]
async fn a_changed_migration_is_refused() -> Result<()> {
    const EDITED: Migration = Migration { sql: "create table {schema}.job (id bigint primary key)", ..ONE };
    let db = TestDb::new().await;
    migrator(&db, &[ONE], 0).run(db.database()).await?;
    let refused = migration_error(migrator(&db, &[EDITED, TWO], 0).run(db.database()).await);
    assert!(
        matches!(&refused, MigrationError::Changed { step, .. } if step.to_string().contains("create jobs")),
        "{refused}"
    );
    Ok(())
}

/// A function is applied again when its text changes, and only then. The server's row of it tells whether it was.
#[tokio::test]
async fn a_function_is_applied_again_when_it_changed() -> Result<()> {
    let db = TestDb::new().await;
    migrator(&db, &[ONE], 0).run(db.database()).await?;
    let first = function_version(&db).await?;
    migrator(&db, &[ONE], 0).run(db.database()).await?;
    assert_eq!(function_version(&db).await?, first);
    let report = migrator(&db, &[ONE], 5).run(db.database()).await?;
    assert_eq!(report.applied, [Step::Function { component: "test", name: "count_jobs" }]);
    assert_ne!(function_version(&db).await?, first);
    assert_eq!(jobs(&db).await?, 5);
    Ok(())
}

/// A function applied together with a new migration keeps working with it, and one that leaves the list stays.
#[tokio::test]
async fn a_function_that_leaves_the_list_stays() -> Result<()> {
    let db = TestDb::new().await;
    migrator(&db, &[ONE], 3).run(db.database()).await?;
    let without = Component { name: "test", migrations: &[ONE, TWO], functions: &[], vars: Vec::new() };
    Migrator::new(db.schema(), vec![without]).run(db.database()).await?;
    assert_eq!(jobs(&db).await?, 3);
    Ok(())
}

/// The script applied by hand makes the same schema as a run, and a later run finds nothing to do.
#[tokio::test]
async fn the_dump_equals_a_run() -> Result<()> {
    let (by_run, by_hand) = (TestDb::new().await, TestDb::with_odd_name().await);
    migrator(&by_run, &[ONE, TWO], 0).run(by_run.database()).await?;
    let script = migrator(&by_hand, &[ONE, TWO], 0).dump();
    sqlx::raw_sql(sqlx::AssertSqlSafe(script)).execute(by_hand.database().pool()).await?;

    assert_eq!(picture(&by_hand).await?, picture(&by_run).await?);
    assert_eq!(jobs(&by_hand).await?, 0);
    assert_eq!(migrator(&by_hand, &[ONE, TWO], 0).run(by_hand.database()).await?.applied, []);
    Ok(())
}

/// A dry run reports every step and changes nothing, not even on an empty database; verifying names what is missing.
#[tokio::test]
async fn a_dry_run_changes_nothing() -> Result<()> {
    let db = TestDb::new().await;
    let migrator = migrator(&db, &[ONE, TWO], 0);
    assert_eq!(migrator.plan(db.database()).await?, all_steps());
    let refused = migration_error(migrator.verify(db.database()).await);
    assert!(matches!(&refused, MigrationError::Behind { missing, .. } if *missing == all_steps()), "{refused}");
    let sql = "select count(*) from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = $1";
    let tables: i64 = sqlx::query_scalar(sql).bind(db.schema().name()).fetch_one(db.database().pool()).await?;
    assert_eq!(tables, 0);
    Ok(())
}

/// A step that fails takes the whole run with it, is named, and the server's reason is kept.
#[tokio::test]
async fn a_failing_step_changes_nothing() -> Result<()> {
    const BROKEN: Migration = Migration { number: 2, name: "break", sql: "create table {schema}.job ()" };
    let db = TestDb::new().await;
    let error = migrator(&db, &[ONE, BROKEN], 0).run(db.database()).await.expect_err("the table is there already");
    assert_eq!(error.sqlstate(), Some("42P07"));
    assert!(error.to_string().contains("test migration 2 (break)"), "{error}");
    assert!(!error.is_transient());
    assert_eq!(migrator(&db, &[ONE, TWO], 0).plan(db.database()).await?, all_steps());
    Ok(())
}

/// How often a test asks the server for a change that is not announced.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// A migration that waits for a table gives way and tries again, rather than delay every statement queued behind it. A
/// reader keeps the table until the migration has given way once: a migration that only waits would never end.
#[tokio::test]
async fn a_migration_gives_way_while_it_waits_for_a_table() -> Result<()> {
    let db = TestDb::new().await;
    migrator(&db, &[ONE], 0).run(db.database()).await?;
    let mut reader = db.database().begin().await?;
    sqlx::query(db.schema().sql("select from {schema}.job")).execute(&mut *reader).await?;
    let waiting = async {
        let sql = "select true from pg_locks where relation = to_regclass($1) and not granted";
        let table = db.schema().sql("{schema}.job").to_string();
        for is_waiting in [true, false] {
            while sqlx::query(sql).bind(&table).fetch_optional(db.database().pool()).await?.is_some() != is_waiting {
                tokio::time::sleep(POLL_EVERY).await;
            }
        }
        reader.rollback().await
    };
    let migrator = migrator(&db, &[ONE, TWO], 0);
    let (report, waited) = tokio::join!(migrator.run(db.database()), waiting);
    waited?;
    assert_eq!(report?.applied, [all_steps()[1].clone()]);
    Ok(())
}

/// The pool's own limits are for ordinary statements. A long migration is not cut off, and neither are processes that
/// wait for its end.
#[tokio::test]
async fn a_long_migration_is_neither_cut_nor_refused() -> Result<()> {
    const LONG: Migration = Migration { number: 2, name: "take long", sql: "select pg_sleep(0.6)" };
    let db = TestDb::new().await;
    let limit = Some(Duration::from_millis(200));
    let options = Options::default().statement_timeout(limit).lock_timeout(limit);
    let database = Database::connect(db.url(), options).await?;
    let migrator = migrator(&db, &[ONE, LONG], 0);
    let (one, two) = tokio::join!(migrator.run(&database), migrator.run(&database));
    assert_eq!(one?.applied.len() + two?.applied.len(), 3);
    Ok(())
}

/// A start with nothing to do must not disturb other sessions: one query, no lock, nothing written. Counted by role.
#[tokio::test]
async fn a_run_with_nothing_to_do_is_one_query() -> Result<()> {
    let db = TestDb::new().await;
    migrator(&db, &[ONE, TWO], 0).run(db.database()).await?;
    let Some(role) = db.counting_role().await else { return Ok(()) };
    assert_eq!(migrator(&db, &[ONE, TWO], 0).run(role.database()).await?.applied, []);
    let statements = role.statements().await;
    assert!(matches!(&statements[..], [(query, 1)] if query.starts_with("select")), "{statements:?}");
    Ok(())
}
