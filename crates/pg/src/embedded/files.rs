//! Opening files in a folder where another user could have placed a link.
//!
//! Root keeps files beside data that belongs to the server's user. Following a link of that user would make root write
//! to the link's target. Files here are opened without following a final link, and must be regular files with one hard
//! link. [`trust`](super::trust) checks the parent folders.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;

use rustix::fs::OFlags;

use super::{Error, Result};

/// The most bytes read: a pid file, a version, a password, a port have a few hundred bytes at most.
const READ_BYTES: u64 = 64 * 1024;

/// How a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    /// Created if it does not exist; readable by its owner only.
    Write,
    Append,
    /// To change its owner.
    Take,
}

/// Opens a regular file.
///
/// # Errors
/// [`Error::Link`] for anything else: a link, a pipe, a file with a second hard link (which is allowed for reading).
pub(super) fn open(path: &Path, access: Access) -> Result<File> {
    let mut options = OpenOptions::new();
    match access {
        Access::Read | Access::Take => options.read(true),
        // Not truncated before its type is checked.
        Access::Write => options.read(true).write(true).create(true).truncate(false).mode(0o600),
        Access::Append => options.append(true).create(true).mode(0o600),
    };
    // Opening a pipe without a reader would block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
        match error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            true => Error::Link { path: path.to_path_buf() },
            false => Error::io("open", path)(error),
        }
    })?;
    let found = file.metadata().map_err(Error::io("look at", path))?;
    let is_plain = found.is_file() && (access == Access::Read || found.nlink() <= 1);
    if is_plain { Ok(file) } else { Err(Error::Link { path: path.to_path_buf() }) }
}

/// Opens a folder, so that later operations do not depend on its name.
pub(super) fn open_dir(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Reads a small file. `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    let file = match open(path, Access::Read) {
        Ok(file) => file,
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(READ_BYTES).read_to_string(&mut text).map_err(Error::io("read", path))?;
    Ok(Some(text))
}

/// Replaces the content of a file that only its owner can read.
pub(super) fn write(path: &Path, text: &str) -> Result<File> {
    let mut file = open(path, Access::Write)?;
    let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
    written.map_err(Error::io("write", path))?;
    Ok(file)
}

/// Changes the owner of an open file or folder to root.
pub(super) fn take(file: &File, path: &Path) -> Result<()> {
    match file.metadata().map_err(Error::io("look at", path))?.uid() {
        0 => Ok(()),
        _ => give(file, path, 0, 0),
    }
}

/// Changes the owner of an open file or folder to a user.
pub(super) fn give(file: &File, path: &Path, uid: u32, gid: u32) -> Result<()> {
    fchown(file, Some(uid), Some(gid)).map_err(Error::io("change the owner of", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Only a regular file is opened, and the target of a link is neither created nor changed.
    /// A link to a file, a dangling link, a second hard link, a folder, a pipe without a reader, and a regular file.
    #[test]
    fn only_regular_files_are_opened() {
        let name = super::super::home::random_hex(6).expect("random bytes");
        let dir = std::env::temp_dir().join(format!("reveille-files-{name}"));
        fs::create_dir(&dir).expect("made");
        let at = |name: &str| dir.join(name);
        fs::write(at("target"), "precious").expect("written");
        symlink(at("target"), at("link")).expect("linked");
        symlink(at("absent"), at("dangling")).expect("linked");
        fs::write(at("plain"), "old").expect("written");
        fs::create_dir(at("folder")).expect("made");
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo runs");
        assert!(made.success());
        for access in [Access::Read, Access::Write, Access::Append, Access::Take] {
            for name in ["link", "dangling"] {
                assert!(matches!(open(&at(name), access), Err(Error::Link { .. })), "{name} {access:?}");
            }
            for name in ["folder", "pipe"] {
                open(&at(name), access).expect_err(name);
            }
        }
        fs::hard_link(at("target"), at("second")).expect("linked");
        assert!(matches!(write(&at("second"), "new"), Err(Error::Link { .. })));
        assert_eq!(read(&at("second")).expect("read").as_deref(), Some("precious"));
        assert_eq!(fs::read_to_string(at("target")).expect("there"), "precious");
        assert!(!at("absent").exists());

        write(&at("plain"), "new").expect("written");
        assert_eq!(read(&at("plain")).expect("read").as_deref(), Some("new"));
        assert_eq!(read(&at("nothing")).expect("read"), None);
        fs::remove_dir_all(&dir).expect("removed");
    }
}
