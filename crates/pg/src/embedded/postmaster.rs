//! The running server: its pid file, its process, its log.
//!
//! A pid file survives a crash, and its number may then belong to another process. So the number alone is not trusted:
//! a process counts as the server only if it is `postgres` with this data directory as its working directory. Its
//! command line may name the directory in any form.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::home::Home;
use super::{Account, Error, Result, files};

/// Number of log lines in an error message.
const TAIL_LINES: usize = 12;
/// Number of bytes of the log to read for them.
const TAIL_BYTES: u64 = 8 * 1024;

/// The content of `postmaster.pid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PidFile {
    pub(crate) pid: u32,
    /// The port, once the server has chosen its sockets.
    pub(super) port: Option<u16>,
    /// The folder of its socket. `None` if it has none or has not created it yet.
    pub(super) socket_dir: Option<String>,
    /// It accepts connections.
    pub(super) ready: bool,
}

impl PidFile {
    /// Reads the file. `None` if it does not exist or is still empty.
    pub(super) fn read(pgdata: &Path) -> Option<PidFile> {
        PidFile::parse(&files::read(&pgdata.join("postmaster.pid")).ok()??)
    }

    /// The lines are: pid, data directory, start time, port, socket directory, address, shared memory, status.
    fn parse(text: &str) -> Option<PidFile> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        Some(PidFile {
            pid: lines.first()?.parse().ok()?,
            port: lines.get(3).and_then(|line| line.parse().ok()),
            socket_dir: lines.get(4).filter(|line| !line.is_empty()).map(|line| (*line).to_owned()),
            ready: matches!(lines.get(7), Some(&"ready" | &"standby")),
        })
    }
}

/// The server that runs on `pgdata`, if one does.
pub(crate) fn running(pgdata: &Path) -> Option<PidFile> {
    PidFile::read(pgdata).filter(|file| serves(file.pid, pgdata))
}

/// Whether process `pid` is a PostgreSQL server on `pgdata`. False for a zombie process.
pub(super) fn serves(pid: u32, pgdata: &Path) -> bool {
    inspect(pid, pgdata) == Process::ThisServer
}

/// What the process of a pid file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    /// The server on the data directory in question.
    ThisServer,
    /// Ended, or certainly another program.
    Another,
    /// A PostgreSQL server whose data directory cannot be determined.
    SomeServer,
}

fn inspect(pid: u32, pgdata: &Path) -> Process {
    if !Path::new("/proc/self").exists() {
        return inspect_by_ps(pid, pgdata);
    }
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return Process::Another };
    let mut words = line.split(|byte| *byte == 0);
    // The server's child processes are called `postgres: …`.
    if !words.next().is_some_and(|program| program.ends_with(b"postgres") || program.ends_with(b"postmaster")) {
        return Process::Another;
    }
    if words.any(|word| word == pgdata.as_os_str().as_encoded_bytes()) {
        return Process::ThisServer;
    }
    // Readable only by the server's user and root.
    match fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(dir) if fs::canonicalize(pgdata).is_ok_and(|pgdata| pgdata == dir) => Process::ThisServer,
        // A server that was just started has not changed to its data directory yet.
        Ok(dir) if dir.join("PG_VERSION").exists() => Process::Another,
        // A server runs only on data of its own user.
        Err(_) if is_of_another_user(pid, pgdata) => Process::Another,
        _ => Process::SomeServer,
    }
}

fn is_of_another_user(pid: u32, pgdata: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).map(|found| found.uid()).ok();
    // A process may be hidden from its own user; its owner is then shown as root.
    let process = owner(Path::new(&format!("/proc/{pid}"))).filter(|uid| *uid != 0);
    process.zip(owner(pgdata)).is_some_and(|(process, data)| process != data)
}

fn inspect_by_ps(pid: u32, pgdata: &Path) -> Process {
    let output = Command::new("ps").args(["-ww", "-o", "args=", "-p", &pid.to_string()]).stderr(Stdio::null()).output();
    let Ok(output) = output else { return Process::Another };
    let mentions = |what: &[u8]| output.stdout.windows(what.len()).any(|part| part == what);
    match (mentions(b"postgres"), mentions(pgdata.as_os_str().as_encoded_bytes())) {
        (true, true) => Process::ThisServer,
        (true, false) => Process::SomeServer,
        (false, _) => Process::Another,
    }
}

/// Checks that no server can be running on `pgdata`, before files of the last one are removed.
///
/// # Errors
/// [`Error::MayBeRunning`] if a server may be running.
pub(super) fn none_may_run(pgdata: &Path) -> Result<()> {
    match PidFile::read(pgdata) {
        Some(file) if inspect(file.pid, pgdata) != Process::Another => {
            Err(Error::MayBeRunning { pid: file.pid, pid_file: pgdata.join("postmaster.pid") })
        }
        _ => Ok(()),
    }
}

/// Rewrites a stale pid file so that the next server accepts it.
///
/// PostgreSQL refuses to start while the number in the file belongs to a running process of its user, but treats a file
/// that names its own parent as stale. The file is not removed, because it also names the shared memory by which
/// PostgreSQL finds orphaned sessions of the crashed server, and that check must still run.
pub(super) fn disown_pid_file(home: &Home) -> Result<()> {
    let path = home.data().join("postmaster.pid");
    let Some(text) = files::read(&path)? else { return Ok(()) };
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    home.replace_as_server(&path, &format!("{}\n{rest}", std::process::id()))
}

/// A way to end a server.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    /// Ends sessions, writes a checkpoint, and stops.
    Fast,
    /// Stops without a checkpoint; the next start recovers from the write-ahead log.
    Immediate,
    /// Kills only the postmaster, as the system's out-of-memory killer would.
    Kill,
}

/// Sends a signal with the rights of the server's user, so that it reaches no other user's process. Succeeds if the
/// process has already ended.
pub(crate) fn signal(pid: u32, signal: Signal, account: Option<&Account>) -> Result<()> {
    let name = match signal {
        Signal::Fast => "INT",
        Signal::Immediate => "QUIT",
        Signal::Kill => "KILL",
    };
    // The shell's built-in `kill`: the program is not installed everywhere.
    let mut command = Command::new("sh");
    command.args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
    if let Some(account) = account {
        account.run(&mut command);
    }
    command.status().map(drop).map_err(Error::io("signal the server with", Path::new("sh")))
}

/// The last lines of a log after `offset`.
pub(super) fn log_tail(log: &Path, offset: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = files::open(log, files::Access::Read).map_err(io::Error::other)?;
        let start = file.metadata()?.len().saturating_sub(TAIL_BYTES).max(offset);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = read().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pid file grows line by line while the server starts; every stage must parse.
    /// Parses the stages of a real file.
    #[test]
    fn a_pid_file_is_read_at_every_stage_of_the_start() {
        let full = "42\n/data\n1700000000\n5433\n/tmp\n127.0.0.1\n 123 456\nready   \n";
        let file = PidFile::parse(full).expect("complete");
        assert_eq!((file.pid, file.port, file.socket_dir.as_deref(), file.ready), (42, Some(5433), Some("/tmp"), true));
        let starting = PidFile::parse(&full.replace("ready   ", "starting")).expect("starting");
        assert!(!starting.ready);
        let early = PidFile::parse("42\n/data\n1700000000\n").expect("early");
        assert_eq!((early.port, early.socket_dir, early.ready), (None, None, false));
        assert_eq!(PidFile::parse(""), None);
    }

    /// A pid that belongs to another process is not the server, even while that process runs.
    /// Inspects this process and one that has ended.
    #[test]
    fn another_process_is_not_taken_for_the_server() {
        assert!(!serves(std::process::id(), Path::new("/data")));
        let mut child = Command::new("true").spawn().expect("spawn");
        child.wait().expect("wait");
        assert!(!serves(child.id(), Path::new("/data")));
    }
}
