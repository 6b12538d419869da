//! The difference of two texts, line by line.

/// Lines of both around a change that are shown with it, to tell where it is.
const CONTEXT: usize = 3;

/// The changed lines with a few around them: `-` only in `old`, `+` only in `new`, `…` where lines are left out.
///
/// Takes time and memory in proportion to the product of the lines: for texts of a few thousand.
pub(super) fn between(old: &str, new: &str) -> String {
    let lines = script(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let near = |at: usize| {
        let (from, to) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(lines.len()));
        lines[from..to].iter().any(|(sign, _)| *sign != ' ')
    };
    let (mut text, mut skipping) = (String::new(), false);
    for (at, (sign, line)) in lines.iter().enumerate() {
        if near(at) {
            text.push_str(format!("{sign} {line}").trim_end());
            text.push('\n');
        } else if !skipping {
            text.push_str("…\n");
        }
        skipping = !near(at);
    }
    text
}

/// Every line of both, in order, with ` ` if they share it: the longest common subsequence.
fn script<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    // shared[i][j]: how many lines old[i..] and new[j..] can share.
    let mut shared = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            shared[i][j] = match old[i] == new[j] {
                true => shared[i + 1][j + 1] + 1,
                false => shared[i + 1][j].max(shared[i][j + 1]),
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && shared[i + 1][j] >= shared[i][j + 1]) {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::between;

    /// A reader must see what changed and where, and nothing else.
    /// Changes a line, adds one and removes one, far enough apart for lines between them to be left out.
    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        let old: Vec<String> = (1..=30).map(|line| line.to_string()).collect();
        let mut new = old.clone();
        new[1] = "two".into();
        new.insert(14, "new".into());
        new.remove(30);
        let expected =
            "  1\n- 2\n+ two\n  3\n  4\n  5\n…\n  12\n  13\n  14\n+ new\n  15\n  16\n  17\n…\n  27\n  28\n  29\n- 30\n";
        assert_eq!(between(&old.join("\n"), &new.join("\n")), expected);
    }

    /// Where one side is empty, all of the other is the difference; equal texts have none.
    #[test]
    fn empty_and_equal_texts_have_their_difference() {
        assert_eq!(between("", "a\nb\n"), "+ a\n+ b\n");
        assert_eq!(between("a\n", ""), "- a\n");
        assert_eq!(between("a\n", "a\n"), "…\n");
    }
}
