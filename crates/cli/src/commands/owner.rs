//! The lock on the data directory of a private PostgreSQL.
//!
//! Two `reveille up` on one data directory would share one PostgreSQL, and the first to end would stop it under the
//! other.
//! So `up` holds a lock on a file in the directory while it runs. The system releases the lock when the process ends,
//! so there is never a stale one.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use reveille_pg::embedded::Directory;
use rustix::fs::OFlags;

use crate::error::Error;

/// The locked file. It contains the owner's process id.
const FILE: &str = "owner";

/// More digits than a process id has.
const MAX_DIGITS: u64 = 32;

/// The right to start and stop the PostgreSQL of a data directory, until it is dropped.
#[derive(Debug)]
pub(super) struct Owner {
    _locked: File,
}

/// The holder of a data directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Not locked.
    None,
    /// A process; `None` if it has not written its id yet.
    Process(Option<u32>),
}

impl Owner {
    /// Locks a directory.
    pub(super) fn take(directory: &Directory) -> Result<Self, Error> {
        let dir = directory.path();
        let mut file = directory.open_owner()?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Owned { dir: dir.to_owned(), pid: written(file) });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(dir)(source)),
        }
        let write = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        write.map_err(unusable(dir))?;
        Ok(Self { _locked: file })
    }
}

/// The holder of `dir`, without locking it.
pub(super) fn holder(dir: &Path) -> io::Result<Holder> {
    // A user with write access to the directory could have placed a link there.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(dir.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Holder::None),
        Err(error) => Err(error),
        // Shared, so that two checks do not see each other; released at once.
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => Ok(Holder::None),
            Err(TryLockError::WouldBlock) => Ok(Holder::Process(written(file))),
            Err(TryLockError::Error(error)) => Err(error),
        },
    }
}

/// The process id in the file; `None` if there is none yet.
fn written(mut file: File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(MAX_DIGITS).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn unusable(dir: &Path) -> impl Fn(io::Error) -> Error + use<'_> {
    move |source| Error::DataDir { dir: dir.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory has one owner at a time, which is named to the others, and is free again when the owner is gone.
    /// Locks of one process on two open files exclude each other like those of two processes.
    #[tokio::test]
    async fn a_directory_has_one_owner_at_a_time() {
        // Root's temporary folder may be closed to the user that would run a server.
        let dir = Path::new("/tmp").join(format!("reveille owner {}", std::process::id()));
        assert_eq!(holder(&dir).expect("read"), Holder::None);
        let directory = Directory::open(&dir).await.expect("made");
        let first = Owner::take(&directory).expect("free");
        assert_eq!(holder(&dir).expect("read"), Holder::Process(Some(std::process::id())));
        let said = Owner::take(&directory).expect_err("taken").to_string();
        assert!(said.contains(&format!("(process {})", std::process::id())), "{said}");
        drop(first);
        assert_eq!(holder(&dir).expect("read"), Holder::None);
        Owner::take(&directory).expect("free again");
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
