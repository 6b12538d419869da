//! `reveille doctor`: broken set-ups, each with the explanation and the fix a newcomer needs.

use reveille_pg::testing::{PrivateCluster, TestDb, pooler};
use tokio::{net::TcpListener, process::Command};

use crate::process::{DataDir, Ended, Reveille, command, run, up};

/// The doctor for a database.
fn doctor(url: &str) -> Command {
    let mut doctor = command(&["doctor", "--log=warn"]);
    doctor.env("DATABASE_URL", url);
    doctor
}

/// The test's own server and schema, looked at through `url`.
fn doctor_of(db: &TestDb, url: &str) -> Command {
    let mut doctor = doctor(url);
    doctor.env("REVEILLE_SCHEMA", db.schema().name());
    doctor
}

/// The finding that starts with `start` must be there, with `words` in it or in its fix.
fn assert_finding(ended: &Ended, start: &str, words: &[&str]) {
    let mut lines = ended.said.lines().skip_while(|line| !line.starts_with(start));
    let line = lines.next().unwrap_or_else(|| panic!("no {start:?} in\n{}", ended.said));
    let fix = lines.next().filter(|next| next.trim_start().starts_with("fix:")).unwrap_or_default();
    for word in words {
        assert!(line.contains(word) || fix.contains(word), "no {word:?} in {line}\n{fix}");
    }
}

/// The same, in a report that must end with code 1.
fn assert_broken(ended: &Ended, start: &str, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    assert_finding(ended, start, words);
    assert!(ended.said.contains("fix: "), "{}", ended.said);
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

/// A healthy set-up must be called that, with code 0 and nothing changed: the schema that does not exist yet is still missing
/// afterwards.
/// Looks at the test server before and after.
#[tokio::test]
async fn a_healthy_database_is_well_and_stays_untouched() {
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
    assert_eq!(ended.status.code(), Some(0), "{}", ended.said);
    for start in ["ok    login", "ok    version", "ok    writable", "ok    privileges", "ok    notifications"] {
        assert_finding(&ended, start, &[]);
    }
    assert_eq!(count().await, before);
}

/// Without a URL and without PostgreSQL's programs the doctor must say how to get them.
/// The programs are looked for in an empty directory.
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

/// A URL that is none must be explained without being quoted.
/// A table of mistakes people make.
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
        assert!(!ended.said.contains("er2"), "{url}: {}", ended.said);
    }
}

/// A host that does not exist and a port where nothing listens must be told apart.
/// A name that is reserved for not existing, and a port that was free a moment ago.
#[tokio::test]
async fn wrong_hosts_and_ports_are_told_apart() {
    let ended = run(doctor("postgres://ann:hunter2@no-such-host.invalid/app")).await;
    assert_broken(&ended, "fail  address", &["no-such-host.invalid", "spelling"]);

    let port = TcpListener::bind("127.0.0.1:0").await.and_then(|it| it.local_addr()).expect("a free port").port();
    let ended = run(doctor(&format!("postgres://ann:hunter2@127.0.0.1:{port}/app"))).await;
    assert_broken(&ended, "fail  address", &[&format!("nothing listens on its port {port}"), "start PostgreSQL"]);
}

/// A port where something else than PostgreSQL listens must not end in silence.
/// A listener that closes every connection.
#[tokio::test]
async fn a_stranger_at_the_port_is_explained() {
    let stranger = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = stranger.local_addr().expect("bound");
    let closing = tokio::spawn(async move {
        while let Ok((stream, _)) = stranger.accept().await {
            drop(stream);
        }
    });
    let ended = run(doctor(&format!("postgres://ann:hunter2@{address}/app?sslmode=disable"))).await;
    closing.abort();
    assert_broken(&ended, "fail  login", &["check that it is a PostgreSQL"]);
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
    assert!(!ended.said.contains("hunter2"), "{}", ended.said);

    let ended = run(doctor(&format!("{login}@{server}/no_such_database"))).await;
    assert_broken(&ended, "fail  login", &["no such database", "createdb"]);

    let ended = run(doctor(&format!("{login}@{rest}?sslmode=require"))).await;
    assert_broken(&ended, "fail  login", &["encrypted connection", "sslmode"]);
}

/// A standby must be recognised, with the way to follow the primary.
/// A real one, named alone.
#[tokio::test]
async fn a_standby_is_recognised() {
    let Some(primary) = PrivateCluster::start().await else { return };
    let standby = primary.standby().await;
    let ended = run(doctor(standby.url())).await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.said);
    assert!(ended.said.contains("separated by commas: reveille follows the primary"), "{}", ended.said);
}

/// A user who may not make the schema must be told what to ask for; one who may only use a schema that lacks nothing is merely
/// warned.
/// A login role without any rights, made for the test; then the schema is migrated and the role may use it.
#[tokio::test]
async fn missing_privileges_are_explained() {
    let db = TestDb::new().await;
    let Some(mut superuser) = db.superuser().await else { return };
    let role = format!("doctor_{}", db.schema().name());
    let make = format!("create role {role} login password 'hunter2'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(make)).execute(&mut superuser).await.expect("a role");
    let url = Url { login: format!("{role}:hunter2"), ..Url::of(&db) };
    let mut missing = doctor(&url.text());
    missing.env("REVEILLE_SCHEMA", "nobody_may_make_this");
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
    assert_broken(&missing, "fail  privileges", &["nobody_may_make_this", "create schema"]);
    assert_broken(&existing, "fail  privileges", &["may not make tables", "grant usage, create"]);
    assert_eq!(using.status.code(), Some(0), "{}", using.said);
    assert_finding(&using, "warn  privileges", &["may not make tables", "reveille migrate"]);
}

/// Through a transaction-mode pooler the doctor must say what gets lost and how to say so; told of the pooler it must ask for the
/// direct URL; with both it must be content; and a direct URL that leads through the pooler too must be found out.
/// A real PgBouncer.
#[tokio::test]
async fn a_pooler_is_found_and_explained() {
    let db = TestDb::new().await;
    let Some(pooler) = pooler(&db).await else { return };

    let untold = run(doctor_of(&db, pooler.url())).await;
    assert_broken(&untold, "fail  pooler", &["--pooler", "--direct-url"]);

    let mut told = doctor_of(&db, pooler.url());
    told.env("REVEILLE_POOLER", "true");
    let told = run(told).await;
    assert_eq!(told.status.code(), Some(0), "{}", told.said);
    assert_finding(&told, "ok    prepared statements", &[]);
    assert_finding(&told, "warn  notifications", &["polls", "--direct-url"]);

    let mut direct = doctor_of(&db, pooler.url());
    direct.env("REVEILLE_POOLER", "true").env("REVEILLE_DIRECT_URL", db.url());
    let direct = run(direct).await;
    assert_eq!(direct.status.code(), Some(0), "{}", direct.said);
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

/// What keeps `up` from using a directory must be found without `up`, and a good one must be left as it was.
/// One that does not exist, one that belongs to something else, one below a file.
#[tokio::test]
async fn data_directories_are_judged_as_up_would() {
    let Some(dir) = DataDir::new() else { return };
    let missing = doctor_of_dir(&dir).await;
    assert_finding(&missing, "ok    data directory", &["will be made"]);
    assert!(!dir.path().exists());

    std::fs::create_dir(dir.path()).expect("made");
    assert_finding(&doctor_of_dir(&dir).await, "ok    data directory", &[]);
    assert_eq!(std::fs::read_dir(dir.path()).expect("there").count(), 0, "something was left behind");

    std::fs::write(dir.path().join("precious"), "mine").expect("written");
    assert_broken(&doctor_of_dir(&dir).await, "fail  data directory", &["other things", "--data-dir"]);

    let mut below = command(&["doctor", "--data-dir"]);
    below.arg(dir.path().join("precious/data"));
    assert_broken(&run(below).await, "fail  data directory", &["is a file", "--data-dir"]);
}

/// A directory in use must be recognised together with its user, and one with data needs the programs that made it.
/// Looks while `up` runs; then writes another version into the data directory, of which no program exists.
#[tokio::test]
async fn a_directory_in_use_and_its_version_are_recognised() {
    let Some(dir) = DataDir::new() else { return };
    let reveille = Reveille::start(up(&dir).await);
    reveille.line("Ctrl-C stops both").await;
    let owner = std::fs::read_to_string(dir.path().join("owner")).expect("the owner is written down");
    let busy = doctor_of_dir(&dir).await;
    assert_eq!(busy.status.code(), Some(0), "{}", busy.said);
    assert_finding(&busy, "warn  data directory", &[owner.trim(), "runs on"]);
    reveille.signal("INT").await;
    assert_eq!(reveille.ended().await.status.code(), Some(0));
    assert_finding(&doctor_of_dir(&dir).await, "ok    data directory", &[]);

    std::fs::write(dir.path().join("data/PG_VERSION"), "9\n").expect("written");
    assert_broken(&doctor_of_dir(&dir).await, "fail  PostgreSQL programs", &["no PostgreSQL 9"]);
}
