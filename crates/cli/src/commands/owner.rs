//! Who a private PostgreSQL belongs to.
//!
//! Two `reveille up` on one data directory would share one PostgreSQL, and whichever ends first would stop it under the
//! other. So `up` holds a lock on a file in the directory for as long as it runs. The system gives the lock up when its
//! process ends, however that happens: there is nothing stale to clean up.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crate::error::Error;

/// The file that is locked. It holds the owner's process id.
const FILE: &str = "owner";

/// The right to start and stop the PostgreSQL of a data directory, until it is dropped.
#[derive(Debug)]
pub(super) struct Owner {
    _locked: File,
}

/// Who holds a data directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody.
    Nobody,
    /// A process; `None` if it has not written its id yet.
    Process(Option<u32>),
}

impl Owner {
    /// Takes a directory that had an owner before. `None` if it never had one: the directory may not even be ours, and is
    /// not to be written to before somebody has looked.
    pub(super) fn take_again(dir: &Path) -> Result<Option<Self>, Error> {
        match OpenOptions::new().read(true).write(true).open(dir.join(FILE)) {
            Ok(file) => Self::lock(dir, file).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(unusable(dir)(source)),
        }
    }

    /// Takes a directory that a private PostgreSQL lives in.
    pub(super) fn take(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(FILE);
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path);
        Self::lock(dir, file.map_err(unusable(dir))?)
    }

    fn lock(dir: &Path, mut file: File) -> Result<Self, Error> {
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Owned { dir: dir.to_owned(), pid: written(&dir.join(FILE)) });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(dir)(source)),
        }
        let write = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        write.map_err(unusable(dir))?;
        Ok(Self { _locked: file })
    }
}

/// Who holds `dir`, without taking it.
pub(super) fn holder(dir: &Path) -> io::Result<Holder> {
    let path = dir.join(FILE);
    match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Holder::Nobody),
        Err(error) => Err(error),
        // Shared, so that two who look do not see each other; given up at once.
        Ok(file) => match file.try_lock_shared() {
            Ok(()) => Ok(Holder::Nobody),
            Err(TryLockError::WouldBlock) => Ok(Holder::Process(written(&path))),
            Err(TryLockError::Error(error)) => Err(error),
        },
    }
}

/// The process id in the file; `None` if there is none yet.
fn written(path: &PathBuf) -> Option<u32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn unusable(dir: &Path) -> impl Fn(io::Error) -> Error + use<'_> {
    move |source| Error::DataDir { dir: dir.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory has one owner at a time, who is named to the others, and is free again when the owner is gone.
    /// Locks of one process on two open files exclude each other like those of two processes.
    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let dir = std::env::temp_dir().join(format!("reveille owner {}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        assert!(Owner::take_again(&dir).expect("looked at").is_none(), "nobody has been here");
        assert_eq!(std::fs::read_dir(&dir).expect("there").count(), 0, "looking leaves nothing behind");

        let first = Owner::take(&dir).expect("free");
        assert_eq!(holder(&dir).expect("looked at"), Holder::Process(Some(std::process::id())));
        for again in [Owner::take(&dir).map(Some), Owner::take_again(&dir)] {
            let said = again.expect_err("taken").to_string();
            assert!(said.contains(&format!("(process {})", std::process::id())), "{said}");
        }
        drop(first);
        assert_eq!(holder(&dir).expect("looked at"), Holder::Nobody);
        assert!(Owner::take_again(&dir).expect("free").is_some());
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
