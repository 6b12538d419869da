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

/// What a private PostgreSQL's directory has in it, and no other.
const MARKER: &str = "reveille-embedded";

/// What to do about a directory that cannot be used.
const ELSEWHERE: &str = "name another directory with --data-dir (REVEILLE_DATA_DIR)";

/// Looks for PostgreSQL's programs and at the data directory.
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

/// Whether there are programs of a supported PostgreSQL; if there is data already, of the version that made it.
async fn programs(settings: &Embedded, dir: &Path) -> Finding {
    const WHAT: &str = "PostgreSQL programs";
    let exact = match embedded::data_major(dir) {
        Ok(exact) => exact,
        Err(error) => return Finding::fail(WHAT, error.to_string(), ELSEWHERE),
    };
    let wanted = Wanted { exact, bin_dir: settings.pg_bin.clone(), ..Wanted::default() };
    match Installation::find(wanted).await {
        Ok(found) => Finding::ok(WHAT, format!("version {} in {}", found.version, found.bin.display())),
        Err(embedded::Error::NotFound { wanted, looked }) => Finding::fail(
            WHAT,
            format!(
                "no PostgreSQL {wanted} on this machine{} (looked in {})",
                unsupported(&Installation::all().await),
                looked.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
            ),
            "`reveille up` downloads PostgreSQL if this machine has `npm` and a network; or install it (Debian, Ubuntu: \
             `apt-get install postgresql`; Fedora: `dnf install postgresql-server`; macOS: `brew install \
             postgresql@17`); or set DATABASE_URL to a PostgreSQL that runs elsewhere",
        ),
        Err(error) => Finding::fail(
            WHAT,
            error.to_string(),
            "leave --pg-bin (REVEILLE_PG_BIN) away to have one looked for, or name the folder that holds initdb, pg_ctl and \
             postgres",
        ),
    }
}

/// What is installed and cannot be used, for the message.
fn unsupported(installed: &[Installation]) -> String {
    if installed.is_empty() {
        return String::new();
    }
    let versions: Vec<String> = installed.iter().map(|it| it.version.to_string()).collect();
    format!(", only the unsupported {}", versions.join(", "))
}

/// Whether the data directory can be used; the finding that says so, or the one that says why not.
fn data_dir(dir: &Path) -> Result<Finding, Finding> {
    const WHAT: &str = "data directory";
    let fail = |text: String, fix: &str| Err(Finding::fail(WHAT, text, fix));
    let shown = dir.display();
    // The directory itself may not exist yet: then the nearest one that does has to let us make it.
    let existing = dir.ancestors().find(|it| it.exists()).unwrap_or(dir);
    if !existing.is_dir() {
        return fail(
            format!("{} is a file", existing.display()),
            "name a directory with --data-dir, or move the file away",
        );
    }
    match holder(dir) {
        Ok(Holder::Process(pid)) => {
            let who = pid.map(|pid| format!(", process {pid}")).unwrap_or_default();
            return Ok(Finding::warn(
                WHAT,
                format!("a `reveille up` runs on {shown}{who}"),
                "nothing to do: use that one; a second one needs a directory of its own, by --data-dir",
            ));
        }
        Ok(Holder::None) => {}
        Err(error) => return fail(format!("{shown} cannot be looked at: {error}"), ELSEWHERE),
    }
    if dir == existing {
        match is_foreign(dir) {
            Ok(false) => {}
            Ok(true) => return fail(format!("{shown} holds other things, which are left alone"), ELSEWHERE),
            Err(error) => return fail(format!("{shown} cannot be listed: {error}"), ELSEWHERE),
        }
    }
    if let Err(error) = try_to_write(existing) {
        return fail(format!("{} cannot be written to: {error}", existing.display()), ELSEWHERE);
    }
    if let Some(closed) = closed_to_others(dir).filter(|_| is_root()) {
        return fail(
            format!("PostgreSQL does not run as root, and other users cannot get through {}", closed.display()),
            "name a directory that everybody can reach with --data-dir, such as /var/lib/reveille",
        );
    }
    match dir == existing {
        true => Ok(Finding::ok(WHAT, shown.to_string())),
        false => Ok(Finding::ok(WHAT, format!("{shown} (will be made)"))),
    }
}

/// Whether there is something in it that no private PostgreSQL put there.
fn is_foreign(dir: &Path) -> io::Result<bool> {
    Ok(!dir.join(MARKER).exists() && fs::read_dir(dir)?.next().is_some())
}

/// Makes a file and removes it. Permissions alone do not tell: the file system may be read-only, or full.
fn try_to_write(dir: &Path) -> io::Result<()> {
    let probe = dir.join(format!(".reveille-doctor-{}", std::process::id()));
    // Only if there is nothing of that name: a user who may write to the directory could have put a link there.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&probe)?;
    let written = file.write_all(b"can this be written?\n");
    let removed = fs::remove_file(&probe);
    written.and(removed)
}

/// The first directory on the way to `dir` that only its owner's group can pass; `None` if everybody can. The last one counts
/// only by its way: `up` sets its owner.
fn closed_to_others(dir: &Path) -> Option<PathBuf> {
    let passable = |it: &Path| fs::metadata(it).is_ok_and(|it| it.permissions().mode() & 0o001 != 0);
    dir.ancestors().skip(1).filter(|it| it.exists()).find(|it| !passable(it)).map(Path::to_owned)
}
