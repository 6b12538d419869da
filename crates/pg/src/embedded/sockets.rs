//! The folder of a server's socket.
//!
//! It belongs to the server's user. When root starts the server, operations in it run with that user's rights: in
//! `/tmp` that user could replace the folder with a link at any time.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::home::{Home, SOCKET_DIR, random_hex};
use super::{Error, Result, files};

/// The longest path of a socket's folder: the system allows about 100 bytes for the socket, whose name and lock take
/// 19.
const SOCKET_DIR_BYTES: usize = 80;

/// Prefix of a socket folder outside the home.
const OUTSIDE: &str = "/tmp/reveille-";

/// Random bytes of the name of a folder outside the home.
const NAME_BYTES: usize = 6;

impl Home {
    /// A private folder for the socket: inside the home if the path is short and simple, or else in `/tmp` under a
    /// random name that is saved in the home.
    pub(super) fn socket_dir(&self) -> Result<PathBuf> {
        let inside = self.root().join("run");
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
        let bytes = inside.as_os_str().as_encoded_bytes();
        if bytes.len() <= SOCKET_DIR_BYTES && bytes.iter().all(plain) {
            if fs::symlink_metadata(&inside).is_err() {
                self.make_dir(&inside)?;
            }
            return self.check_ours(&inside).map(|()| inside);
        }
        let remembered = self.root().join(SOCKET_DIR);
        if let Some(text) = files::read(&remembered)?
            && text.trim().starts_with(OUTSIDE)
        {
            let outside = PathBuf::from(text.trim());
            if fs::symlink_metadata(&outside).is_err() {
                let _ = self.make_dir_outside(&outside);
            }
            if self.check_ours(&outside).is_ok() {
                return Ok(outside);
            }
        }
        let outside = PathBuf::from(format!("{OUTSIDE}{}", random_hex(NAME_BYTES)?));
        self.make_dir_outside(&outside)?;
        self.write(&remembered, &outside.to_string_lossy())?;
        Ok(outside)
    }

    /// Removes the files that a killed server left in the folder of its socket. PostgreSQL would refuse to start while
    /// any process has the pid in the socket's lock file.
    pub(super) fn clear_socket_dir(&self, dir: &Path) -> Result<()> {
        if let Some(account) = self.account() {
            let script = r#"rm -f -- "$1"/.s.PGSQL.*"#;
            return account.shell(script, &[dir.as_os_str()], "").map_err(Error::io("clear", dir));
        }
        for entry in fs::read_dir(dir).map_err(Error::io("list", dir))?.filter_map(io::Result::ok) {
            if entry.file_name().as_encoded_bytes().starts_with(b".s.PGSQL.") {
                fs::remove_file(entry.path()).map_err(Error::io("remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    /// Removes a socket folder outside the home after the server has stopped.
    pub(super) fn remove_socket_dir(&self, dir: &Path) {
        if dir.starts_with(self.root()) || !dir.to_string_lossy().starts_with(OUTSIDE) {
            return;
        }
        // Fails unless the folder is empty, as it is after a stop.
        let _ = match self.account() {
            Some(account) => account.shell(r#"exec rmdir -- "$1""#, &[dir.as_os_str()], ""),
            None => fs::remove_dir(dir),
        };
    }

    fn make_dir_outside(&self, path: &Path) -> Result<()> {
        match self.account() {
            Some(account) => account.make_dir(path),
            None => fs::DirBuilder::new().mode(0o700).create(path).map_err(Error::io("create", path)),
        }
    }

    /// Checks that a folder is private to the server's user: in `/tmp` any user could have created it.
    fn check_ours(&self, path: &Path) -> Result<()> {
        let (there, data) = (fs::symlink_metadata(path), self.data());
        let there = there.map_err(Error::io("look at", path))?;
        // The owner of the data is the server's user.
        let owner = fs::metadata(&data).map_err(Error::io("look at", &data))?.uid();
        if there.is_dir() && there.uid() == owner && there.mode() & 0o077 == 0 {
            return Ok(());
        }
        Err(Error::ForeignDirectory { path: path.to_path_buf(), found: "another user's files".to_owned() })
    }
}
