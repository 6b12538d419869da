//! A real PgBouncer in transaction mode.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::server::Folder;
use super::{TestDb, address, skip};

/// Folders where packages install it; the `PATH` of an ordinary user often lacks `sbin`.
const FOLDERS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];

/// Few, so that clients change server connections often.
const SERVER_CONNECTIONS: u32 = 3;

/// How long it may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A PgBouncer in transaction mode in front of the test server. It does not track prepared statements. Stopped when the
/// value is dropped.
#[derive(Debug)]
pub struct Pooler {
    url: String,
    process: Child,
    folder: PathBuf,
}

/// Starts a pooler in front of a test's server.
///
/// `None`, with a line that the test is skipped, if PgBouncer is not installed (`make test` installs it if possible),
/// or if `DATABASE_URL` names a socket, which PgBouncer may not be allowed to open.
pub async fn pooler(db: &TestDb) -> Option<Pooler> {
    let Some(program) = find() else { return skip("PgBouncer, which is not installed") };
    let target = address::target(db.url());
    if target.0.starts_with('/') {
        return skip("a host and port for PgBouncer, but DATABASE_URL names a socket");
    }
    let servers = Folder::open().await;
    let folder = servers.make_private_dir();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.expect("a free port for the pooler").port()));
    let users = servers.write(&folder.join("users"), &users(db.url()));
    let ini = servers.write(&folder.join("pgbouncer.ini"), &configuration(&program, &users, &target, address));
    servers.give(&users);
    servers.give(&ini);

    let log = fs::File::create(folder.join("log")).expect("the pooler's log");
    let mut command = Command::new(program);
    command.arg("--quiet").arg(ini).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(log));
    servers.run_as_server(&mut command);
    let process = command.spawn().expect("run pgbouncer");
    let mut pooler = Pooler { url: address::redirect(db.url(), address), process, folder };
    pooler.wait(address).await;
    Some(pooler)
}

impl Pooler {
    /// The server's URL through the pooler. Do not print it.
    pub fn url(&self) -> &str {
        &self.url
    }

    async fn wait(&mut self, address: SocketAddr) {
        let since = Instant::now();
        while TcpStream::connect(address).await.is_err() {
            let ended = self.process.try_wait().expect("query the state of pgbouncer").is_some();
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(!ended && since.elapsed() < START_TIMEOUT, "pgbouncer did not start: {}", log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file())
}

/// The login that clients use and that the pooler uses on the server.
fn users(url: &str) -> String {
    let quote = |text: String| format!("\"{}\"", text.replace('"', "\"\""));
    let (role, password) = address::login(url);
    format!("{} {}\n", quote(role), quote(password))
}

fn configuration(program: &Path, users: &Path, target: &(String, u16), address: SocketAddr) -> String {
    // Since 1.21 it can track prepared statements; switched off, because a pooler without that is the harder case.
    let version = Command::new(program).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version).into_owned();
    let minor =
        version.split_whitespace().find_map(|word| word.strip_prefix("1.")?.split('.').next()?.parse::<u32>().ok());
    let prepared = if minor.is_some_and(|minor| minor >= 21) { "max_prepared_statements = 0\n" } else { "" };
    let (host, port) = target;
    format!(
        "[databases]\n* = host={host} port={port}\n[pgbouncer]\n\
         listen_addr = {}\nlisten_port = {}\nunix_socket_dir =\n\
         auth_type = scram-sha-256\nauth_file = {}\n\
         pool_mode = transaction\ndefault_pool_size = {SERVER_CONNECTIONS}\nmax_client_conn = 500\n{prepared}",
        address.ip(),
        address.port(),
        users.display(),
    )
}
