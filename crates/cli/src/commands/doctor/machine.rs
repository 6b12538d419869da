//! What `reveille up` needs on this machine.

use pg::embedded::{self, Installation, Wanted};

use super::finding::{Finding, Report};
use crate::config::Embedded;

/// Looks for PostgreSQL's programs and at the data directory.
pub(super) async fn examine(settings: &Embedded, report: &mut Report) {
    report.add(programs(settings).await);
    report.add(data_dir(settings));
}

/// Whether there are programs of a supported PostgreSQL.
async fn programs(settings: &Embedded) -> Finding {
    const WHAT: &str = "PostgreSQL programs";
    let wanted = Wanted { bin_dir: settings.pg_bin.clone(), ..Wanted::default() };
    match Installation::find(wanted).await {
        Ok(found) => Finding::ok(WHAT, format!("version {} in {}", found.version, found.bin.display())),
        Err(embedded::Error::NotFound { wanted, looked }) => Finding::fail(
            WHAT,
            format!(
                "no PostgreSQL {wanted} on this machine{} (looked in {})",
                unsupported(&Installation::all().await),
                looked.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
            ),
            "`reveille up` downloads PostgreSQL when it can reach the internet; or install it (Debian, Ubuntu: \
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

/// Whether the data directory can be used.
fn data_dir(settings: &Embedded) -> Finding {
    const WHAT: &str = "data directory";
    let dir = match settings.data_dir() {
        Ok(dir) => dir,
        Err(error) => return Finding::fail(WHAT, error.explain(), "name a directory with --data-dir"),
    };
    // The directory itself may not exist yet: then the nearest one that does has to let us make it.
    let existing = dir.ancestors().find(|it| it.exists()).unwrap_or(&dir);
    match std::fs::metadata(existing) {
        Ok(it) if !it.is_dir() => Finding::fail(
            WHAT,
            format!("{} is a file", existing.display()),
            "name a directory with --data-dir, or move the file away",
        ),
        Ok(it) if it.permissions().readonly() => Finding::fail(
            WHAT,
            format!("{} cannot be written to", existing.display()),
            "name a directory that you may write to with --data-dir",
        ),
        Ok(_) if dir == existing => Finding::ok(WHAT, format!("{}", dir.display())),
        Ok(_) => Finding::ok(WHAT, format!("{} (will be made)", dir.display())),
        Err(error) => Finding::fail(
            WHAT,
            format!("{} cannot be looked at: {error}", existing.display()),
            "name a directory that you may read with --data-dir",
        ),
    }
}
