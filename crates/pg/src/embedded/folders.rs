//! The folders of PostgreSQL's programs on each system.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold one folder per version, and what to append to reach the programs.
const VERSIONED: &[(&str, &str, &str)] = &[
    // (parent, prefix of the version's folder, folder of the programs inside it)
    ("/usr/lib/postgresql", "", "bin"), // Debian, Ubuntu, Alpine's older packages
    ("/usr", "pgsql-", "bin"),          // RHEL, Fedora, Rocky from the PostgreSQL project
    ("/usr/libexec", "postgresql", ""), // Alpine
    ("/usr/lib", "postgresql", "bin"),  // SUSE, Gentoo
    ("/opt/homebrew/opt", "postgresql@", "bin"), // Homebrew on Apple silicon
    ("/usr/local/opt", "postgresql@", "bin"), // Homebrew on Intel
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
];

/// The cache of downloads for root: the user that runs the server must be able to enter it.
pub(super) const ROOT_CACHE: &str = "/var/cache/reveille/postgresql";

/// The cache of downloads, one folder per version. `None` if there is no home directory.
///
/// The user that runs the server cannot enter root's home, so root uses a folder for the whole machine.
pub(super) fn download_cache(root: bool) -> Option<PathBuf> {
    if root {
        return Some(PathBuf::from(ROOT_CACHE));
    }
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("reveille").join("postgresql"))
}

/// Every folder where PostgreSQL's programs may be installed, without repetition.
///
/// This module reads `PATH`, `HOME` and `XDG_CACHE_HOME`.
pub(super) fn installed() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(path) = env::var_os("PATH") {
        // A program in PATH is often a link; the other programs are in the folder of its target.
        let linked = env::split_paths(&path)
            .filter_map(|dir| fs::canonicalize(dir.join("initdb")).ok())
            .filter_map(|program| program.parent().map(Path::to_path_buf));
        found.extend(linked);
    }
    for (parent, prefix, programs) in VERSIONED {
        found.extend(children(Path::new(parent), prefix).map(|version| version.join(programs)));
    }
    distinct(found)
}

/// Every folder where PostgreSQL's programs may have been downloaded to.
pub(super) fn downloaded() -> Vec<PathBuf> {
    let caches = [download_cache(false), download_cache(true)].into_iter().flatten();
    distinct(caches.flat_map(|cache| children(&cache, "")).map(|version| version.join("bin")).collect())
}

fn distinct(mut dirs: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    dirs.retain(|dir| seen.insert(fs::canonicalize(dir).unwrap_or_else(|_| dir.clone())));
    dirs
}

/// The searched folders, for messages.
pub(super) fn described() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from("PATH")];
    folders.extend(
        VERSIONED.iter().map(|(parent, prefix, programs)| Path::new(parent).join(format!("{prefix}*")).join(programs)),
    );
    folders.extend([download_cache(false), download_cache(true)].into_iter().flatten());
    folders
}

fn children(parent: &Path, prefix: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let prefix = prefix.to_owned();
    fs::read_dir(parent)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter(move |entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
}
