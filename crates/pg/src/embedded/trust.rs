//! Whether the server's user could lead root astray on the way to a directory.
//!
//! A path is looked up name by name. A user who can write to a folder on the way can replace the next name by a link, and
//! root would follow it. So every folder in which a name is looked up, those that links lead through included, must be one
//! that the server's user cannot change.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::{Account, Error, Result};

/// Links on the way to a directory; the system itself gives up after as many.
const MAX_LINKS: usize = 40;

/// In a folder with this bit, such as `/tmp`, a name can be replaced by the owner of what it names only.
const STICKY: u32 = 0o1000;

/// Follows an absolute path, and returns it without links.
///
/// # Errors
/// [`Error::Untrusted`] names the first entry that `account` can replace. What the path leads to in the end may still belong to
/// `account` if `taken` is false: it is about to be taken.
pub(super) fn resolve(path: &Path, account: &Account, taken: bool) -> Result<PathBuf> {
    let mut rest = components(path);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let folder = fs::metadata(&at).map_err(Error::io("look at", &at))?;
        let entry = fs::symlink_metadata(&next).map_err(Error::io("look at", &next))?;
        let is_last = rest.is_empty() && !entry.is_symlink();
        let is_theirs = entry.uid() == account.uid() && (taken || !is_last);
        if can_change(account, &folder) || (is_theirs && is_writable(account, &folder)) {
            return Err(Error::Untrusted { path: next, user: account.name().to_owned() });
        }
        if entry.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Error::Link { path: path.to_path_buf() });
            }
            let target = fs::read_link(&next).map_err(Error::io("read the link", &next))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            components(&target).into_iter().rev().for_each(|name| rest.push_front(name));
        } else {
            at = next;
        }
    }
    Ok(at)
}

/// Checks that what is made in a folder stays what it is.
///
/// # Errors
/// [`Error::Untrusted`] if `account` could replace it.
pub(super) fn check_folder(path: &Path, account: &Account) -> Result<()> {
    let folder = fs::metadata(path).map_err(Error::io("look at", path))?;
    match can_change(account, &folder) {
        true => Err(Error::Untrusted { path: path.to_path_buf(), user: account.name().to_owned() }),
        false => Ok(()),
    }
}

/// The names of a path, without the root and without what changes nothing.
fn components(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Whether `account` can replace entries of `folder` that belong to others.
fn can_change(account: &Account, folder: &Metadata) -> bool {
    folder.uid() == account.uid() || (is_writable(account, folder) && folder.mode() & STICKY == 0)
}

fn is_writable(account: &Account, folder: &Metadata) -> bool {
    let by_group = folder.mode() & 0o020 != 0 && account.is_member(folder.gid());
    by_group || folder.mode() & 0o002 != 0 || folder.uid() == account.uid()
}
