//! What `reveille up` needs on this machine.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use reveille_pg::embedded::{self, Installation, Wanted};

use super::{
    super::owner::{Holder, holder},
    finding::{Finding, Report},
};
use crate::config::{Embedded, is_root};

/// A file that only the directory of a private PostgreSQL contains.
const MARKER: &str = "reveille-embedded";

/// The fix for a directory that cannot be used.
const ELSEWHERE: &str = "name another directory with --data-dir (REVEILLE_DATA_DIR)";

/// Checks PostgreSQL's programs and the data directory.
pub(super) async fn examine(settings: &Embedded, report: &mut Report) {
    let dir = match settings.data_dir() {
        Ok(dir) => dir,
        Err(error) => {
            report.add(Finding::fail("data directory", error.explain(), "name a directory with --data-dir"));
            return;
        }
    };
    report.add(programs(settings, &dir).await);
    let usable = data_dir(&dir);
    report.add(usable.unwrap_or_else(|unusable| unusable));
}

/// Whether a supported PostgreSQL is installed; if there is data, the version that created it.
async fn programs(settings: &Embedded, dir: &Path) -> Finding {
    const WHAT: &str = "PostgreSQL programs";
    let exact = match embedded::data_major(dir) {
        Ok(exact) => exact,
        Err(error) => return Finding::fail(WHAT, error.to_string(), ELSEWHERE),
    };
    let wanted = Wanted { exact, bin_dir: settings.pg_bin.clone(), ..Wanted::default() };
    match Installation::find(wanted).await {
        Ok(found) => Finding::ok(WHAT, format!("version {} in {}", found.version, found.bin.display())),
        Err(embedded::Error::NotFound { wanted, searched }) => Finding::fail(
            WHAT,
            format!(
                "no PostgreSQL {wanted} on this machine{} (searched {})",
                unsupported(&Installation::all().await),
                searched.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
            ),
            "`reveille up` downloads PostgreSQL if this machine has `npm` and a network; or install it (Debian, \
             Ubuntu: `apt-get install postgresql`; Fedora: `dnf install postgresql-server`; macOS: `brew install \
             postgresql@17`); or set DATABASE_URL to a PostgreSQL that runs elsewhere",
        ),
        Err(error) => Finding::fail(
            WHAT,
            error.to_string(),
            "remove --pg-bin (REVEILLE_PG_BIN) to have PostgreSQL searched, or set it to the folder that contains \
             initdb, pg_ctl and postgres",
        ),
    }
}

/// The installed versions that are not supported, for the message.
fn unsupported(installed: &[Installation]) -> String {
    if installed.is_empty() {
        return String::new();
    }
    let versions: Vec<String> = installed.iter().map(|it| it.version.to_string()).collect();
    format!(", only the unsupported {}", versions.join(", "))
}

/// Whether the data directory can be used: `Ok` if so, else the reason.
fn data_dir(dir: &Path) -> Result<Finding, Finding> {
    const WHAT: &str = "data directory";
    let fail = |text: String, fix: &str| Err(Finding::fail(WHAT, text, fix));
    let shown = dir.display();
    // The directory itself may not exist yet: then its nearest existing parent must be writable.
    let existing = dir.ancestors().find(|it| it.exists()).unwrap_or(dir);
    if !existing.is_dir() {
        return fail(format!("{} is a file", existing.display()), "name a directory with --data-dir, or move the file");
    }
    match holder(dir) {
        Ok(Holder::Process(pid)) => {
            let who = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            return Ok(Finding::warn(
                WHAT,
                format!("a `reveille up`{who} runs on {shown}"),
                "nothing to do: use that one; a second one needs another directory, set with --data-dir",
            ));
        }
        Ok(Holder::None) => {}
        Err(error) => return fail(format!("{shown} cannot be read: {error}"), ELSEWHERE),
    }
    if dir == existing {
        match is_foreign(dir) {
            Ok(false) => {}
            Ok(true) => return fail(format!("{shown} contains other files, which would be left unchanged"), ELSEWHERE),
            Err(error) => return fail(format!("{shown} cannot be listed: {error}"), ELSEWHERE),
        }
    }
    if let Err(error) = try_to_write(existing) {
        return fail(format!("{} cannot be written to: {error}", existing.display()), ELSEWHERE);
    }
    if let Some(closed) = closed_to_others(dir).filter(|_| is_root()) {
        return fail(
            format!("PostgreSQL does not run as root, and other users cannot enter {}", closed.display()),
            "choose a directory that all users can enter with --data-dir, such as /var/lib/reveille",
        );
    }
    match dir == existing {
        true => Ok(Finding::ok(WHAT, shown.to_string())),
        false => Ok(Finding::ok(WHAT, format!("{shown} (will be created)"))),
    }
}

/// Whether it contains files and is not the directory of a private PostgreSQL.
fn is_foreign(dir: &Path) -> io::Result<bool> {
    Ok(!dir.join(MARKER).exists() && fs::read_dir(dir)?.next().is_some())
}

/// Creates a file and removes it. Permissions are not enough: the file system may be read-only or full.
fn try_to_write(dir: &Path) -> io::Result<()> {
    let probe = dir.join(format!(".reveille-doctor-{}", std::process::id()));
    // Must not exist: a user with write access to the directory could have placed a link there.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&probe)?;
    let written = file.write_all(b"can this be written?\n");
    let removed = fs::remove_file(&probe);
    written.and(removed)
}

/// The first parent of `dir` that not every user can enter; `None` if there is none. `dir` itself does not matter: `up`
/// sets its owner.
fn closed_to_others(dir: &Path) -> Option<PathBuf> {
    let passable = |it: &Path| fs::metadata(it).is_ok_and(|it| it.permissions().mode() & 0o001 != 0);
    dir.ancestors().skip(1).filter(|it| it.exists()).find(|it| !passable(it)).map(Path::to_owned)
}
