//! The first thing that a person or a program sees of a server: `GET /`, the documents, the browser, the log.

use reveille_pg::testing::TestDb;
use tokio::net::TcpListener;

use crate::{
    http::{Answer, eventually, get, request, send},
    process::{Reveille, command},
    serve::{ready, serve, stop},
};

/// What a browser sends.
const BROWSER: &str = "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

async fn browse(address: std::net::SocketAddr, path: &str) -> Answer {
    send(address, "GET", path, &[BROWSER], b"").await
}

/// A browser must be led to the console, and a program must get links that exist.
/// Requests `/` as both do, follows each link but that of the console, and reads a document.
#[tokio::test]
async fn the_front_leads_a_browser_to_the_console_and_a_program_to_links() {
    let db = TestDb::new().await;
    let (reveille, address) = ready(serve(&db, &[])).await;
    let led = browse(address, "/").await;
    assert_eq!(led.status, 302, "{led:?}");
    assert!(led.headers.contains("location: console") && led.headers.contains("vary: accept"), "{led:?}");

    let front = get(address, "/").await;
    assert_eq!(front.status, 200);
    let front = front.json();
    assert_eq!((&front["name"], &front["status"]), (&"reveille".into(), &"running".into()), "{front}");
    assert_eq!(front["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(front["links"]["console"], "/console");
    for link in ["openapi", "health", "metrics", "docs"] {
        let path = front["links"][link].as_str().unwrap_or_else(|| panic!("no link {link} in {front}"));
        assert_eq!(get(address, path).await.status, 200, "{path}");
    }
    let head = request(address, "HEAD", "/").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(request(address, "POST", "/").await.status, 405);

    let list = get(address, "/docs").await.body;
    assert!(list.lines().any(|path| path == "/docs/operating.md"), "{list}");
    let document = get(address, "/docs/operating.md").await;
    assert!(document.status == 200 && document.body.starts_with("# Operating"), "{document:?}");
    assert_eq!(get(address, "/docs/..%2Foperating.md").await.status, 404);
    stop(reveille).await;
}

/// While the server is starting, `/` must say so to both, and a browser must come back by itself, from the console too.
/// The database does not run, so the start waits for it.
#[tokio::test]
async fn a_starting_server_says_so_at_the_front() {
    let port = TcpListener::bind("127.0.0.1:0").await.expect("a free port").local_addr().expect("bound").port();
    let mut command = command(&["serve", "--listen=127.0.0.1:0"]);
    command.env("DATABASE_URL", format!("postgres://ann@127.0.0.1:{port}/app"));
    let reveille = Reveille::start(command);
    let address = reveille.address().await;
    let waits = |answer: &Answer| answer.body.contains("waiting for the database");
    let front = eventually(address, "/", waits).await;
    assert_eq!((front.status, &front.json()["status"]), (503, &"starting".into()), "{front:?}");
    assert!(front.headers.contains("retry-after: 1"), "{front:?}");
    for path in ["/", "/console"] {
        let page = browse(address, path).await;
        assert_eq!(page.status, 503);
        assert!(page.headers.contains("content-type: text/html"), "{page:?}");
        assert!(page.body.contains("http-equiv=\"refresh\"") && waits(&page), "{page:?}");
    }
    let program = get(address, "/console").await;
    assert!(program.status == 503 && program.json()["error"].is_string(), "{program:?}");
    stop(reveille).await;
}

/// With JSON as the format of the log, programs read every line of a server's output as JSON, and the address is in it.
/// Starts and stops a server and parses both streams.
#[tokio::test]
async fn a_server_with_a_json_log_writes_only_json() {
    let db = TestDb::new().await;
    let (reveille, address) = ready(serve(&db, &["--log-format=json"])).await;
    let output = stop(reveille).await;
    let lines: Vec<serde_json::Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))).collect();
    let says = |part: &str| lines.iter().any(|line| line["message"].as_str().is_some_and(|text| text.contains(part)));
    assert!(says(&format!("listens on http://{address}")) && says("tables created") && says("stopping"), "{output}");
}

/// `--open` must lead to the console without ever failing the server: root gets its address, another user the program of
/// the desktop.
/// A made-up `xdg-open` fails, which must be one line.
#[tokio::test]
async fn open_leads_to_the_console_or_says_where_it_is() {
    let db = TestDb::new().await;
    let folder = std::env::temp_dir().join(format!("reveille open {}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("made");
    let opener = folder.join("xdg-open");
    std::fs::write(&opener, "#!/bin/sh\nexit 3\n").expect("written");
    let mut path = std::ffi::OsString::from(&folder);
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let allowed = std::process::Command::new("chmod").arg("755").arg(&opener).status().expect("chmod runs");
    assert!(allowed.success());

    let mut up = command(&["up", "--open", "--listen=127.0.0.1:0"]);
    up.env("DATABASE_URL", db.url()).env("REVEILLE_SCHEMA", db.schema().name());
    up.env("PATH", path).env("DISPLAY", ":0");
    let reveille = Reveille::start(up);
    let address = reveille.address().await;
    let line = reveille.line("yourself").await;
    assert!(line.ends_with(&format!("open http://{address}/console yourself")), "{line}");
    assert!(line.contains("as root") || line.contains("exit status: 3"), "{line}");
    assert_eq!(get(address, "/health/live").await.status, 200);
    stop(reveille).await;
    std::fs::remove_dir_all(&folder).expect("removed");
}
