//! Finding PostgreSQL's programs.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::{Error, Result, folders};

/// The programs a cluster needs.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// The major versions that Reveille works with.
const SUPPORTED: RangeInclusive<u32> = 14..=18;

/// A version of PostgreSQL, e.g. `15.14`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The major version: data files of one cannot be read by another.
    pub major: u32,
    /// The minor version. A beta or release candidate counts as 0.
    pub minor: u32,
}

impl Version {
    /// Reads the answer of `postgres --version`. `None` if there is no version in it.
    ///
    /// ```
    /// # use reveille_pg::embedded::Version;
    /// assert_eq!(Version::parse("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)"), Some(Version { major: 15, minor: 14 }));
    /// assert_eq!(Version::parse("postgres (PostgreSQL) 18beta1"), Some(Version { major: 18, minor: 0 }));
    /// ```
    pub fn parse(text: &str) -> Option<Version> {
        let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let major = digits(word);
        let minor = word[major.len()..].strip_prefix('.').map(digits).unwrap_or_default();
        Some(Version { major: major.parse().ok()?, minor: minor.parse().unwrap_or(0) })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Which PostgreSQL to search for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The accepted major versions. Default 14 to 18.
    pub majors: RangeInclusive<u32>,
    /// This major version and no other.
    pub exact: Option<u32>,
    /// Search only this folder of programs.
    pub bin_dir: Option<PathBuf>,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted { majors: SUPPORTED, exact: None, bin_dir: None }
    }
}

impl Wanted {
    /// One major version, anywhere on the machine.
    pub fn exactly(major: u32) -> Wanted {
        Wanted { exact: Some(major), ..Wanted::default() }
    }

    pub(super) fn accepts(&self, version: Version) -> bool {
        self.majors.contains(&version.major) && self.exact.is_none_or(|major| major == version.major)
    }

    /// The versions, for messages.
    pub(super) fn describe(&self) -> String {
        match self.exact {
            Some(major) => major.to_string(),
            None => format!("{} to {}", self.majors.start(), self.majors.end()),
        }
    }
}

/// A PostgreSQL on this machine: the folder of its programs, and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The folder with `initdb`, `pg_ctl` and `postgres`.
    pub bin: PathBuf,
    /// The version that `postgres --version` prints.
    pub version: Version,
}

impl Installation {
    /// Finds the newest accepted PostgreSQL: in `PATH` and the folders of the packages of Debian, RHEL, SUSE, Alpine,
    /// Homebrew and Postgres.app, or else among the downloaded ones.
    ///
    /// # Errors
    /// [`Error::NotFound`] lists the searched folders; [`Error::NotAnInstallation`] says what [`Wanted::bin_dir`]
    /// lacks.
    pub async fn find(wanted: Wanted) -> Result<Installation> {
        if let Some(bin) = &wanted.bin_dir {
            let found = Installation::at(bin).await?;
            if wanted.accepts(found.version) {
                return Ok(found);
            }
            let reason = format!("its version is PostgreSQL {}, but {} is required", found.version, wanted.describe());
            return Err(Error::NotAnInstallation { bin: bin.clone(), reason });
        }
        for candidates in [folders::installed(), folders::downloaded()] {
            let found = Installation::among(candidates).await;
            let best =
                found.into_iter().filter(|found| wanted.accepts(found.version)).max_by_key(|found| found.version);
            if let Some(best) = best {
                return Ok(best);
            }
        }
        Err(Error::NotFound { wanted: wanted.describe(), searched: folders::described() })
    }

    /// Every complete PostgreSQL on this machine, supported or not, newest first.
    pub async fn all() -> Vec<Installation> {
        let mut all = Installation::among([folders::installed(), folders::downloaded()].concat()).await;
        all.sort_by_key(|found| std::cmp::Reverse(found.version));
        all
    }

    async fn among(folders: Vec<PathBuf>) -> Vec<Installation> {
        let mut complete = Vec::new();
        for bin in folders {
            // Incomplete folders (a client without a server, a removed package) are ignored.
            if let Ok(found) = Installation::at(&bin).await {
                complete.push(found);
            }
        }
        complete
    }

    /// The installation whose programs are in `bin`.
    ///
    /// # Errors
    /// [`Error::NotAnInstallation`] names the program that is missing or does not run.
    pub async fn at(bin: &Path) -> Result<Installation> {
        let refuse = |reason: String| Error::NotAnInstallation { bin: bin.to_path_buf(), reason };
        if let Some(missing) = PROGRAMS.iter().find(|program| !bin.join(program).is_file()) {
            return Err(refuse(format!("`{missing}` is missing")));
        }
        let output = Command::new(bin.join("postgres")).arg("--version").env("LC_ALL", "C").output().await;
        let output = output.map_err(|error| refuse(format!("`postgres --version` does not run: {error}")))?;
        let said = String::from_utf8_lossy(&output.stdout);
        match Version::parse(&said) {
            Some(version) if output.status.success() => Ok(Installation { bin: bin.to_path_buf(), version }),
            _ => {
                let complaint = String::from_utf8_lossy(&output.stderr);
                Err(refuse(format!("`postgres --version` failed: {}", complaint.trim())))
            }
        }
    }

    /// The path of one of its programs.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version output of releases, packages and betas is parsed.
    /// A table of real outputs.
    #[test]
    fn versions_are_read_as_programs_print_them() {
        let table = [
            ("postgres (PostgreSQL) 14.0", Some((14, 0))),
            ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", Some((15, 14))),
            ("postgres (PostgreSQL) 16.4 (Homebrew)", Some((16, 4))),
            ("postgres (PostgreSQL) 18beta1", Some((18, 0))),
            ("postgres (PostgreSQL) 18rc1", Some((18, 0))),
            ("postgres (PostgreSQL) 19devel", Some((19, 0))),
            ("postgres", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(Version::parse(text).map(|v| (v.major, v.minor)), expected, "{text}");
        }
    }

    /// The supported range is 14 to 18, and an exact version excludes all others.
    /// Calls the pure predicate with versions that are not installed.
    #[test]
    fn unsupported_versions_are_not_accepted() {
        let accepts = |wanted: &Wanted, major| wanted.accepts(Version { major, minor: 3 });
        let any = Wanted::default();
        assert_eq!((12..=20).filter(|major| accepts(&any, *major)).collect::<Vec<_>>(), [14, 15, 16, 17, 18]);
        let one = Wanted::exactly(16);
        assert_eq!((12..=20).filter(|major| accepts(&one, *major)).collect::<Vec<_>>(), [16]);
        assert!(!accepts(&Wanted::exactly(13), 13), "an exact version does not make an old server supported");
    }
}
