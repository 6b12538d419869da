//! Bars on a line of time.

/// A bar from 0 to `columns`, all times being fractions of the whole: it waits from `waits_from` to `runs_from`, and
/// runs to `until`. Without `runs_from` it waits to the end.
pub fn bar(columns: usize, waits_from: f64, runs_from: Option<f64>, until: f64) -> String {
    let column = |at: f64| (at.clamp(0.0, 1.0) * columns as f64) as usize;
    let first = column(waits_from).min(columns.saturating_sub(1));
    let last = column(until).clamp(first + 1, columns.max(first + 1));
    let runs = runs_from.map_or(last, |from| column(from).clamp(first, last - 1));
    let mut bar = " ".repeat(first);
    bar.extend((first..last).map(|at| if at < runs { '░' } else { '█' }));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What waits is light, what runs is dark; an instant is still visible.
    #[test]
    fn a_bar_waits_and_runs() {
        assert_eq!(bar(10, 0.2, Some(0.5), 0.8), "  ░░░███");
        assert_eq!(bar(10, 0.2, None, 1.0), "  ░░░░░░░░");
        assert_eq!(bar(10, 0.5, Some(0.5), 0.5), "     █");
        assert_eq!(bar(10, 1.0, Some(1.0), 1.0), "         █");
        assert_eq!(bar(10, -1.0, Some(0.0), 9.0), "██████████");
        assert_eq!(bar(0, 0.0, Some(0.0), 1.0), "█");
    }
}
