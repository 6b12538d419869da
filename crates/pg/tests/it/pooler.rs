//! Through a real PgBouncer in transaction mode.

use reveille_pg::migrate::{Component, Function, Migration, Migrator};
use reveille_pg::testing::{TestDb, pooler};
use reveille_pg::{Database, Options, Result};

const TABLE: Migration = Migration {
    number: 1,
    name: "create notes",
    sql: "create table {schema}.note (id bigint generated always as identity, text text not null, tags text[] not null)",
};
const COUNT: Function = Function {
    name: "count_notes",
    sql: "create or replace function {schema}.count_notes() returns bigint language sql stable \
          as 'select count(*) from {schema}.note'",
};

fn migrator(db: &TestDb) -> Migrator {
    let component = Component { name: "test", migrations: &[TABLE], functions: &[COUNT], vars: Vec::new() };
    Migrator::new(db.schema(), vec![component])
}

fn through(url: &str) -> Result<Database> {
    Database::connect_lazy(url, Options::default().pooler(true).max_connections(4))
}

/// Migrations take no session state: ten clients that share three server connections may run them together.
#[tokio::test(flavor = "multi_thread")]
async fn migrations_work_through_a_pooler() -> Result<()> {
    let db = TestDb::with_odd_name().await;
    let Some(pooler) = pooler(&db).await else { return Ok(()) };
    let mut runs = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (migrator, database) = (migrator(&db), through(pooler.url())?);
        runs.spawn(async move { migrator.run(&database).await });
    }
    let mut applied = Vec::new();
    while let Some(run) = runs.join_next().await {
        applied.extend(run.expect("no panic")?.applied);
    }
    assert_eq!(applied.len(), 2, "{applied:?}");
    migrator(&db).verify(&through(pooler.url())?).await?;
    migrator(&db).verify(db.database()).await
}

/// Statements with parameters must reach the server that prepared them, under names that no other session has used
/// there. Many sessions of several pools change servers all the time, with different statements under the same names.
#[tokio::test(flavor = "multi_thread")]
async fn statements_with_parameters_work_through_a_pooler() -> Result<()> {
    const POOLS: usize = 4;
    const TASKS: usize = 4;
    const ROUNDS: usize = 25;
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return Ok(()) };
    migrator(&db).run(&through(pooler.url())?).await?;
    let insert = db.schema().sql("insert into {schema}.note (text, tags) values ($1, $2) returning id");
    let read = db.schema().sql("select text from {schema}.note where id = $1");
    let mut tasks = tokio::task::JoinSet::new();
    for pool in 0..POOLS {
        let database = through(pooler.url())?;
        for task in 0..TASKS {
            let (database, insert, read) = (database.clone(), insert.clone(), read.clone());
            tasks.spawn(async move {
                for round in 0..ROUNDS {
                    let text = format!("{pool} {task} {round}");
                    let mut session = database.session().await?;
                    let written = sqlx::query_scalar::<_, i64>(&insert).bind(&text).bind(vec!["a", "b"]);
                    let id = written.fetch_one(&mut *session).await?;
                    session.finish().await?;

                    let mut session = database.session().await?;
                    let found: String = sqlx::query_scalar(&read).bind(id).fetch_one(&mut *session).await?;
                    session.finish().await?;
                    assert_eq!(found, text);
                }
                Result::<()>::Ok(())
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic")?;
    }
    let count = db.schema().sql("select {schema}.count_notes()");
    let notes: i64 = sqlx::query_scalar(count).fetch_one(db.database().pool()).await?;
    assert_eq!(notes, (POOLS * TASKS * ROUNDS) as i64);
    Ok(())
}

/// Connecting checks at once that the server answers; the direct URL is used for LISTEN.
#[tokio::test]
async fn a_pooler_and_a_direct_url_go_together() -> Result<()> {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return Ok(()) };
    let options = Options::default().pooler(true).listen_url(db.url().to_owned());
    let database = Database::connect(pooler.url(), options).await?;
    assert_eq!(database.identity(), db.database().identity(), "the direct address is the identity");
    let mut listener = sqlx::postgres::PgListener::connect_with(&database.dedicated("listener", &[])?).await?;
    listener.listen("heard").await?;
    let mut session = database.session().await?;
    sqlx::query("select pg_notify('heard', $1)").bind("through the pooler").execute(&mut *session).await?;
    session.finish().await?;
    assert_eq!(listener.recv().await?.payload(), "through the pooler");
    Ok(())
}

/// A pooler that is not configured is recognised because it rejects server settings, and the error names the option.
#[tokio::test]
async fn a_pooler_that_was_not_mentioned_is_recognised() {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return };
    let error = Database::connect(pooler.url(), Options::default()).await.expect_err("the option is missing");
    assert!(error.to_string().contains("`pooler`") && !error.is_transient(), "{error:?}");
}

/// The application's own pool may keep prepared statements although it connects through a pooler. They are discarded
/// before each session, so that none is expected on a server that does not have it.
#[tokio::test(flavor = "multi_thread")]
async fn the_applications_own_pool_works_through_a_pooler() -> Result<()> {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return Ok(()) };
    let options = pooler.url().parse::<sqlx::postgres::PgConnectOptions>()?.extra_float_digits(None);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
        let database = Database::from_pool_with(pool, true, None)?;
        tasks.spawn(async move {
            for round in 0..25 {
                let mut session = database.session().await?;
                let query = sqlx::query_scalar::<_, i32>("select $1 + $2").bind(task).bind(round);
                assert_eq!(query.fetch_one(&mut *session).await?, task + round);
                session.finish().await?;
            }
            Result::<()>::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic")?;
    }
    Ok(())
}
