//! `reveille migrate`: brings the schema up to date.
//!
//! The server migrates when it starts. This command is for reviewing migrations first, for deployments in steps, and
//! for servers without the right to create tables, whose role it can make (`--roles`).

use std::io::Write as _;

use reveille_pg::migrate::Step;

use super::say;
use crate::{config::Migrate, error::Error, products};

/// `reveille migrate`.
pub(super) async fn run(args: Migrate) -> Result<(), Error> {
    let schema = args.database.schema()?;
    let migrator = products::migrator(&schema);
    if args.dump {
        let mut out = std::io::stdout().lock();
        return Ok(out.write_all(migrator.dump().as_bytes()).and_then(|()| out.flush())?);
    }
    if let (Some(role), true) = (&args.roles, args.print) {
        let sql = migrator.grants(role).map_err(|error| Error::database("reading the name", error))?;
        let mut out = std::io::stdout().lock();
        return Ok(out.write_all(sql.as_str().as_bytes()).and_then(|()| out.flush())?);
    }
    let failed = |doing| move |error| Error::database(doing, error);
    let url = args.database.url().ok_or(Error::NoDatabase)?;
    // Interactive: an unreachable database is an error at once.
    let database = reveille_pg::Database::connect(url.reveal(), args.database.options()).await;
    let database = database.map_err(failed("connecting to the database"))?;
    if args.verify {
        migrator.verify(&database).await.map_err(failed("verifying the schema"))?;
        say(format_args!("schema {} is up to date", schema.quoted()));
    } else if args.dry_run {
        let steps = migrator.plan(&database).await.map_err(failed("reading the schema"))?;
        report(&schema, &steps, "would be applied to");
    } else {
        let done = migrator.run(&database).await.map_err(failed("migrating the schema"))?;
        report(&schema, &done.applied, "applied to");
        if let Some(role) = &args.roles {
            migrator.grant(&database, role).await.map_err(failed("granting the rights of the role"))?;
            say(format_args!("the role {role} may serve {}", schema.quoted()));
        }
    }
    database.close().await;
    Ok(())
}

/// One line per step.
fn report(schema: &reveille_pg::Schema, steps: &[Step], happened: &str) {
    if steps.is_empty() {
        say(format_args!("schema {} is up to date", schema.quoted()));
    }
    for step in steps {
        match step {
            Step::Migration { component, number, name } => {
                say(format_args!("{component} {number:04} {name}: {happened} {}", schema.quoted()));
            }
            Step::Function { component, name } => {
                say(format_args!("{component} function {name}: {happened} {}", schema.quoted()));
            }
        }
    }
}
