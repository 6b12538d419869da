//! The HTTP server of root's `reveille up`, in a process of its own that is not root.
//!
//! Root is needed to run PostgreSQL as another user and to protect the data directory from that user. It is not needed
//! to handle requests, and a vulnerability in the server must not give root access. So root's `up` binds the address,
//! starts itself again as the user that runs PostgreSQL, and passes the socket to it. It then starts PostgreSQL and
//! sends its URL to the server process; it handles no requests.
//!
//! Both communicate over a socket, the standard input of the server process: first a message with the bound socket,
//! then lines of text. If one process ends, the other sees the end of the socket: no server outlives its parent.

use std::{
    io::{self, IoSlice, IoSliceMut, Write as _},
    mem::MaybeUninit,
    net::TcpListener,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use reveille_pg::embedded::Account;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    process::{Child, Command},
    sync::oneshot,
};

use super::super::open;
use crate::{
    config,
    error::Error,
    http::{Listener, Metrics},
    serve::{Server, Settings, answering},
    shutdown::Shutdown,
};

/// The internal flag that marks the server process.
const FLAG: &str = "--server-process";

/// The running program: the other user may not be able to enter its folder.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The lines of the protocol: to the server process the URL of the database and the request to stop, from it "ready".
const DATABASE: &str = "database ";
const STOP: &str = "stop";
const READY: &str = "ready";

/// The exit code of a server process whose parent is gone.
const ABANDONED: i32 = 1;

/// The server process, as seen by root's `up`. Dropping it kills the process.
pub(super) struct ServerProcess {
    child: Child,
    said: tokio::io::Lines<BufReader<OwnedReadHalf>>,
    tell: OwnedWriteHalf,
}

impl ServerProcess {
    /// Starts the process as `account`, and gives it the address.
    pub(super) fn start(account: &Account, listener: Listener) -> Result<Self, Error> {
        Self::try_start(account, listener)
            .map_err(|source| Error::ServerProcess { user: account.name().to_owned(), source })
    }

    fn try_start(account: &Account, listener: Listener) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let program = match Path::new(THIS_PROGRAM).exists() {
            true => PathBuf::from(THIS_PROGRAM),
            false => std::env::current_exe()?,
        };
        let mut command = Command::new(program);
        command.arg0("reveille").args(std::env::args_os().skip(1)).arg(FLAG);
        command.stdin(Stdio::from(OwnedFd::from(theirs))).kill_on_drop(true);
        account.run(command.as_std_mut());
        let child = command.spawn()?;
        // The command holds the other end, too: unless it is dropped, the end of the process is not noticed.
        drop(command);
        send_listener(&ours, &listener.into_std()?)?;
        ours.set_nonblocking(true)?;
        let (said, tell) = tokio::net::UnixStream::from_std(ours)?.into_split();
        Ok(Self { child, said: BufReader::new(said).lines(), tell })
    }

    /// Serves the database at `url` until the process exits, by itself or because a shutdown was requested. Calls
    /// `ready` when it is.
    pub(super) async fn serve(mut self, url: &str, shutdown: &Shutdown, ready: impl FnOnce()) -> Result<(), Error> {
        self.tell(&format!("{DATABASE}{url}")).await;
        let mut ready = Some(ready);
        let status = loop {
            tokio::select! {
                status = self.child.wait() => break status,
                () = shutdown.requested() => break self.stop().await,
                Ok(Some(line)) = self.said.next_line(), if ready.is_some() => {
                    if line == READY && let Some(ready) = ready.take() {
                        ready();
                    }
                }
            }
        };
        exit_result(status)
    }

    /// Shuts the process down.
    pub(super) async fn stop(&mut self) -> io::Result<ExitStatus> {
        self.tell(STOP).await;
        self.child.wait().await
    }

    /// Sends a line. The end of the process is noticed elsewhere.
    async fn tell(&mut self, line: &str) {
        let _ = self.tell.write_all(format!("{line}\n").as_bytes()).await;
    }
}

/// The result for an exit status. The process has printed its error itself.
fn exit_result(status: io::Result<ExitStatus>) -> Result<(), Error> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::ServerProcessFailed { status }),
        Err(source) => Err(Error::ServerProcess { user: "the server's user".to_owned(), source }),
    }
}

/// The server process: serves the database whose URL its parent sends, on the socket that its parent sends.
pub(super) async fn run(args: config::Up) -> Result<(), Error> {
    let failed = |source| Error::ServerProcess { user: "the server's user".to_owned(), source };
    let shutdown = Shutdown::by_parent()?;
    let schema = args.database.schema()?;
    let settings = Settings::of(&args.database, &args.server, &args.queue, &args.flow)?.demo(args.demo);
    let (control, listener) = inherited().map_err(failed)?;
    let mut tell = control.try_clone().map_err(failed)?;
    let tls = args.server.tls()?;
    let listener = Listener::from_std(listener, args.server.max_connections_per_peer()).map_err(failed)?.secured(tls);
    let metrics = Metrics::install()?;

    control.set_nonblocking(true).map_err(failed)?;
    let control = tokio::net::UnixStream::from_std(control).map_err(failed)?;
    let (found, database) = oneshot::channel();
    tokio::spawn(follow_parent(control, found, shutdown.clone()));

    let url = answering(
        &listener,
        metrics.clone(),
        &settings.allowed_hosts,
        &settings.authentication,
        None,
        async |health| {
            health.starting("starting PostgreSQL");
            tokio::select! {
                url = database => url.ok(),
                () = shutdown.requested() => None,
            }
        },
    );
    let Some(url) = url.await else { return Ok(()) };
    let database = open(&url, super::direct(&args.database))?;
    let server = Server { listener, metrics, database, schema, shutdown, settings };
    // The end of the parent is noticed by the task that reads its lines.
    server.run(move || drop(writeln!(tell, "{READY}"))).await
}

/// Reads the lines of the parent. If the parent ends without a request to stop, shuts down in order; after such a
/// request, exits at once, as the parent did.
async fn follow_parent(control: tokio::net::UnixStream, found: oneshot::Sender<String>, shutdown: Shutdown) {
    let mut found = Some(found);
    let mut lines = BufReader::new(control).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(url) = line.strip_prefix(DATABASE)
            && let Some(found) = found.take()
        {
            let _ = found.send(url.to_owned());
        } else if line == STOP {
            shutdown.request();
        }
    }
    if shutdown.is_requested() {
        std::process::exit(ABANDONED);
    }
    shutdown.request();
}

/// Sends a bound socket to another process.
fn send_listener(to: &UnixStream, listener: &TcpListener) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    let listener = [listener.as_fd()];
    attached.push(SendAncillaryMessage::ScmRights(&listener));
    // At least one byte must accompany it.
    sendmsg(to, &[IoSlice::new(b"\n")], &mut attached, SendFlags::empty())?;
    Ok(())
}

/// The control socket, and the bound socket that the parent sends first.
fn inherited() -> io::Result<(UnixStream, TcpListener)> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&control, &mut [IoSliceMut::new(&mut byte)], &mut attached, RecvFlags::CMSG_CLOEXEC)?;
    for message in attached.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message
            && let Some(file) = files.next()
        {
            return Ok((control, TcpListener::from(file)));
        }
    }
    Err(io::Error::other("the parent process has sent no socket to listen on"))
}
