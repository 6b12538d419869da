//! The graphs of tasks.

use serde::{Deserialize, Serialize};

/// A graph of steps, one of which is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// One step.
    Single,
    /// Four steps, one after another.
    Chain,
    /// Four steps: two parallel ones between the first and the last.
    Diamond,
    /// Seven steps; some wait for several others.
    Dag,
    /// Eight steps: one, then two, then four, then one that waits for the four.
    Tree,
    /// This many parallel steps between the first and the last.
    Wide(usize),
}

/// A step: its name, and the names of the steps that it waits for.
pub type Step = (String, Vec<String>);

impl Shape {
    /// Its name in titles.
    pub fn name(self) -> String {
        match self {
            Shape::Single => "single step".into(),
            Shape::Chain => "chain of 4".into(),
            Shape::Diamond => "diamond of 4".into(),
            Shape::Dag => "graph of 7".into(),
            Shape::Tree => "tree of 8".into(),
            Shape::Wide(width) => format!("fan-out of {width}"),
        }
    }

    /// The number of steps.
    pub fn size(self) -> usize {
        match self {
            Shape::Single => 1,
            Shape::Chain | Shape::Diamond => 4,
            Shape::Dag => 7,
            Shape::Tree => 8,
            Shape::Wide(width) => width + 2,
        }
    }

    /// Its steps. The last one is at the end.
    pub fn steps(self) -> Vec<Step> {
        let fixed: &[(&str, &[&str])] = match self {
            Shape::Single => &[("a", &[])],
            Shape::Chain => &[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &["c"])],
            Shape::Diamond => &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])],
            Shape::Dag => &[
                ("a", &[]),
                ("b", &["a"]),
                ("c", &["a"]),
                ("d", &["b"]),
                ("e", &["b", "c"]),
                ("f", &["c"]),
                ("g", &["d", "e", "f"]),
            ],
            Shape::Tree => &[
                ("a", &[]),
                ("b", &["a"]),
                ("c", &["a"]),
                ("d", &["b"]),
                ("e", &["b"]),
                ("f", &["c"]),
                ("g", &["c"]),
                ("h", &["d", "e", "f", "g"]),
            ],
            Shape::Wide(width) => {
                let middle: Vec<String> = (0..width).map(|number| format!("m{number}")).collect();
                let first = ("a".to_owned(), Vec::new());
                let between = middle.iter().map(|name| (name.clone(), vec!["a".to_owned()]));
                let last = ("z".to_owned(), middle.clone());
                return [first].into_iter().chain(between).chain([last]).collect();
            }
        };
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        fixed.iter().map(|(name, waits_for)| ((*name).to_owned(), owned(waits_for))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures per step are divided by the size, so it must be the number of steps. Tasks are counted by their last
    /// step, so no step may wait for that one, and each other step must have one that waits for it.
    #[test]
    fn a_shape_has_its_size_and_one_last_step() {
        for shape in [Shape::Single, Shape::Chain, Shape::Diamond, Shape::Dag, Shape::Tree, Shape::Wide(5)] {
            let steps = shape.steps();
            assert_eq!(steps.len(), shape.size());
            let waited_for = |name: &String| steps.iter().any(|(_, waits_for)| waits_for.contains(name));
            let unwaited: Vec<&String> = steps.iter().map(|(name, _)| name).filter(|name| !waited_for(name)).collect();
            assert_eq!(unwaited, steps.last().map(|(name, _)| name).into_iter().collect::<Vec<_>>());
        }
    }
}
