//! The proxy that causes network faults.

use std::time::Duration;

use reveille_pg::testing::{Mode, PrivateCluster, Proxy, TestDb};
use sqlx::{Connection as _, PgConnection};
use tokio::time::timeout;

/// Longer than a reply takes.
const A_WHILE: Duration = Duration::from_millis(300);

async fn connect(proxy: &Proxy) -> sqlx::Result<PgConnection> {
    PgConnection::connect(proxy.url()).await
}

async fn rows(db: &TestDb) -> i64 {
    let count = db.schema().sql("select count(*) from {schema}.note");
    sqlx::query_scalar(count).fetch_one(db.database().pool()).await.expect("count")
}

async fn with_table() -> TestDb {
    let db = TestDb::new().await;
    let create = db.schema().sql("create table {schema}.note (text text)");
    sqlx::query(create).execute(db.database().pool()).await.expect("create");
    db
}

/// The proxy changes nothing by default, and counts connections.
/// Sends and reads back more than one chunk, then disconnects.
#[tokio::test]
async fn a_passing_proxy_carries_everything() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let mut connection = connect(&proxy).await.expect("connect");
    let large = "x".repeat(1 << 20);
    let back: String =
        sqlx::query_scalar("select $1").bind(&large).fetch_one(&mut connection).await.expect("the value again");
    assert_eq!(back, large);
    assert_eq!(proxy.connections(), 1);
    connection.close().await.expect("close");
    proxy.until_connections(0).await;
}

/// A refusing proxy is a closed port, open connections live on, and it opens again on the same port.
/// Connects before, during and after.
#[tokio::test]
async fn a_refusing_proxy_refuses_new_connections_only() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let mut before = connect(&proxy).await.expect("connect");
    proxy.set(Mode::Refuse).await;
    let refused = connect(&proxy).await.expect_err("refused");
    assert!(
        matches!(&refused, sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused),
        "{refused}"
    );
    before.ping().await.expect("open connections live on");
    proxy.set(Mode::Pass).await;
    connect(&proxy).await.expect("connect again");
}

/// A half-open connection answers nothing and does not end; it stays dead when the network works again.
/// Asks on a connection that was open before, on a new one, and after the mode is back.
#[tokio::test]
async fn a_swallowing_proxy_makes_connections_half_open_for_ever() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let mut before = connect(&proxy).await.expect("connect");
    proxy.set(Mode::Swallow).await;
    assert!(timeout(A_WHILE, before.ping()).await.is_err(), "no answer and no end");
    assert!(timeout(A_WHILE, connect(&proxy)).await.is_err(), "accepted and never answered");
    proxy.set(Mode::Pass).await;
    assert!(timeout(A_WHILE, before.ping()).await.is_err(), "what was lost does not come back");
    connect(&proxy).await.expect("new connections pass");
}

/// A cut ends open connections at once and leaves the mode alone.
/// Pings on the connection that was cut and on a new one.
#[tokio::test]
async fn a_cut_ends_the_open_connections() {
    let db = TestDb::new().await;
    let proxy = Proxy::start(&db).await;
    let mut connection = connect(&proxy).await.expect("connect");
    proxy.cut();
    connection.ping().await.expect_err("cut");
    connect(&proxy).await.expect("connect again").ping().await.expect("ping");
}

/// An ambiguous commit that took effect: the row is there, and the client received no answer.
/// Cuts the answer to COMMIT of a transaction, and reads its row on another connection.
#[tokio::test]
async fn a_cut_reply_to_a_commit_leaves_the_commit_done() {
    let db = with_table().await;
    let proxy = Proxy::start(&db).await;
    let mut connection = connect(&proxy).await.expect("connect");
    let mut transaction = connection.begin().await.expect("begin");
    let insert = db.schema().sql("insert into {schema}.note values ('x')");
    sqlx::query(insert).execute(&mut *transaction).await.expect("insert");
    let cut = proxy.cut_reply_to("COMMIT");
    transaction.commit().await.expect_err("the answer was cut");
    cut.happened().await;
    assert_eq!(rows(&db).await, 1);
}

/// An ambiguous commit that did not take effect: the client sees the same error, and the row is not there.
/// Cuts the request instead of the answer.
#[tokio::test]
async fn a_cut_commit_request_leaves_nothing_done() {
    let db = with_table().await;
    let proxy = Proxy::start(&db).await;
    let mut connection = connect(&proxy).await.expect("connect");
    let mut transaction = connection.begin().await.expect("begin");
    let insert = db.schema().sql("insert into {schema}.note values ('x')");
    sqlx::query(insert).execute(&mut *transaction).await.expect("insert");
    let cut = proxy.cut_request_with("COMMIT");
    transaction.commit().await.expect_err("the request was cut");
    cut.happened().await;
    assert_eq!(rows(&db).await, 0);
}

/// A statement of its own that carries the marker in a parameter is executed before its answer is cut, although the
/// driver prepares it first and gets an answer for that.
/// Inserts the marker itself.
#[tokio::test]
async fn a_cut_reply_waits_for_execution_and_not_for_preparation() {
    let db = with_table().await;
    let proxy = Proxy::start(&db).await;
    let mut connection = connect(&proxy).await.expect("connect");
    let insert = db.schema().sql("insert into {schema}.note values ($1) /* marked */");
    let cut = proxy.cut_reply_to("marked");
    sqlx::query(insert).bind("x").execute(&mut connection).await.expect_err("the answer was cut");
    cut.happened().await;
    assert_eq!(rows(&db).await, 1);
}

/// A proxy stands in front of a socket as well as of a port.
/// Reaches a private server by its socket, through the proxy.
#[tokio::test]
async fn a_proxy_carries_to_a_socket() {
    let Some(server) = PrivateCluster::start().await else { return };
    let folder = server.socket_dir().to_str().expect("a plain path").replace('/', "%2F");
    let by_socket = server.url().replacen("127.0.0.1", &folder, 1);
    let proxy = Proxy::to(&by_socket).await;
    let mut connection = connect(&proxy).await.expect("connect");
    let by_port: bool =
        sqlx::query_scalar("select inet_server_port() is not null").fetch_one(&mut connection).await.expect("ask");
    assert!(!by_port);
    assert_eq!(proxy.connections(), 1);
}

/// A URL of several hosts is that of the one that can be written to.
/// Runs another test of this program on a `DATABASE_URL` that names a port without a server, a standby and its primary.
#[tokio::test]
async fn tests_run_on_the_primary_of_several_hosts() {
    let Some(primary) = PrivateCluster::start().await else { return };
    let standby = primary.standby().await;
    let own = format!("127.0.0.1:{}", primary.port());
    let all = primary.url().replacen(&own, &format!("127.0.0.1:1,127.0.0.1:{},{own}", standby.port()), 1);
    let mut other = tokio::process::Command::new(std::env::current_exe().expect("this program"));
    other.args(["--exact", "proxy::a_passing_proxy_carries_everything"]).env("DATABASE_URL", all);
    let output = other.output().await.expect("run");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
