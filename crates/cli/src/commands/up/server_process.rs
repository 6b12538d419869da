//! The HTTP server of root's `reveille up`, in a process of its own that is not root.
//!
//! Root is needed to run PostgreSQL as another user and to keep the data directory from that user. It is not needed to
//! answer requests, and a hole in the server must not lead to root. So root's `up` opens the address, starts
//! itself again as the user that runs PostgreSQL, and hands the address over. It then starts PostgreSQL, tells the other
//! process where it is, and has no part in any request.
//!
//! The two talk over a socket, which is the standard input of the other process: first a message with the open address, then lines
//! of text. If either ends, the other one sees the end of the socket: no server is left behind without its parent.

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

use pg::embedded::Account;
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

/// The flag by which the other process knows what it is. It is not for people.
const FLAG: &str = "--server-process";

/// The program that runs, wherever it lies: the other user may not be able to reach the folder of its file.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The lines that are sent: where the database is, that it is time to stop, and, the other way, that the server is ready.
const DATABASE: &str = "database ";
const STOP: &str = "stop";
const READY: &str = "ready";

/// The exit code of a server whose parent left without waiting for it.
const ABANDONED: i32 = 1;

/// The other process, as root's `up` sees it. Dropping it kills the process.
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
        // The command holds the other end, too: without it the end of the process would not be seen.
        drop(command);
        send_listener(&ours, &listener.into_std()?)?;
        ours.set_nonblocking(true)?;
        let (said, tell) = tokio::net::UnixStream::from_std(ours)?.into_split();
        Ok(Self { child, said: BufReader::new(said).lines(), tell })
    }

    /// Serves the database at `url` until the process has ended, by itself or because a stop was requested. Calls `ready` when it
    /// can work.
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

    /// Ends the process in order.
    pub(super) async fn stop(&mut self) -> io::Result<ExitStatus> {
        self.tell(STOP).await;
        self.child.wait().await
    }

    /// Says something. A process that is gone hears nothing, and its end is noticed elsewhere.
    async fn tell(&mut self, line: &str) {
        let _ = self.tell.write_all(format!("{line}\n").as_bytes()).await;
    }
}

/// What the end of the process means. It has said itself what went wrong.
fn exit_result(status: io::Result<ExitStatus>) -> Result<(), Error> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::ServerProcessFailed { status }),
        Err(source) => Err(Error::ServerProcess { user: "the server's user".to_owned(), source }),
    }
}

/// The other process: serves whatever database its parent names, on the address that its parent gives.
pub(super) async fn run(args: config::Up) -> Result<(), Error> {
    let failed = |source| Error::ServerProcess { user: "the server's user".to_owned(), source };
    let shutdown = Shutdown::by_parent()?;
    let schema = args.database.schema()?;
    let settings = Settings::of(&args.database, &args.server, &args.queue, &args.flow)?;
    let (control, listener) = inherited().map_err(failed)?;
    let mut tell = control.try_clone().map_err(failed)?;
    let listener = Listener::from_std(listener, args.server.max_connections_per_peer()).map_err(failed)?;
    let metrics = Metrics::install()?;

    control.set_nonblocking(true).map_err(failed)?;
    let control = tokio::net::UnixStream::from_std(control).map_err(failed)?;
    let (found, database) = oneshot::channel();
    tokio::spawn(obey(control, found, shutdown.clone()));

    let url = answering(&listener, metrics.clone(), &settings.allowed_hosts, None, async |health| {
        health.starting("starting PostgreSQL");
        tokio::select! {
            url = database => url.ok(),
            () = shutdown.requested() => None,
        }
    });
    let Some(url) = url.await else { return Ok(()) };
    let database = open(&url, super::direct(&args.database))?;
    let server = Server { listener, metrics, database, schema, shutdown, settings };
    // A parent that is gone needs no answer; its end is heard by who obeys it.
    server.run(move || drop(writeln!(tell, "{READY}"))).await
}

/// Does what the parent says. Its end without a word is a reason to stop in order; after the word, to leave at once, as it did.
async fn obey(control: tokio::net::UnixStream, found: oneshot::Sender<String>, shutdown: Shutdown) {
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

/// Sends an open address to another process.
fn send_listener(to: &UnixStream, listener: &TcpListener) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    let listener = [listener.as_fd()];
    attached.push(SendAncillaryMessage::ScmRights(&listener));
    // At least one byte has to go with it.
    sendmsg(to, &[IoSlice::new(b"\n")], &mut attached, SendFlags::empty())?;
    Ok(())
}

/// The parent's socket, and the open address that it sends first.
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
    Err(io::Error::other("the parent process has sent no address to listen on"))
}
