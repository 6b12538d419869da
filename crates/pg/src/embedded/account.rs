//! The user that runs the server when the caller is root.
//!
//! Operations in a folder of that user run with that user's rights ([`Account::run`]): a link placed there leads to
//! nothing that the user could not access anyway.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::{Error, Result};

/// Tried in this order: the user of the packages, then the one that every system has.
const NAMES: [&str; 2] = ["postgres", "nobody"];

/// A path that users other than root can enter, for error messages.
const REACHABLE: &str = "/var/lib/reveille";

/// Replaces a file atomically. The new text is written to a temporary name that must not exist, so that no link or pipe
/// of that name is opened.
const REPLACE: &str = r#"umask 077; set -C; rm -f -- "$1.new" && cat >"$1.new" && mv -f -- "$1.new" "$1""#;

/// A user that is not root.
#[derive(Clone, Debug)]
pub struct Account {
    name: String,
    uid: u32,
    gid: u32,
    /// All groups that the user is in.
    groups: Vec<u32>,
}

impl Account {
    /// The user to run the server as. `None` means the caller, which is not root.
    pub(crate) async fn for_server() -> Result<Option<Account>> {
        if caller_uid() != 0 {
            return Ok(None);
        }
        for name in NAMES {
            if let (Some(uid), Some(gid)) = (id(&["-u", name]).await, id(&["-g", name]).await) {
                let groups = ids(&["-G", name]).await.unwrap_or_default();
                return Ok(Some(Account { name: name.to_owned(), uid, gid, groups }));
            }
        }
        Err(Error::NoAccount)
    }

    /// The user to run the server on existing data: its owner, because the server accepts only its own user's data.
    /// `None` means the caller, which is not root.
    ///
    /// # Errors
    /// [`Error::Link`] if `data` is not a folder, and [`Error::ForeignDirectory`] if neither root nor the owner of
    /// `data` owns the directory `root` that contains it: the owner of `root` could then choose the user.
    pub(crate) async fn for_data(root: &Path, data: &Path) -> Result<Option<Account>> {
        let Some(usual) = Account::for_server().await? else { return Ok(None) };
        let owner = fs::symlink_metadata(data).map_err(Error::io("look at", data))?;
        if !owner.is_dir() {
            return Err(Error::Link { path: data.to_path_buf() });
        }
        if owner.uid() == usual.uid || owner.uid() == 0 {
            return Ok(Some(usual));
        }
        let (uid, gid) = (owner.uid(), owner.gid());
        let above = fs::metadata(root).map_err(Error::io("look at", root))?.uid();
        if above != 0 && above != uid {
            let found = format!("files of user number {uid}");
            return Err(Error::ForeignDirectory { path: data.to_path_buf(), found });
        }
        Ok(Some(Account { name: format!("number {uid}"), uid, gid, groups: vec![gid] }))
    }

    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user's number.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    pub(super) fn gid(&self) -> u32 {
        self.gid
    }

    /// Whether the user is in a group.
    pub(super) fn is_member(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }

    /// Makes `command` run as this user, without root's groups.
    pub fn run(&self, command: &mut std::process::Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Replaces a file with this user's rights.
    pub(super) fn replace(&self, path: &Path, text: &str) -> Result<()> {
        self.shell(REPLACE, &[path.as_os_str()], text).map_err(Error::io("write", path))
    }

    /// Appends to a file with this user's rights.
    pub(super) fn append(&self, path: &Path, text: &str) -> Result<()> {
        self.shell(r#"exec cat >>"$1""#, &[path.as_os_str()], text).map_err(Error::io("write", path))
    }

    /// Creates a folder that only this user can enter, with this user's rights.
    pub(super) fn make_dir(&self, path: &Path) -> Result<()> {
        self.shell(r#"exec mkdir -m 700 -- "$1""#, &[path.as_os_str()], "").map_err(Error::io("create", path))
    }

    /// Runs a shell script with this user's rights and `input` as its standard input.
    pub(super) fn shell(&self, script: &str, args: &[&OsStr], input: &str) -> io::Result<()> {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh"]).args(args).env("LC_ALL", "C").current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        self.run(&mut command);
        let mut child = command.spawn()?;
        // A write error means that the script failed; its standard error says why.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }

    /// Checks that this user can enter a folder.
    ///
    /// # Errors
    /// [`Error::Unreachable`] names a path that works.
    pub(crate) async fn check_reach(&self, path: &Path) -> Result<()> {
        let mut command = Command::new("sh");
        command.args(["-c", "cd \"$1\"", "sh"]).arg(path).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.run(command.as_std_mut());
        let status = command.status().await.map_err(Error::io("run sh to look at", path))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Unreachable { path: path.to_path_buf(), user: self.name.clone(), instead: PathBuf::from(REACHABLE) })
    }
}

/// Creates a folder and its missing parents with a mode that lets every user enter, whatever the caller's umask.
pub(super) fn make_open_dirs(path: &Path) -> Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        match fs::create_dir(dir) {
            Ok(()) => {
                fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(Error::io("open to all", dir))?;
            }
            // Another process created it first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", dir)(error)),
        }
    }
    Ok(())
}

/// The user id of this process.
pub(crate) fn caller_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The number printed by `id`; `None` if there is no such user.
async fn id(args: &[&str]) -> Option<u32> {
    ids(args).await?.first().copied()
}

/// The numbers printed by `id`; `None` if there is no such user.
async fn ids(args: &[&str]) -> Option<Vec<u32>> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().await.ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(|number| number.parse().ok()).collect()
}
