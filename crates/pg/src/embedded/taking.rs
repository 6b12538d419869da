//! Creating the directory of a server, or taking ownership of it.
//!
//! A caller other than root runs the server as its own user and owns the directory. Root runs the server as another
//! user, which must not control the directory: root owns it, the other user cannot change the path to it, and files
//! that an earlier version gave to that user are taken back before they are used.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::account::make_open_dirs;
use super::files::{self, Access};
use super::home::{LOCK, LOG, MARKER, OLD_LOG, OWNER, PASSWORD, PORT, SOCKET_DIR};
use super::{Account, Error, Result, trust};

/// Mode of root's directory: the server's user can enter it, but neither list nor change it.
const ROOTS_MODE: u32 = 0o711;

/// Permissions that only the owner may have on root's directory.
const OTHERS_WRITE: u32 = 0o022;

/// Every regular file of the directory.
const FILES: [&str; 8] = [MARKER, LOCK, OWNER, PASSWORD, LOG, OLD_LOG, PORT, SOCKET_DIR];

/// Creates the directory of a caller other than root, accessible only to that user, unless it exists. Returns its real
/// path.
pub(super) fn make_own(root: &Path) -> Result<PathBuf> {
    if let Some(parent) = root.parent() {
        fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    }
    make_dir_once(root, 0o700)?;
    check_not_foreign(root)?;
    fs::canonicalize(root).map_err(Error::io("find", root))
}

/// Creates root's directory, or takes ownership of an existing one and its files. Returns its real path, no part of
/// which `account` can change.
pub(super) fn make_roots(root: &Path, account: &Account) -> Result<PathBuf> {
    // Checked before anything is created or taken: a link in the path could redirect it.
    let there = root.ancestors().find(|dir| fs::symlink_metadata(dir).is_ok()).unwrap_or(Path::new("/"));
    let resolved = trust::resolve(there, account, false)?;
    if there != root {
        trust::check_folder(&resolved, account)?;
    }
    if let Some(parent) = root.parent() {
        make_open_dirs(parent)?;
    }
    // The caller's umask may remove bits; the mode is corrected below.
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
    // From here on no other user can create files in it, provided that the path still leads to the same directory.
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

/// Creates a folder. `false` if it exists.
fn make_dir_once(path: &Path, mode: u32) -> Result<bool> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(Error::io("create", path)(error)),
    }
}

/// Checks that a directory is empty or was created by an earlier start.
fn check_not_foreign(root: &Path) -> Result<()> {
    let is_ours = || is_file(&root.join(MARKER));
    if is_ours() {
        return Ok(());
    }
    // Another process may be creating the same directory. It writes the marker before any other file.
    match first_entry(root)? {
        Some(found) if !is_ours() => Err(Error::ForeignDirectory { path: root.to_path_buf(), found }),
        _ => Ok(()),
    }
}

/// Whether a path is a regular file, not a link.
pub(super) fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

/// The first entry of a folder. `None` if it is empty.
fn first_entry(dir: &Path) -> Result<Option<String>> {
    let mut entries = fs::read_dir(dir).map_err(Error::io("list", dir))?.filter_map(io::Result::ok);
    Ok(entries.next().map(|entry| entry.file_name().to_string_lossy().into_owned()))
}
