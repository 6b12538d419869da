//! Making or taking the directory of a server.
//!
//! A caller who is not root runs the server himself, and the directory is his. Root runs it as another user, from whom the
//! directory has to be kept: it is root's, the path to it is one that the other user cannot change, and what an earlier version
//! gave away is taken back before anything in it is used.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::account::make_open_dirs;
use super::files::{self, Access};
use super::home::{LOCK, LOG, MARKER, OLD_LOG, OWNER, PASSWORD, PORT, SOCKET_DIR};
use super::{Account, Error, Result, trust};

/// The directory of root's server: its user passes through it, and can neither list nor change it.
const ROOTS_MODE: u32 = 0o711;

/// What others than the owner must not have on a directory of root.
const OTHERS_WRITE: u32 = 0o022;

/// Every plain file of the directory.
const FILES: [&str; 8] = [MARKER, LOCK, OWNER, PASSWORD, LOG, OLD_LOG, PORT, SOCKET_DIR];

/// Makes the directory of a caller who runs the server himself, closed to everybody else, unless it exists. Returns its real
/// path.
pub(super) fn make_own(root: &Path) -> Result<PathBuf> {
    if let Some(parent) = root.parent() {
        fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    }
    make_dir_once(root, 0o700)?;
    check_not_foreign(root)?;
    fs::canonicalize(root).map_err(Error::io("find", root))
}

/// Makes root's directory, unless it exists; an existing one is taken, with the files that an earlier version gave away. Returns
/// its real path, on which `account` can change nothing.
pub(super) fn make_roots(root: &Path, account: &Account) -> Result<PathBuf> {
    // Before anything is made or taken: a link on the way would choose where.
    let there = root.ancestors().find(|dir| fs::symlink_metadata(dir).is_ok()).unwrap_or(Path::new("/"));
    let resolved = trust::resolve(there, account, false)?;
    if there != root {
        trust::check_folder(&resolved, account)?;
    }
    if let Some(parent) = root.parent() {
        make_open_dirs(parent)?;
    }
    // The caller's umask may take something away, which is put right below.
    let is_new = make_dir_once(root, ROOTS_MODE)?;
    check_not_foreign(root)?;
    let real = fs::canonicalize(root).map_err(Error::io("find", root))?;
    let dir = files::open_dir(&real).map_err(Error::io("open", &real))?;
    let found = dir.metadata().map_err(Error::io("look at", &real))?;
    let mode = match found.uid() == 0 && !is_new {
        true => found.mode() & 0o7777 & !OTHERS_WRITE,
        false => ROOTS_MODE,
    };
    files::take(&dir, &real)?;
    if found.mode() & 0o7777 != mode {
        dir.set_permissions(Permissions::from_mode(mode)).map_err(Error::io("change the mode of", &real))?;
    }
    // From here on no other user can put anything into it, if the path leads to what was just taken.
    let trusted = trust::resolve(root, account, true)?;
    let there = fs::symlink_metadata(&trusted).map_err(Error::io("look at", &trusted))?;
    if (there.dev(), there.ino()) != (found.dev(), found.ino()) {
        return Err(Error::Untrusted { path: trusted, user: account.name().to_owned() });
    }
    for name in FILES {
        let path = trusted.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            files::take(&files::open(&path, Access::Take)?, &path)?;
        }
    }
    Ok(trusted)
}

/// Makes a folder. `false` if there is one already.
fn make_dir_once(path: &Path, mode: u32) -> Result<bool> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("create", path)(error)),
    }
}

/// Checks that a directory is empty, or that an earlier start has made it.
fn check_not_foreign(root: &Path) -> Result<()> {
    let is_ours = || is_file(&root.join(MARKER));
    if is_ours() {
        return Ok(());
    }
    // Another process may be making the directory too. Then the marker is there before anything that was found.
    match first_entry(root)? {
        Some(found) if !is_ours() => Err(Error::ForeignDirectory { path: root.to_path_buf(), found }),
        _ => Ok(()),
    }
}

/// Whether a path is a plain file, and not a link to one.
pub(super) fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

/// One thing in a folder. `None` when it is empty.
fn first_entry(dir: &Path) -> Result<Option<String>> {
    let mut entries = fs::read_dir(dir).map_err(Error::io("list", dir))?.filter_map(io::Result::ok);
    Ok(entries.next().map(|entry| entry.file_name().to_string_lossy().into_owned()))
}
