//! How the errors of a real server are classified.

use std::cell::Cell;
use std::time::Duration;

use reveille_pg::retry::{Policy, retry};
use reveille_pg::testing::TestDb;
use reveille_pg::{Database, Error, Options, Result};
use sqlx::{Connection as _, PgConnection};

/// The error of a statement that must fail.
async fn failure(connection: &mut PgConnection, sql: &'static str) -> Error {
    sqlx::raw_sql(sql).execute(connection).await.expect_err(sql).into()
}

fn assert_transient(error: &Error, code: &str) {
    assert_eq!(error.sqlstate(), Some(code), "{error:?}");
    assert!(error.is_transient() && !error.is_ambiguous(), "{error:?}");
}

async fn table(db: &TestDb) -> Result<String> {
    let create =
        db.schema().sql("create table {schema}.t (id int primary key); insert into {schema}.t values (1), (2)");
    sqlx::raw_sql(create).execute(db.database().pool()).await?;
    Ok(db.schema().sql("{schema}.t").to_string())
}

/// A deadlock ends one side, which may try again: two transactions lock two rows in opposite order.
#[tokio::test]
async fn a_deadlock_is_transient() -> Result<()> {
    let db = TestDb::new().await;
    table(&db).await?;
    let (mut one, mut two) = (db.database().begin().await?, db.database().begin().await?);
    let lock = db.schema().sql("select from {schema}.t where id = $1 for update");
    sqlx::query(&lock).bind(1).execute(&mut *one).await?;
    sqlx::query(&lock).bind(2).execute(&mut *two).await?;
    let (a, b) = tokio::join!(
        async {
            let locked = sqlx::query(&lock).bind(2).execute(&mut *one).await;
            drop(one);
            locked
        },
        async {
            let locked = sqlx::query(&lock).bind(1).execute(&mut *two).await;
            drop(two);
            locked
        },
    );
    let error = a.err().or(b.err()).expect("one of them gave way").into();
    assert_transient(&error, "40P01");
    Ok(())
}

/// Waiting for a lock is bounded and worth another attempt: a second transaction asks for a row that the first keeps.
#[tokio::test]
async fn a_lock_timeout_is_transient() -> Result<()> {
    let db = TestDb::new().await;
    table(&db).await?;
    let options = Options::default().lock_timeout(Duration::from_millis(20));
    let impatient = Database::connect(db.url(), options).await?;
    let lock = db.schema().sql("select from {schema}.t where id = 1 for update");
    let mut holder = db.database().begin().await?;
    sqlx::query(&lock).execute(&mut *holder).await?;
    let error = sqlx::query(&lock).execute(&mut *impatient.session().await?).await.expect_err("locked").into();
    assert_transient(&error, "55P03");
    Ok(())
}

/// Two serializable transactions that each read what the other writes cannot both commit; the one that fails may try
/// again.
#[tokio::test]
async fn a_serialization_failure_is_transient() -> Result<()> {
    let db = TestDb::new().await;
    table(&db).await?;
    let begin = "begin isolation level serializable";
    let (mut one, mut two) =
        (db.database().pool().begin_with(begin).await?, db.database().pool().begin_with(begin).await?);
    let sum = db.schema().sql("select sum(id) from {schema}.t");
    let insert = db.schema().sql("insert into {schema}.t values ($1)");
    sqlx::query(&sum).execute(&mut *one).await?;
    sqlx::query(&sum).execute(&mut *two).await?;
    sqlx::query(&insert).bind(10).execute(&mut *one).await?;
    sqlx::query(&insert).bind(20).execute(&mut *two).await?;
    one.commit().await?;
    let error = two.commit().await.expect_err("the second must give way").into();
    assert_transient(&error, "40001");
    Ok(())
}

/// A statement cancelled by `statement_timeout` was rolled back; the retry loop's time limit decides about another
/// attempt.
#[tokio::test]
async fn a_statement_timeout_is_transient() -> Result<()> {
    let db = TestDb::new().await;
    let options = Options::default().statement_timeout(Duration::from_millis(20));
    let impatient = Database::connect(db.url(), options).await?;
    let error = failure(&mut *impatient.session().await?, "select pg_sleep(60)").await;
    assert_transient(&error, "57014");
    Ok(())
}

/// A violated constraint is final, and its name is what callers decide by. The server's text stays in the source.
#[tokio::test]
async fn a_violated_constraint_is_permanent_and_named() -> Result<()> {
    let db = TestDb::new().await;
    table(&db).await?;
    let insert = db.schema().sql("insert into {schema}.t values (1)");
    let error: Error = sqlx::query(insert).execute(db.database().pool()).await.expect_err("duplicate").into();
    assert!(matches!(error, Error::Refused { .. }) && !error.is_transient() && !error.is_ambiguous(), "{error:?}");
    assert_eq!((error.sqlstate(), error.constraint()), (Some("23505"), Some("t_pkey")));
    for shown in [error.to_string(), error.client_message().to_owned()] {
        assert!(!shown.contains("duplicate") && !shown.contains("t_pkey"), "database text in: {shown}");
    }
    let source = std::error::Error::source(&error).expect("kept for operators").to_string();
    assert!(source.contains("t_pkey"), "{source}");
    Ok(())
}

/// A session ended from outside leaves the result of its statement unknown. One session ends another that is busy.
#[tokio::test]
async fn a_terminated_session_is_ambiguous() -> Result<()> {
    let db = TestDb::new().await;
    let mut victim = db.database().session().await?;
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *victim).await?;
    let mut other = db.database().session().await?;
    let busy = async { failure(&mut victim, "select pg_sleep(60)").await };
    let kill = async {
        let running =
            "select true from pg_stat_activity where pid = $1 and query like '%pg_sleep%' and state = 'active'";
        while sqlx::query(running).bind(pid).fetch_optional(&mut *other).await?.is_none() {
            tokio::task::yield_now().await;
        }
        sqlx::query("select pg_terminate_backend($1)").bind(pid).execute(&mut *other).await
    };
    let (error, killed) = tokio::join!(busy, kill);
    killed?;
    assert_eq!(error.sqlstate(), Some("57P01"), "{error:?}");
    assert!(error.is_transient() && error.is_ambiguous(), "{error:?}");
    Ok(())
}

/// Writing on a read-only server is transient, and its connection is not used for long: the next attempt soon gets
/// another one. A read-only transaction stands in for a standby; the server reports both alike.
#[tokio::test]
async fn a_read_only_connection_is_replaced() -> Result<()> {
    let db = TestDb::new().await;
    let database = Database::connect(db.url(), Options::default().max_connections(1)).await?;
    let read_only = Cell::new(None);
    let writable = retry(&Policy::default(), "write", async |_| {
        let mut session = database.session().await?;
        let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *session).await?;
        if read_only.get().is_some_and(|read_only| read_only != pid) {
            return Ok(pid);
        }
        read_only.set(Some(pid));
        let error = failure(&mut session, "begin read only; create table nothing ()").await;
        assert_transient(&error, "25006");
        Err(error)
    })
    .await?;
    assert_ne!(read_only.get(), Some(writable));
    Ok(())
}

/// A migration by another process changes a table under a prepared statement. The statement fails as transient, and the
/// next attempt gets a new connection, which prepares it anew.
#[tokio::test]
async fn a_statement_outdated_by_a_migration_is_transient() -> Result<()> {
    let db = TestDb::new().await;
    table(&db).await?;
    let database = Database::connect(db.url(), Options::default().max_connections(1)).await?;
    let all = db.schema().sql("select * from {schema}.t");
    sqlx::query(&all).execute(&mut *database.session().await?).await?;
    let alter = db.schema().sql("alter table {schema}.t add added int");
    sqlx::raw_sql(alter).execute(db.database().pool()).await?;
    let failures = Cell::new(0);
    retry(&Policy::default(), "read", async |_| {
        let error: Error = match sqlx::query(&all).execute(&mut *database.session().await?).await {
            Ok(_) => return Ok(()),
            Err(error) => error.into(),
        };
        assert_transient(&error, "0A000");
        failures.set(failures.get() + 1);
        Err(error)
    })
    .await?;
    assert!(failures.get() > 0, "nothing was outdated");
    Ok(())
}

/// A port without a listener is reported at once, with the address, as transient and not ambiguous.
/// The port was free just now.
#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://user:hunter2@127.0.0.1:{port}/db");
    let error = Database::connect(&url, Options::default()).await.expect_err("no listener");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.is_transient() && !error.is_ambiguous());
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"));
}

/// A login that is refused is final, and neither its error nor anything else repeats the password or the URL.
#[tokio::test]
async fn a_refused_login_never_shows_the_password() -> Result<()> {
    let db = TestDb::new().await;
    let (login, rest) = db.url().strip_prefix("postgres").unwrap().split_once("//").unwrap().1.split_once('@').unwrap();
    let user = login.split(':').next().unwrap();
    let wrong = format!("postgres://{user}:hunter2@{rest}");
    let error = match Database::connect(&wrong, Options::default()).await {
        Err(error) => error,
        Ok(_) => {
            reveille_pg::testing::skip::<()>("a server that asks for passwords");
            return Ok(());
        }
    };
    assert!(matches!(error, Error::Rejected { .. }) && !error.is_transient(), "{error:?}");
    assert_eq!(error.sqlstate(), Some("28P01"), "{error:?}");
    let options = Options::default().listen_url(wrong.clone());
    let lazy = Database::connect_lazy(&wrong, options.clone())?;
    let session = lazy.session().await.expect_err("refused");
    let direct: Error = lazy.dedicated("listener", &[])?.acquire().await.expect_err("refused").into();
    for shown in [
        format!("{error} {error:?} {:?}", std::error::Error::source(&error)),
        format!("{session} {session:?} {direct} {direct:?}"),
        format!("{lazy:?} {options:?} {} {:?}", lazy.identity(), lazy.pool()),
    ] {
        assert!(!shown.contains("hunter2") && !shown.contains("postgres://"), "{shown}");
    }
    Ok(())
}

/// An unknown database is a mistake in the URL, not an outage.
#[tokio::test]
async fn an_unknown_database_is_permanent() {
    let db = TestDb::new().await;
    let (server, _) = db.url().rsplit_once('/').unwrap();
    let error =
        Database::connect(&format!("{server}/no_such_database"), Options::default()).await.expect_err("unknown");
    assert!(matches!(error, Error::Rejected { .. }) && !error.is_transient(), "{error:?}");
    assert_eq!(error.sqlstate(), Some("3D000"));
    assert!(error.to_string().contains("no such database"), "{error}");
}

/// A transaction left idle beyond the server's limit was rolled back, which is certain.
#[tokio::test]
async fn a_transaction_ended_for_idling_is_transient() -> Result<()> {
    let db = TestDb::new().await;
    let mut connection = db.database().session().await?;
    let pid: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *connection).await?;
    sqlx::raw_sql("set idle_in_transaction_session_timeout = 20; begin; select 1").execute(&mut *connection).await?;
    let mut other = db.database().session().await?;
    let gone = "select true from pg_stat_activity where pid = $1";
    while sqlx::query(gone).bind(pid).fetch_optional(&mut *other).await?.is_some() {
        tokio::task::yield_now().await;
    }
    let error: Error = connection.ping().await.expect_err("ended").into();
    assert_transient(&error, "25P03");
    Ok(())
}

/// An answer that cannot be read is ambiguous; a value that cannot be sent is not, because nothing was executed.
/// Reads the answer of an insert as another type, inserts a value of a type that the database lacks, then counts rows.
#[tokio::test]
async fn an_unreadable_answer_is_ambiguous_and_an_unsendable_value_is_not() -> Result<()> {
    struct Foreign;
    impl sqlx::Type<sqlx::Postgres> for Foreign {
        fn type_info() -> sqlx::postgres::PgTypeInfo {
            sqlx::postgres::PgTypeInfo::with_name("no_such_type")
        }
    }
    impl sqlx::Encode<'_, sqlx::Postgres> for Foreign {
        fn encode_by_ref(
            &self,
            _: &mut sqlx::postgres::PgArgumentBuffer,
        ) -> std::result::Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
            Ok(sqlx::encode::IsNull::Yes)
        }
    }
    let db = TestDb::new().await;
    let mut session = db.database().session().await?;
    sqlx::raw_sql(db.schema().sql("create table {schema}.note (body text)")).execute(&mut *session).await?;

    let insert = db.schema().sql("insert into {schema}.note values ('here') returning body");
    let unreadable: Error =
        sqlx::query_scalar::<_, i32>(insert).fetch_one(&mut *session).await.expect_err("not a number").into();
    assert!(matches!(unreadable, Error::Unreadable(_)), "{unreadable:?}");
    assert!(unreadable.is_ambiguous() && !unreadable.is_transient());

    let insert = db.schema().sql("insert into {schema}.note values ($1::text)");
    let unsendable: Error =
        sqlx::query(insert).bind(Foreign).execute(&mut *session).await.expect_err("no such type").into();
    assert!(matches!(unsendable, Error::Unsendable(_)), "{unsendable:?}");
    assert!(!unsendable.is_ambiguous() && !unsendable.is_transient());

    let count = db.schema().sql("select count(*) from {schema}.note");
    assert_eq!(sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *session).await?, 1);
    session.finish().await
}
