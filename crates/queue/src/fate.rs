//! What became of pushed messages, and how it is written as the outcome of a flight.

use uuid::Uuid;

/// What became of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Each message is stored, or the id of the one it is a duplicate of.
    Stored(Vec<Option<Uuid>>),
    /// The partition is not what it was: ask for it again.
    Gone,
    /// The queue has its `maxSize`: the ids of what is there all the same.
    Full(Vec<Option<Uuid>>),
    /// Pushes are under maintenance.
    Shelved,
}

/// As the outcome of a flight, which is text.
pub(crate) fn written(fate: &Fate) -> String {
    let list = |kind: char, ids: &[Option<Uuid>]| {
        let each = ids.iter().map(|id| id.map_or_else(String::new, |id| id.to_string()));
        format!("{kind}{}", each.collect::<Vec<_>>().join(","))
    };
    match fate {
        Fate::Stored(originals) => list('s', originals),
        Fate::Full(stored) => list('f', stored),
        Fate::Gone => "g".to_owned(),
        Fate::Shelved => "m".to_owned(),
    }
}

/// What [`written`] wrote.
pub(crate) fn read(text: &str) -> Fate {
    let list = |ids: &str| ids.split(',').map(|id| id.parse().ok()).collect();
    match text.split_at_checked(1) {
        Some(("s", originals)) => Fate::Stored(list(originals)),
        Some(("f", stored)) => Fate::Full(list(stored)),
        Some(("m", _)) => Fate::Shelved,
        _ => Fate::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever becomes of a load must survive being an outcome of a flight, which is text.
    #[test]
    fn a_fate_is_read_as_it_was_written() {
        let ids = vec![None, Some(Uuid::new_v4()), None];
        for fate in [Fate::Stored(ids.clone()), Fate::Stored(vec![None]), Fate::Full(ids), Fate::Gone, Fate::Shelved] {
            assert_eq!(read(&written(&fate)), fate);
        }
    }
}
