//! `reveille durable import`: from a schema of duroxide-pg to one of this library.

use reveille_durable::PostgresProvider;
use reveille_durable::import::Source;

use crate::{commands::say, config::Import, error::Error};

/// `reveille durable import`.
pub(super) async fn run(args: Import) -> Result<(), Error> {
    let target = args.target()?;
    let source = Source::new(&args.from).map_err(|error| Error::Setting { key: "--from", source: Box::new(error) })?;
    let url = args.database.url().ok_or(Error::NoDatabase)?;
    // Interactive: an unreachable database is an error at once.
    let database = reveille_pg::Database::connect(url.reveal(), args.database.options()).await;
    let database = database.map_err(|error| Error::database("connecting to the database", error))?;
    // Before the target is created: if the import is not possible, nothing is changed.
    let held = source.survey(&database, &target).await?;
    say(format_args!("schema {:?} contains {held}", args.from));
    if args.dry_run {
        say(format_args!("it can be imported into {}", target.quoted()));
    } else {
        let options = reveille_durable::Options::default().schema(target.name());
        let provider = PostgresProvider::with_database(database.clone(), options).await?;
        let imported = provider.import_from(&source).await?;
        provider.flush().await;
        say(format_args!("imported into {}: {imported}", target.quoted()));
    }
    database.close().await;
    Ok(())
}
