//! The schema: whether this user may create it, whether it exists, whether its version is known.

use sqlx::Row as _;

use super::{
    finding::{Finding, Report},
    unanswered,
};
use crate::{config, error::explain, products};

/// Checks the privileges, then the migrations.
pub(super) async fn examine(database: &reveille_pg::Database, settings: &config::Database, report: &mut Report) {
    const WHAT: &str = "schema";
    let schema = match settings.schema() {
        Ok(schema) => schema,
        Err(error) => {
            report.add(Finding::fail(WHAT, error.explain(), "choose another name with --schema"));
            return;
        }
    };
    let privileges = match privileges(database, &schema).await {
        Ok(privileges) => privileges,
        Err(error) => {
            report.add(unanswered("privileges", &error));
            return;
        }
    };
    let plan = products::migrator(&schema).plan(database).await;
    report.add(privileges.judge(&schema, plan.as_ref().is_ok_and(Vec::is_empty)));
    report.add(match plan {
        Ok(steps) if steps.is_empty() => Finding::ok(WHAT, format!("{} is up to date", schema.quoted())),
        Ok(steps) => Finding::warn(
            WHAT,
            match privileges.exists {
                true => format!("{} lacks {} migrations or functions", schema.quoted(), steps.len()),
                false => format!("{} does not exist yet", schema.quoted()),
            },
            "nothing to do: the server applies them when it starts, or run `reveille migrate`",
        ),
        Err(error) if error.is_transient() => unanswered(WHAT, &error),
        Err(error) => Finding::fail(
            WHAT,
            explain(&error),
            "run the version of reveille that migrated this schema, or a newer one, or choose another schema with \
             --schema",
        ),
    });
}

/// The privileges of the user.
struct Privileges {
    exists: bool,
    may_use: bool,
    may_create_schema: bool,
}

impl Privileges {
    /// A missing privilege is a failure only if it is needed.
    fn judge(&self, schema: &reveille_pg::Schema, up_to_date: bool) -> Finding {
        const WHAT: &str = "privileges";
        let name = schema.quoted();
        match self {
            Privileges { exists: true, may_use: true, .. } => {
                Finding::ok(WHAT, format!("this user may create tables in {name}"))
            }
            Privileges { exists: true, .. } if up_to_date => Finding::warn(
                WHAT,
                format!("this user may not create tables in {name}; none is missing now"),
                "nothing to do now: before a newer reveille starts, run its `reveille migrate` as the schema's owner",
            ),
            Privileges { exists: true, .. } => Finding::fail(
                WHAT,
                format!("the schema {name} exists, and this user may not create tables in it"),
                format!(
                    "as its owner: `grant usage, create on schema {name} to USER`, or choose another with --schema"
                ),
            ),
            Privileges { may_create_schema: true, .. } => {
                Finding::ok(WHAT, format!("this user may create the schema {name}"))
            }
            Privileges { .. } => Finding::fail(
                WHAT,
                format!("the schema {name} does not exist, and this user may not create it"),
                format!("as the database's owner: `create schema {name} authorization USER`"),
            ),
        }
    }
}

async fn privileges(database: &reveille_pg::Database, schema: &reveille_pg::Schema) -> reveille_pg::Result<Privileges> {
    let sql = schema.sql(
        "select n.oid is not null as exists, \
                coalesce(has_schema_privilege(n.oid, 'usage') and has_schema_privilege(n.oid, 'create'), false) \
                    as may_use, \
                has_database_privilege(current_database(), 'create') as may_create_schema \
         from (select 1) one left join pg_namespace n on n.nspname = {schema_text}",
    );
    let mut session = database.session().await?;
    let row = sqlx::raw_sql(sql).fetch_one(&mut *session).await?;
    session.finish().await?;
    let is = |name: &str| row.try_get::<bool, _>(name).unwrap_or(false);
    Ok(Privileges { exists: is("exists"), may_use: is("may_use"), may_create_schema: is("may_create_schema") })
}

#[cfg(test)]
mod tests {
    use super::{super::finding::Status, *};

    /// All eight combinations: the check fails only for an unusable schema, or for a missing one that may not be
    /// created. A schema that lacks nothing is no failure.
    #[test]
    fn privileges_are_judged_by_what_is_needed() {
        let schema = reveille_pg::Schema::new("reveille").expect("a plain name");
        for bits in 0..8 {
            let it = Privileges { exists: bits & 1 > 0, may_use: bits & 2 > 0, may_create_schema: bits & 4 > 0 };
            let works = if it.exists { it.may_use } else { it.may_create_schema };
            assert_eq!(it.judge(&schema, false).status == Status::Ok, works, "{bits:03b}");
            let harmless = works || it.exists;
            assert_eq!(it.judge(&schema, true).status != Status::Fail, harmless, "{bits:03b}, up to date");
        }
    }
}
