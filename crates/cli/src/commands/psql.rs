//! `reveille psql`: runs psql on the private PostgreSQL of `reveille up`.

use std::os::unix::process::CommandExt as _;

use reveille_pg::embedded::{self, Directory, Installation, Wanted};

use super::say;
use crate::{config, error::Error};

/// The database of `reveille up`.
const DATABASE: &str = "reveille";

/// Replaces this process by psql, connected to the PostgreSQL that runs in the data directory. Returns only an error.
pub(super) async fn run(args: config::Psql) -> Result<(), Error> {
    let data_dir = args.embedded.data_dir()?;
    let not_running = || Error::NotRunning { dir: data_dir.clone() };
    let directory = Directory::find(&data_dir).await?.ok_or_else(not_running)?;
    let server = directory.running()?.ok_or_else(not_running)?;

    let exact = embedded::data_major(directory.path())?;
    let wanted = Wanted { exact, bin_dir: args.embedded.pg_bin.clone(), ..Wanted::default() };
    let psql = match Installation::find(wanted).await {
        Ok(installation) => Some(installation.program("psql")).filter(|psql| psql.is_file()),
        Err(_) => None,
    };
    let Some(psql) = psql else {
        say("psql is not installed; install the client, e.g. `apt-get install postgresql-client`,");
        say("or use any other client with this URL, which contains the password:");
        say(server.url(DATABASE));
        return Err(Error::NoPsql);
    };
    let mut command = std::process::Command::new(&psql);
    // These variables may belong to another server.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"PG") {
            command.env_remove(name);
        }
    }
    // The password is passed in the environment, because other users can read a command line.
    command.env("PGPASSWORD", &server.password).env("PGSSLMODE", "disable");
    command.args(["--host=127.0.0.1", &format!("--port={}", server.port)]);
    command.args([&format!("--username={}", server.user), &format!("--dbname={DATABASE}")]);
    let source = command.args(&args.args).exec();
    Err(Error::Run { program: psql, source })
}
