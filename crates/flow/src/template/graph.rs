//! The dependency graph of a template, without cycles. Steps are indexes into the template.

/// The dependencies of a template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Graph {
    parents: Vec<Vec<usize>>,
    children: Vec<Vec<usize>>,
}

impl Graph {
    /// Builds the graph from the parents of each step. `Err` is a cycle: each step depends on the next, the last on the
    /// first.
    pub(crate) fn new(parents: Vec<Vec<usize>>) -> Result<Graph, Vec<usize>> {
        let mut children = vec![Vec::new(); parents.len()];
        for (child, of) in parents.iter().enumerate() {
            of.iter().for_each(|parent| children[*parent].push(child));
        }
        let graph = Graph { parents, children };
        let ordered = graph.order();
        if ordered.len() == graph.parents.len() { Ok(graph) } else { Err(graph.cycle(&ordered)) }
    }

    pub(crate) fn parents(&self, step: usize) -> &[usize] {
        &self.parents[step]
    }

    pub(crate) fn children(&self, step: usize) -> &[usize] {
        &self.children[step]
    }

    /// The steps in topological order. Steps on a cycle, and those that depend on one, are missing.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut waiting: Vec<usize> = self.parents.iter().map(Vec::len).collect();
        let mut order: Vec<usize> = (0..waiting.len()).filter(|step| waiting[*step] == 0).collect();
        let mut at = 0;
        while let Some(step) = order.get(at).copied() {
            for child in &self.children[step] {
                waiting[*child] -= 1;
                if waiting[*child] == 0 {
                    order.push(*child);
                }
            }
            at += 1;
        }
        order
    }

    /// Finds a cycle: follows unordered parents from an unordered step until a step repeats.
    fn cycle(&self, ordered: &[usize]) -> Vec<usize> {
        let mut is_ordered = vec![false; self.parents.len()];
        ordered.iter().for_each(|step| is_ordered[*step] = true);
        let stuck = |step: &usize| !is_ordered[*step];
        let mut path: Vec<usize> = (0..self.parents.len()).find(stuck).into_iter().collect();
        // The position of each step on the path.
        let mut met = vec![None; self.parents.len()];
        while let Some(next) = path.last().and_then(|last| self.parents[*last].iter().copied().find(stuck)) {
            let last = path.len() - 1;
            met[path[last]] = Some(last);
            if let Some(begin) = met[next] {
                return path.split_off(begin);
            }
            path.push(next);
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Only the steps of the cycle are named, not those that lead to it or depend on it.
    #[test]
    fn only_the_steps_of_the_cycle_are_named() {
        // 0 → 1 → 2 → 3 → 1, and 4 behind 3.
        let cycle = Graph::new(vec![vec![], vec![0, 3], vec![1], vec![2], vec![3]]).expect_err("a cycle");
        assert_eq!(cycle, [1, 3, 2]);
        assert_eq!(Graph::new(vec![vec![0]]).expect_err("itself"), [0]);
    }

    /// The longest possible chain is ordered without exhausting the stack.
    #[test]
    fn a_long_chain_is_ordered() {
        const STEPS: usize = 10_000;
        let chain = (0..STEPS).map(|step| step.checked_sub(1).into_iter().collect()).collect();
        let graph = Graph::new(chain).expect("no cycle");
        assert_eq!(graph.order(), (0..STEPS).collect::<Vec<_>>());
        assert_eq!((graph.children(0), graph.parents(0)), (&[1][..], &[][..]));
    }

    /// Random acyclic graphs: edges lead from earlier to later steps, then the steps are shuffled.
    fn acyclic() -> impl Strategy<Value = Vec<Vec<usize>>> {
        (1..20_usize).prop_flat_map(|steps| {
            let names = Just((0..steps).collect::<Vec<_>>()).prop_shuffle();
            (names, prop::collection::vec(prop::bool::weighted(0.3), steps * steps)).prop_map(move |(names, edges)| {
                let mut parents = vec![Vec::new(); steps];
                for child in 0..steps {
                    parents[names[child]] =
                        (0..child).filter(|parent| edges[child * steps + parent]).map(|parent| names[parent]).collect();
                }
                parents
            })
        })
    }

    proptest! {
        /// In an acyclic graph every step comes after all its parents, exactly once.
        #[test]
        fn the_order_respects_every_edge(parents in acyclic()) {
            let steps = parents.len();
            let graph = Graph::new(parents.clone()).expect("no cycle");
            let order = graph.order();
            prop_assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), steps);
            let index = |step: usize| order.iter().position(|other| *other == step);
            for (child, of) in parents.iter().enumerate() {
                prop_assert!(of.iter().all(|parent| index(*parent) < index(child)));
                prop_assert!(of.iter().all(|parent| graph.children(*parent).contains(&child)));
            }
        }

        /// A cycle is reported as a list of existing edges.
        #[test]
        fn a_cycle_consists_of_edges(parents in acyclic(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
            let mut parents = parents;
            let (from, to) = (from.index(parents.len()), to.index(parents.len()));
            parents[from].push(to);
            if let Err(cycle) = Graph::new(parents.clone()) {
                prop_assert!(!cycle.is_empty());
                for (at, step) in cycle.iter().enumerate() {
                    let next = cycle[(at + 1) % cycle.len()];
                    prop_assert!(parents[*step].contains(&next), "{step} does not depend on {next}");
                }
            }
        }
    }
}
