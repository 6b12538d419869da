//! Test databases.

use reveille_pg::testing::TestDb;
use sqlx::Row as _;

async fn count_schemas(db: &TestDb, name: &str) -> i64 {
    let count = sqlx::query("select count(*) from pg_namespace where nspname = $1").bind(name);
    count.fetch_one(db.database().pool()).await.expect("count").get(0)
}

/// Two tests must not see each other's tables.
/// Makes the same table in two schemas and fills one.
#[tokio::test]
async fn every_test_has_a_schema_of_its_own() {
    let (one, two) = (TestDb::new().await, TestDb::new().await);
    for db in [&one, &two] {
        let create = db.schema().sql("create table {schema}.note (text text)");
        sqlx::query(create).execute(db.database().pool()).await.expect("create");
    }
    let insert = one.schema().sql("insert into {schema}.note values ('mine')");
    sqlx::query(insert).execute(one.database().pool()).await.expect("insert");
    let count = two.schema().sql("select count(*) from {schema}.note");
    let seen: i64 = sqlx::query(count).fetch_one(two.database().pool()).await.expect("count").get(0);
    assert_eq!(seen, 0);
}

/// A schema is gone when its test is, even if the test ends inside a transaction that holds a lock, and whatever its name.
/// Leaves a transaction open on the table, drops the value, and looks from another one.
#[tokio::test]
async fn a_schema_is_dropped_even_when_the_test_holds_a_lock() {
    let observer = TestDb::new().await;
    let db = TestDb::with_odd_name().await;
    let name = db.schema().name().to_owned();
    assert_eq!(count_schemas(&observer, &name).await, 1);
    let mut transaction = db.database().pool().begin().await.expect("begin");
    let create = db.schema().sql("create table {schema}.note (text text)");
    sqlx::query(create).execute(&mut *transaction).await.expect("create");
    drop(db);
    assert_eq!(count_schemas(&observer, &name).await, 0);
}

/// A test that panics leaves nothing behind either.
/// Panics on a runtime of its own while it holds a schema, and looks for the schema afterwards.
#[tokio::test]
async fn a_schema_is_dropped_when_the_test_panics() {
    let observer = TestDb::new().await;
    let (tell, told) = std::sync::mpsc::channel();
    let panicking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let db = TestDb::new().await;
            tell.send(db.schema().name().to_owned()).expect("tell");
            panic!("on purpose");
        });
    });
    let name = told.recv().expect("told");
    assert!(panicking.join().is_err());
    assert_eq!(count_schemas(&observer, &name).await, 0);
}
