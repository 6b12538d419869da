//! `reveille doctor`: each broken set-up has an explanation and a fix.

use reveille_pg::testing::{PrivateCluster, TestDb, pooler};
use tokio::{net::TcpListener, process::Command};

use crate::process::{DataDir, Ended, Reveille, command, run, up};

/// The doctor for a database.
fn doctor(url: &str) -> Command {
    let mut doctor = command(&["doctor", "--log=warn"]);
    doctor.env("DATABASE_URL", url);
    doctor
}

/// The doctor for the test's own schema, reached through `url`.
fn doctor_of(db: &TestDb, url: &str) -> Command {
    let mut doctor = doctor(url);
    doctor.env("REVEILLE_SCHEMA", db.schema().name());
    doctor
}

/// Checks that there is a finding that starts with `start`, with `words` in it or in its fix.
fn assert_finding(ended: &Ended, start: &str, words: &[&str]) {
    let mut lines = ended.output.lines().skip_while(|line| !line.starts_with(start));
    let line = lines.next().unwrap_or_else(|| panic!("no {start:?} in\n{}", ended.output));
    let fix = lines.next().filter(|next| next.trim_start().starts_with("fix:")).unwrap_or_default();
    for word in words {
        assert!(line.contains(word) || fix.contains(word), "no {word:?} in {line}\n{fix}");
    }
}

/// The same for a report that ends with code 1.
fn assert_broken(ended: &Ended, start: &str, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
    assert_finding(ended, start, words);
    assert!(ended.output.contains("fix: "), "{}", ended.output);
}

/// `url` with another user and password, host and port, or database.
struct Url {
    login: String,
    server: String,
    database: String,
}

impl Url {
    fn of(db: &TestDb) -> Self {
        let rest = db.url().split_once("://").expect("a URL").1;
        let (login, rest) = rest.rsplit_once('@').expect("a login");
        let (server, database) = rest.split_once('/').expect("a database");
        let database = database.split('?').next().unwrap_or_default();
        Self { login: login.into(), server: server.into(), database: database.into() }
    }

    fn text(&self) -> String {
        format!("postgres://{}@{}/{}", self.login, self.server, self.database)
    }
}

/// A healthy set-up must be reported as such, with code 0 and without changes: a schema that does not exist is still
/// missing afterwards. Reads the test server before and after.
#[tokio::test]
async fn a_healthy_database_passes_and_is_not_changed() {
    let db = TestDb::new().await;
    let count = || async {
        let sql = "select count(*) from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1";
        sqlx::query_scalar::<_, i64>(sql)
            .bind(db.schema().name())
            .fetch_one(db.database().pool())
            .await
            .expect("counted")
    };
    let before = count().await;
    let ended = run(doctor_of(&db, db.url())).await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    for start in ["ok    login", "ok    version", "ok    writable", "ok    privileges", "ok    notifications"] {
        assert_finding(&ended, start, &[]);
    }
    assert_eq!(count().await, before);
}

/// Without a URL and without PostgreSQL's programs the report must say how to get them.
/// The programs are searched in an empty directory.
#[tokio::test]
async fn missing_programs_are_explained() {
    let empty = std::env::temp_dir().join(format!("reveille empty {}", std::process::id()));
    std::fs::create_dir_all(&empty).expect("made");
    let mut doctor = command(&["doctor", "--pg-bin"]);
    doctor.arg(&empty);
    let ended = run(doctor).await;
    std::fs::remove_dir(&empty).expect("removed");
    assert_broken(&ended, "fail  PostgreSQL programs", &["reveille empty", "initdb", "--pg-bin"]);
}

/// An invalid URL must be explained without being quoted.
/// A table of common mistakes.
#[tokio::test]
async fn wrong_urls_are_explained_and_not_quoted() {
    for url in [
        "db.example",
        "mysql://ann:hunter2@h/app",
        "postgres://ann:hunt#er2@h/app",
        "postgres://ann:hunter2@h:port/app",
        "postgres://ann:hunter2@h/app?sslmode=maybe",
    ] {
        let ended = run(doctor(url)).await;
        assert_broken(&ended, "fail  URL", &["DATABASE_URL", "postgres://user:password@host:5432/database"]);
        assert!(!ended.output.contains("er2"), "{url}: {}", ended.output);
    }
}

/// An unknown host and a closed port must be reported as different problems.
/// A name that is reserved as nonexistent, and a port that was free just before.
#[tokio::test]
async fn unknown_hosts_and_closed_ports_are_distinguished() {
    let ended = run(doctor("postgres://ann:hunter2@no-such-host.invalid/app")).await;
    assert_broken(&ended, "fail  address", &["no-such-host.invalid", "spelling"]);

    let port = TcpListener::bind("127.0.0.1:0").await.and_then(|it| it.local_addr()).expect("a free port").port();
    let ended = run(doctor(&format!("postgres://ann:hunter2@127.0.0.1:{port}/app"))).await;
    assert_broken(&ended, "fail  address", &[&format!("nothing listens on its port {port}"), "start PostgreSQL"]);
}

/// A port where another program listens must be reported.
/// A listener that closes every connection.
#[tokio::test]
async fn another_program_at_the_port_is_explained() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let closing = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    let ended = run(doctor(&format!("postgres://ann:hunter2@{address}/app?sslmode=disable"))).await;
    closing.abort();
    assert_broken(&ended, "fail  login", &["check that the program at this address is PostgreSQL"]);
}

/// A wrong password, a database that does not exist and TLS that the server lacks must each be named.
/// One wrong part at a time in the URL of a server of the test's own, which asks for passwords and has no TLS.
#[tokio::test]
async fn refused_logins_are_explained() {
    let Some(cluster) = PrivateCluster::start().await else { return };
    let (login, rest) = cluster.url().rsplit_once('@').expect("a login");
    let rest = rest.split('?').next().unwrap_or_default();
    let (user, _) = login.rsplit_once(':').expect("a password");
    let (server, _) = rest.split_once('/').expect("a database");

    let ended = run(doctor(&format!("{user}:hunter2@{rest}"))).await;
    assert_broken(&ended, "fail  login", &["refused the user or the password", "alter role"]);
    assert!(!ended.output.contains("hunter2"), "{}", ended.output);

    let ended = run(doctor(&format!("{login}@{server}/no_such_database"))).await;
    assert_broken(&ended, "fail  login", &["no such database", "createdb"]);

    let ended = run(doctor(&format!("{login}@{rest}?sslmode=require"))).await;
    assert_broken(&ended, "fail  login", &["encrypted connection", "sslmode"]);
}

/// A standby must be recognised, and the fix must be a URL that follows the primary.
/// A real standby is the only host in the URL.
#[tokio::test]
async fn a_standby_is_recognised() {
    let Some(primary) = PrivateCluster::start().await else { return };
    let standby = primary.standby().await;
    let ended = run(doctor(standby.url())).await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.output);
    assert!(ended.output.contains("separated by commas: reveille follows the primary"), "{}", ended.output);
}

/// A user without the right to create the schema must get the missing grant; one who may only use an up-to-date schema
/// gets a warning.
/// A login role without any rights, created by the test; then the schema is migrated and the role may use it.
#[tokio::test]
async fn missing_privileges_are_explained() {
    let db = TestDb::new().await;
    let Some(mut superuser) = db.superuser().await else { return };
    let role = format!("doctor_{}", db.schema().name());
    let make = format!("create role {role} login password 'hunter2'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(make)).execute(&mut superuser).await.expect("a role");
    let url = Url { login: format!("{role}:hunter2"), ..Url::of(&db) };
    let mut missing = doctor(&url.text());
    missing.env("REVEILLE_SCHEMA", "not_allowed");
    let missing = run(missing).await;
    let existing = run(doctor_of(&db, &url.text())).await;
    let mut migrate = command(&["migrate"]);
    migrate.env("DATABASE_URL", db.url()).env("REVEILLE_SCHEMA", db.schema().name());
    assert_eq!(run(migrate).await.status.code(), Some(0));
    let name = db.schema().quoted();
    let grant =
        format!("grant usage on schema {name} to {role}; grant select on all tables in schema {name} to {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(grant)).execute(&mut superuser).await.expect("granted");
    let using = run(doctor_of(&db, &url.text())).await;
    let drop = format!("drop owned by {role}; drop role {role}");
    sqlx::raw_sql(sqlx::AssertSqlSafe(drop)).execute(&mut superuser).await.expect("dropped");
    assert_broken(&missing, "fail  privileges", &["not_allowed", "create schema"]);
    assert_broken(&existing, "fail  privileges", &["may not create tables", "grant usage, create"]);
    assert_eq!(using.status.code(), Some(0), "{}", using.output);
    assert_finding(&using, "warn  privileges", &["may not create tables", "reveille migrate"]);
}

/// Behind a transaction-mode pooler the report must say what does not work and how to configure it: without --pooler a
/// failure, with --pooler a warning that asks for the direct URL, with both no finding. A direct URL through the pooler
/// must be detected, too. A real PgBouncer.
#[tokio::test]
async fn an_unconfigured_pooler_is_detected() {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return };

    let unconfigured = run(doctor_of(&db, pooler.url())).await;
    assert_broken(&unconfigured, "fail  pooler", &["--pooler", "--direct-url"]);

    let mut configured = doctor_of(&db, pooler.url());
    configured.env("REVEILLE_POOLER", "true");
    let configured = run(configured).await;
    assert_eq!(configured.status.code(), Some(0), "{}", configured.output);
    assert_finding(&configured, "ok    prepared statements", &[]);
    assert_finding(&configured, "warn  notifications", &["polls", "--direct-url"]);

    let mut direct = doctor_of(&db, pooler.url());
    direct.env("REVEILLE_POOLER", "true").env("REVEILLE_DIRECT_URL", db.url());
    let direct = run(direct).await;
    assert_eq!(direct.status.code(), Some(0), "{}", direct.output);
    assert_finding(&direct, "ok    notifications", &[]);

    let mut indirect = doctor_of(&db, pooler.url());
    indirect.env("REVEILLE_POOLER", "true").env("REVEILLE_DIRECT_URL", pooler.url());
    let indirect = run(indirect).await;
    assert_broken(&indirect, "fail  pooler", &["--direct-url"]);
}

/// The doctor of `reveille up`, for `dir`.
async fn doctor_of_dir(dir: &DataDir) -> Ended {
    let mut doctor = command(&["doctor", "--log=warn", "--data-dir"]);
    doctor.arg(dir.path());
    run(doctor).await
}

/// A directory that `up` could not use must be reported without running `up`, and a usable one must not be changed.
/// One that does not exist, one with other files, one below a file.
#[tokio::test]
async fn unusable_data_directories_are_reported() {
    let Some(dir) = DataDir::new() else { return };
    let missing = doctor_of_dir(&dir).await;
    assert_finding(&missing, "ok    data directory", &["will be created"]);
    assert!(!dir.path().exists());

    std::fs::create_dir(dir.path()).expect("made");
    assert_finding(&doctor_of_dir(&dir).await, "ok    data directory", &[]);
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0, "a file was left behind");

    std::fs::write(dir.path().join("precious"), "mine").expect("written");
    assert_broken(&doctor_of_dir(&dir).await, "fail  data directory", &["other files", "--data-dir"]);

    let mut below = command(&["doctor", "--data-dir"]);
    below.arg(dir.path().join("precious/data"));
    assert_broken(&run(below).await, "fail  data directory", &["is a file", "--data-dir"]);
}

/// A directory in use must be reported with the process that uses it, and data needs the version that created it.
/// Checks while `up` runs; then writes another version into the data directory, of which no program exists.
#[tokio::test]
async fn a_directory_in_use_and_its_version_are_recognised() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    reveille.line("Ctrl-C stops both").await;
    let owner = std::fs::read_to_string(dir.path().join("owner")).expect("the owner is written down");
    let busy = doctor_of_dir(&dir).await;
    assert_eq!(busy.status.code(), Some(0), "{}", busy.output);
    assert_finding(&busy, "warn  data directory", &[owner.trim(), "runs on"]);
    reveille.signal("INT").await;
    assert_eq!(reveille.ended().await.status.code(), Some(0));
    assert_finding(&doctor_of_dir(&dir).await, "ok    data directory", &[]);

    std::fs::write(dir.path().join("data/PG_VERSION"), "9\n").expect("written");
    assert_broken(&doctor_of_dir(&dir).await, "fail  PostgreSQL programs", &["no PostgreSQL 9"]);
}
