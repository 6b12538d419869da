//! The missing steps, as a pure function of the components and the applied steps.

use super::ledger::{self, Ledger};
use super::{Component, MigrationError, Step};
use crate::{Schema, Sql};

/// A component with rendered texts.
#[derive(Clone, Debug)]
pub(super) struct Rendered {
    name: &'static str,
    migrations: Vec<Ready>,
    functions: Vec<Ready>,
}

/// A step with its text.
#[derive(Clone, Debug)]
struct Ready {
    step: Step,
    /// A migration's number; zero for a function.
    number: u32,
    hash: String,
    /// The text and the statement that records it.
    sql: Sql,
}

/// A step to apply.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) step: Step,
    /// One or more statements, the last of which records the step.
    pub(super) sql: Sql,
}

impl Rendered {
    /// # Panics
    /// If a text has an unknown placeholder.
    pub(super) fn new(schema: &Schema, component: Component) -> Rendered {
        let vars: Vec<_> = component.vars.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let name = component.name;
        let ready = |number: Option<u32>, step: Step, label: &str, text: &str| {
            let rendered = schema.sql_with(text, &vars);
            // A migration's hash must not depend on the schema's name; a function's must change with its variables.
            let hash = ledger::hash(if number.is_some() { text } else { rendered.as_str() });
            let record = ledger::record(schema, name, number, label, &hash);
            Ready { step, number: number.unwrap_or(0), sql: Sql::join(&rendered, &record), hash }
        };
        let migrations = component.migrations.iter().map(|migration| {
            let step = Step::Migration { component: name, number: migration.number, name: migration.name };
            ready(Some(migration.number), step, migration.name, migration.sql)
        });
        let functions = component.functions.iter().map(|function| {
            let step = Step::Function { component: name, name: function.name };
            ready(None, step, function.name, function.sql)
        });
        Rendered { name, migrations: migrations.collect(), functions: functions.collect() }
    }
}

/// The steps to apply, in order, or why none may be applied.
pub(super) fn missing(
    schema: &Schema,
    components: &[Rendered],
    ledger: &Ledger,
) -> Result<Vec<Pending>, MigrationError> {
    let mut pending = Vec::new();
    for component in components {
        check(schema, component, ledger)?;
        let highest = ledger.highest(component.name);
        let migrations = component.migrations.iter().filter(|ready| ready.number > highest);
        let functions = component.functions.iter().filter(|ready| match &ready.step {
            Step::Function { name, .. } => ledger.function(component.name, name) != Some(&ready.hash),
            Step::Migration { .. } => false,
        });
        pending.extend(
            migrations.chain(functions).map(|ready| Pending { step: ready.step.clone(), sql: ready.sql.clone() }),
        );
    }
    Ok(pending)
}

fn check(schema: &Schema, component: &Rendered, ledger: &Ledger) -> Result<(), MigrationError> {
    for (expected, ready) in (1..).zip(&component.migrations) {
        if ready.number != expected {
            return Err(MigrationError::Misnumbered { component: component.name, expected, found: ready.number });
        }
    }
    let known = component.migrations.last().map_or(0, |ready| ready.number);
    let found = ledger.highest(component.name);
    if found > known {
        return Err(MigrationError::Newer { schema: schema.name().into(), component: component.name, found, known });
    }
    for ready in component.migrations.iter().filter(|ready| ready.number <= found) {
        match ledger.migration(component.name, ready.number) {
            Some(hash) if hash == ready.hash => {}
            Some(_) => return Err(MigrationError::Changed { schema: schema.name().into(), step: ready.step.clone() }),
            None => {
                return Err(MigrationError::Skipped { schema: schema.name().into(), step: ready.step.clone(), found });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Function, Migration};
    use super::*;

    const ONE: Migration = Migration { number: 1, name: "one", sql: "create table {schema}.one ()" };
    const TWO: Migration = Migration { number: 2, name: "two", sql: "create table {schema}.two ()" };
    const FUNCTION: Function = Function { name: "f", sql: "select {limit}" };

    fn rendered(migrations: &'static [Migration], limit: &str) -> Vec<Rendered> {
        let vars = vec![("limit".to_owned(), limit.to_owned())];
        vec![Rendered::new(&schema(), Component { name: "c", migrations, functions: &[FUNCTION], vars })]
    }

    fn schema() -> Schema {
        Schema::new("s").unwrap()
    }

    fn applied(components: &[Rendered]) -> Ledger {
        let mut ledger = Ledger::default();
        for ready in &components[0].migrations {
            ledger.note_migration("c".into(), ready.number, ready.hash.clone());
        }
        for ready in &components[0].functions {
            ledger.note_function("c".into(), "f".into(), ready.hash.clone());
        }
        ledger
    }

    fn names(pending: &[Pending]) -> Vec<String> {
        pending.iter().map(|pending| pending.step.to_string()).collect()
    }

    /// The plan has all steps for an empty schema, migrations first; none if all are applied; and only a new migration.
    #[test]
    fn only_missing_steps_are_planned() {
        let (old, new) = (rendered(&[ONE], "5"), rendered(&[ONE, TWO], "5"));
        let all = names(&missing(&schema(), &new, &Ledger::default()).unwrap());
        assert_eq!(all, ["c migration 1 (one)", "c migration 2 (two)", "c function f"]);
        assert!(missing(&schema(), &new, &applied(&new)).unwrap().is_empty());
        assert_eq!(names(&missing(&schema(), &new, &applied(&old)).unwrap()), ["c migration 2 (two)"]);
    }

    /// A changed variable changes the hash of a function but not of a migration, so only the function is applied again.
    #[test]
    fn a_changed_variable_applies_the_function_again() {
        let pending = missing(&schema(), &rendered(&[ONE], "6"), &applied(&rendered(&[ONE], "5"))).unwrap();
        assert_eq!(names(&pending), ["c function f"]);
    }

    /// Each kind of mismatch between applied and known migrations is rejected with its own reason.
    #[test]
    fn mismatches_are_rejected() {
        const EDITED: Migration = Migration { sql: "create table {schema}.one (edited int)", ..ONE };
        let error = |program: &[Rendered], ledger: &Ledger| missing(&schema(), program, ledger).unwrap_err();

        let newer = error(&rendered(&[ONE], "5"), &applied(&rendered(&[ONE, TWO], "5")));
        assert!(matches!(newer, MigrationError::Newer { found: 2, known: 1, .. }), "{newer}");
        let changed = error(&rendered(&[EDITED], "5"), &applied(&rendered(&[ONE], "5")));
        assert!(
            matches!(changed, MigrationError::Changed { .. }) && changed.to_string().contains("(one)"),
            "{changed}"
        );
        let misnumbered = error(&rendered(&[TWO], "5"), &Ledger::default());
        assert!(matches!(misnumbered, MigrationError::Misnumbered { expected: 1, found: 2, .. }), "{misnumbered}");
        let mut holed = Ledger::default();
        holed.note_migration("c".into(), 2, ledger::hash(TWO.sql));
        let skipped = error(&rendered(&[ONE, TWO], "5"), &holed);
        assert!(matches!(skipped, MigrationError::Skipped { found: 2, .. }), "{skipped}");
    }

    /// Applied steps of unknown components are ignored: they belong to another program.
    #[test]
    fn unknown_components_are_ignored() {
        let program = rendered(&[ONE], "5");
        let mut ledger = applied(&program);
        ledger.note_migration("other".into(), 9, "?".into());
        ledger.note_function("c".into(), "removed".into(), "?".into());
        assert!(missing(&schema(), &program, &ledger).unwrap().is_empty());
    }

    /// A checkout with other line endings has the same hashes.
    #[test]
    fn line_endings_do_not_change_a_hash() {
        assert_eq!(ledger::hash("a\r\nb\n"), ledger::hash("a\nb\n"));
        assert_ne!(ledger::hash("a\nb"), ledger::hash("a b"));
    }
}
