//! The supported server versions.

use crate::{Error, Result};

/// The oldest supported major version of PostgreSQL.
pub const OLDEST_SERVER: u32 = 14;

/// `server_version_num` is the major version times this, plus the minor one.
const SCALE: u32 = 10_000;

/// Checks `server_version_num` of `server`. Called for every probe connection
/// ([`Database::check`](crate::Database::check)).
///
/// # Errors
/// [`Error::OldServer`] for anything older than [`OLDEST_SERVER`].
pub(super) fn check(server: &str, version_num: u32) -> Result<()> {
    let found = version_num / SCALE;
    if found >= OLDEST_SERVER {
        return Ok(());
    }
    Err(Error::OldServer { server: server.to_owned(), found, oldest: OLDEST_SERVER })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Versions before 14 are rejected with the required version; 14 and newer are accepted.
    /// A table of `server_version_num`, including the 9 series and both sides of the bound.
    #[test]
    fn servers_older_than_14_are_rejected() {
        for (version_num, accepted) in [
            (90_624, false),
            (100_023, false),
            (130_022, false),
            (139_999, false),
            (140_000, true),
            (150_014, true),
            (180_001, true),
            (190_000, true),
        ] {
            let checked = check("db:5432", version_num);
            assert_eq!(checked.is_ok(), accepted, "{version_num}");
            if let Err(error) = checked {
                let found = version_num / 10_000;
                let expected = format!("db:5432 is PostgreSQL {found}, Reveille needs 14 or newer");
                assert_eq!(error.to_string(), expected);
                assert!(!error.is_transient(), "waiting does not make a server newer");
            }
        }
    }
}
