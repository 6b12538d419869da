//! How providers start: each constructor as documented, and no changes if the schema is only verified.

use std::ffi::OsString;
use std::process::Output;
use std::time::Duration;

use duroxide::providers::Provider;
use reveille_durable::{Error, LongPollConfig, Migrations, Options, PostgresProvider};
use reveille_pg::testing::{PrivateCluster, TestDb};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::fixture::{PATIENCE, eventually};

/// The variable that sets the size of the pool.
const POOL_MAX: &str = "DUROXIDE_PG_POOL_MAX";
/// How many connections there are without it.
const POOL_DEFAULT: u32 = 10;
/// What tells a test that it runs as the process it started, and where the database is.
const CHILD_URL: &str = "REVEILLE_TEST_STARTING_URL";
const CHILD_SCHEMA: &str = "REVEILLE_TEST_STARTING_SCHEMA";

/// How long a fetch of something that is not there takes.
async fn waits(provider: &PostgresProvider, poll_timeout: Duration) -> Duration {
    let since = Instant::now();
    let fetched = provider.fetch_orchestration_item(PATIENCE, poll_timeout, None).await.expect("a fetch");
    assert!(fetched.is_none(), "the schema is empty");
    since.elapsed()
}

/// Each constructor that takes a URL uses the schema and the way of waiting that it is called after, and makes the
/// schema it needs.
/// The server is a private one: two of them work in `public`.
#[tokio::test(flavor = "multi_thread")]
async fn constructors_do_what_their_names_say() {
    let Some(server) = PrivateCluster::start().await else { return };
    let url = server.url();
    let check = async |made: reveille_durable::Result<PostgresProvider>, schema: &str, long_poll: bool| {
        let provider = made.expect("a provider");
        assert_eq!((provider.schema_name(), provider.pool().options().get_max_connections()), (schema, POOL_DEFAULT));
        if long_poll {
            let short = Duration::from_millis(300);
            eventually("it hears", async || provider.health().is_connected()).await;
            assert!(waits(&provider, short).await >= short, "{schema}: a fetch waits");
        } else {
            timeout(PATIENCE, waits(&provider, PATIENCE * 2)).await.expect("a fetch does not wait");
            assert!(!provider.health().is_connected(), "{schema}: nothing listens");
        }
    };
    // Those that do not listen come first: providers of one process share the listener.
    check(PostgresProvider::new(url).await, "public", false).await;
    check(PostgresProvider::new_with_schema(url, Some("own")).await, "own", false).await;
    check(PostgresProvider::new_with_schema(url, None).await, "public", false).await;
    check(PostgresProvider::new_with_long_poll(url).await, "public", true).await;
    check(PostgresProvider::new_with_long_poll_and_schema(url, Some("Own too")).await, "Own too", true).await;
    check(PostgresProvider::new_with_options(url, None, LongPollConfig::enabled()).await, "public", true).await;
}

/// A provider that only verifies changes nothing: a schema that is behind is an error that says so, one that is up to
/// date will do.
#[tokio::test(flavor = "multi_thread")]
async fn verifying_changes_nothing() {
    let db = TestDb::new().await;
    let start = async |migrations| {
        let options = Options::default().schema(db.schema().name()).migrations(migrations);
        PostgresProvider::with_database(db.database().clone(), options).await
    };
    let relations = async || -> i64 {
        let count = "select count(*) from pg_class where relnamespace = $1::regnamespace";
        let query = sqlx::query_scalar(count).bind(db.schema().quoted());
        query.fetch_one(db.database().pool()).await.expect("count")
    };
    let error = start(Migrations::Verify).await.expect_err("the schema is empty");
    assert!(matches!(error, Error::Database(reveille_pg::Error::Migration(_))) && !error.is_transient(), "{error:?}");
    assert_eq!(relations().await, 0, "nothing was made");
    start(Migrations::Apply).await.expect("brought up to date");
    let made = relations().await;
    let provider = start(Migrations::Verify).await.expect("up to date");
    waits(&provider, Duration::ZERO).await;
    assert_eq!(relations().await, made);
}

/// The environment sets the size of the pool of every constructor that takes a URL and no options; what it cannot mean
/// is an error that names the variable, also if it is no text.
/// This test starts itself as further processes: an environment belongs to a process.
#[tokio::test(flavor = "multi_thread")]
async fn the_environment_sets_the_size_of_the_pool() {
    const ME: &str = "starting::the_environment_sets_the_size_of_the_pool";
    if let (Ok(url), Ok(schema)) = (std::env::var(CHILD_URL), std::env::var(CHILD_SCHEMA)) {
        let own = PostgresProvider::new_with_schema(&url, Some(&schema)).await;
        let own = own.map(|provider| provider.pool().options().get_max_connections());
        let options = Options::default().schema(schema);
        let connected = PostgresProvider::connect(&url, options).await.expect("reads no environment");
        assert_eq!(connected.pool().options().get_max_connections(), POOL_DEFAULT);
        return println!("\nmade: {own:?}");
    }
    let db = TestDb::new().await;
    let made = async |value: OsString| -> String {
        let mut command = Command::new(std::env::current_exe().expect("the path of this test"));
        command.args(["--exact", ME, "--nocapture"]).env(POOL_MAX, value);
        command.env(CHILD_URL, db.url()).env(CHILD_SCHEMA, db.schema().name());
        let Output { stdout, status, .. } = command.output().await.expect("it runs");
        assert!(status.success(), "{status}");
        let said = String::from_utf8_lossy(&stdout);
        said.lines().find_map(|line| line.strip_prefix("made: ")).expect("it says").to_owned()
    };
    assert_eq!(made("3".into()).await, "Ok(3)");
    let said = made("three".into()).await;
    assert!(said.contains(POOL_MAX) && said.contains("three"), "{said}");
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt as _;
        let said = made(OsString::from_vec(vec![b'3', 0xff])).await;
        assert!(said.starts_with("Err") && said.contains(POOL_MAX), "{said}");
    }
}
