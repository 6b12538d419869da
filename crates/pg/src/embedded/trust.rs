//! Checks that the server's user cannot change the path to a directory.
//!
//! A path is resolved name by name. A user that can write to one of its folders can replace the next name with a link,
//! and root would follow it. So the server's user must not be able to change any folder in which a name is resolved,
//! including the folders that links lead through.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use super::{Account, Error, Result};

/// Most links in a path; the system has the same limit.
const MAX_LINKS: usize = 40;

/// In a folder with this bit, such as `/tmp`, only the owner of an entry can replace it.
const STICKY: u32 = 0o1000;

/// Follows an absolute path, and returns it without links.
///
/// # Errors
/// [`Error::Untrusted`] names the first entry that `account` can replace. If `taken` is false, the last entry may still
/// belong to `account`, because its ownership is about to be taken.
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

/// Checks that `account` cannot replace a new entry of a folder.
///
/// # Errors
/// [`Error::Untrusted`] if it can.
pub(super) fn check_folder(path: &Path, account: &Account) -> Result<()> {
    let folder = fs::metadata(path).map_err(Error::io("look at", path))?;
    match can_change(account, &folder) {
        true => Err(Error::Untrusted { path: path.to_path_buf(), user: account.name().to_owned() }),
        false => Ok(()),
    }
}

/// The names of a path, without the root and `.`.
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
