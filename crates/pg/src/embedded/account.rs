//! The user that runs the server when the caller is root.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::{Error, Result};

/// Tried in this order: the packages' own user, then the one that every system has.
const NAMES: [&str; 2] = ["postgres", "nobody"];

/// A path that an account other than root can reach, for error messages.
const REACHABLE: &str = "/var/lib/reveille";

/// A user that is not root.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    name: String,
    uid: u32,
    gid: u32,
}

impl Account {
    /// The user to run the server as. `None` means the caller, who is not root.
    pub(crate) async fn for_server() -> Result<Option<Account>> {
        if id(&["-u"]).await != Some(0) {
            return Ok(None);
        }
        for name in NAMES {
            if let (Some(uid), Some(gid)) = (id(&["-u", name]).await, id(&["-g", name]).await) {
                return Ok(Some(Account { name: name.to_owned(), uid, gid }));
            }
        }
        Err(Error::NoAccount)
    }

    /// The user to run the server on data that exists already: whoever owns it, because the server reads nobody else's.
    /// `None` means the caller, who is not root.
    pub(crate) async fn for_data(data: &Path) -> Result<Option<Account>> {
        let usual = Account::for_server().await?;
        let Some(usual) = usual else { return Ok(None) };
        let owner = fs::metadata(data).map_err(Error::io("look at", data))?;
        if owner.uid() == usual.uid || owner.uid() == 0 {
            return Ok(Some(usual));
        }
        Ok(Some(Account { name: format!("number {}", owner.uid()), uid: owner.uid(), gid: owner.gid() }))
    }

    /// The user's number.
    #[cfg(feature = "testing")]
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Makes `command` run as this user, without root's groups.
    pub(crate) fn run(&self, command: &mut std::process::Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Gives `path` to this user.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .map_err(Error::io("give the server's user the path", path))
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

/// Makes a folder and those above it that do not exist, so that every user can enter them whatever the caller's umask.
pub(super) fn make_open_dirs(path: &Path) -> Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    for dir in missing.into_iter().rev() {
        match fs::create_dir(dir) {
            Ok(()) => {
                fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(Error::io("open to all", dir))?;
            }
            // Somebody else was faster.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", dir)(error)),
        }
    }
    Ok(())
}

/// The number of the user who runs this process.
#[cfg(feature = "testing")]
pub(crate) async fn caller_uid() -> u32 {
    id(&["-u"]).await.expect("`id -u` answers on every Unix")
}

/// What `id` answers; `None` when there is no such user.
async fn id(args: &[&str]) -> Option<u32> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().await.ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
