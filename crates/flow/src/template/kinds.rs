//! Checks what each kind of step requires of the steps around it. Steps are found by name, so the check is linear:
//! a template may have ten thousand.

use std::collections::HashMap;

use serde_saphyr::Location;

use super::fault::Collected;
use super::{StepKind, Template};

/// Checks what each kind of step requires of the steps around it.
pub(super) fn check(template: &Template, lines: &[Location], faults: &mut Collected) {
    let kind = |index: &usize| template.steps[*index].kind;
    let indexes: HashMap<&str, usize> =
        template.steps.iter().enumerate().map(|(index, step)| (step.name.as_str(), index)).collect();
    // Names that end with a number, as those of parts do, by the text before the number.
    let numbered: HashMap<&str, &str> =
        template.steps.iter().filter_map(|step| Some((before_number(&step.name)?, step.name.as_str()))).collect();
    for (step, at) in template.steps.iter().zip(lines) {
        let name = &step.name;
        match step.kind {
            StepKind::Decision if step.children.is_empty() => {
                faults.add(*at, format!("decision step {name:?} has no dependent steps"));
            }
            StepKind::DeferredConvergence if step.parents.is_empty() => {
                faults.add(*at, format!("deferred_convergence step {name:?} has no dependencies"));
            }
            StepKind::BatchWorker => {
                let divides = |parent: &usize| {
                    let config = template.steps[*parent].batch_config.as_ref();
                    kind(parent) == StepKind::Batchable && config.is_none_or(|config| config.worker_template == *name)
                };
                if step.parents.len() != 1 || !step.parents.iter().all(divides) {
                    let message = format!(
                        "batch_worker step {name:?} must depend on exactly one step: the batchable step whose worker_template it is"
                    );
                    faults.add(*at, message);
                }
                if let Some(other) = numbered.get(name.as_str()) {
                    faults.add(*at, format!("step {other:?} has the name of a part of batch_worker step {name:?}"));
                }
            }
            StepKind::Batchable => match &step.batch_config {
                None => faults.add(*at, format!("batchable step {name:?} has no batch_config")),
                Some(config) => {
                    let worker = indexes.get(config.worker_template.as_str());
                    let depends = |index: &&usize| template.steps[**index].parents.contains(&indexes[name.as_str()]);
                    if !worker.filter(depends).is_some_and(|index| kind(index) == StepKind::BatchWorker) {
                        let message = format!(
                            "worker_template {:?} of step {name:?} is not a batch_worker step that depends on it",
                            config.worker_template
                        );
                        faults.add(*at, message);
                    }
                }
            },
            _ => {}
        }
        if step.kind != StepKind::Batchable && step.batch_config.is_some() {
            faults.add(*at, format!("step {name:?} has a batch_config, but is not batchable"));
        }
    }
}

/// The text before a number at the end of a name.
fn before_number(name: &str) -> Option<&str> {
    let (before, number) = name.rsplit_once('_')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(before)
}
