//! Tables: aligned columns, numbers to the right, as wide as the terminal.

use super::text::{Style, printable, truncated, width};

/// Spaces between two columns.
const GAP: usize = 2;
/// A column is not made narrower than this.
const NARROWEST: usize = 6;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    heading: &'static str,
    is_number: bool,
    is_whole: bool,
}

impl Column {
    /// A column of text, which may be truncated on a terminal.
    pub const fn text(heading: &'static str) -> Column {
        Column { heading, is_number: false, is_whole: false }
    }

    /// A column of ids, which are never truncated: they are needed for the next command.
    pub const fn id(heading: &'static str) -> Column {
        Column { heading, is_number: false, is_whole: true }
    }

    /// A column of numbers.
    pub const fn number(heading: &'static str) -> Column {
        Column { heading, is_number: true, is_whole: true }
    }
}

/// A value in a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// A value in a style.
    pub fn styled(text: impl ToString, style: Style) -> Cell {
        Cell { text: printable(&text.to_string()).into_owned(), style }
    }

    /// What is shown.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A value, or a dash.
    pub fn maybe(value: Option<impl ToString>) -> Cell {
        value.map_or_else(|| Cell::styled("–", Style::Dim), |value| Cell::from(value.to_string()))
    }

    /// A number; zero is dim, so that the others stand out.
    pub fn count(number: u64) -> Cell {
        Cell::styled(number, if number == 0 { Style::Dim } else { Style::Plain })
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::styled(text, Style::Plain)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::styled(text, Style::Plain)
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new<const N: usize>(columns: [Column; N]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Appends a row with a cell for each column.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        debug_assert_eq!(N, self.columns.len(), "a cell for each column");
        self.rows.push(cells.into());
    }

    /// The table without a column.
    pub fn without(mut self, heading: &str) -> Table {
        if let Some(at) = self.columns.iter().position(|column| column.heading == heading) {
            self.columns.remove(at);
            self.rows.iter_mut().for_each(|cells| drop(cells.remove(at)));
        }
        self
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, without the last line end. `columns`: how wide it may be; `None`: as wide as necessary.
    pub fn render(&self, columns: Option<usize>, colour: bool) -> String {
        let line = |parts: Vec<(String, Style)>| {
            parts.iter().map(|(text, style)| style.apply(text, colour)).collect::<String>()
        };
        self.lines(columns).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The lines as texts with their styles; the first has the headings.
    pub fn lines(&self, columns: Option<usize>) -> Vec<Vec<(String, Style)>> {
        let widths = self.widths(columns);
        let headings = self.columns.iter().map(|column| Cell::styled(column.heading.to_uppercase(), Style::Dim));
        let mut lines = vec![self.line(&headings.collect::<Vec<_>>(), &widths)];
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths)));
        lines
    }

    fn line(&self, cells: &[Cell], widths: &[usize]) -> Vec<(String, Style)> {
        let mut parts = Vec::new();
        let mut gap = 0;
        for ((cell, column), most) in cells.iter().zip(&self.columns).zip(widths) {
            let text = truncated(&cell.text, *most);
            let free = most.saturating_sub(width(&text));
            let before = if column.is_number { free } else { 0 };
            if !text.is_empty() {
                parts.push((" ".repeat(gap + before), Style::Plain));
                parts.push((text.into_owned(), cell.style));
                gap = 0;
            } else {
                gap += before;
            }
            // Kept until there is something to its right: no line ends with spaces.
            gap += free - before + GAP;
        }
        parts
    }

    /// The widths of the columns. If the table is too wide, the widest columns of text give way.
    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let of_column = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| width(&cell.text));
            cells.chain([width(column.heading)]).max().unwrap_or_default()
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(of_column).collect();
        let Some(columns) = columns else { return widths };
        let gaps = GAP * widths.len().saturating_sub(1);
        loop {
            let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(columns);
            let shrinkable = |at: &usize| !self.columns[*at].is_whole && widths[*at] > NARROWEST;
            let Some(widest) = (0..widths.len()).filter(shrinkable).max_by_key(|at| widths[*at]) else { break };
            if excess == 0 {
                break;
            }
            // Down to the next widest, so that two long columns share the loss.
            let next = (0..widths.len()).filter(|at| *at != widest && shrinkable(at)).map(|at| widths[at]).max();
            let least = next.unwrap_or(NARROWEST).min(widths[widest] - 1).max(NARROWEST);
            widths[widest] = (widths[widest] - excess.min(widths[widest])).max(least);
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([Column::text("name"), Column::number("depth"), Column::text("payload")]);
        table.row(["orders".into(), Cell::count(7), "{\"a\": 1}".into()]);
        table.row(["日本".into(), Cell::count(12_345), Cell::default()]);
        table.row(["x\n\x1b[31m".into(), Cell::maybe(None::<u8>), "long ".repeat(10).trim().into()]);
        table
    }

    /// Text is aligned left and numbers right, wide characters count twice, no line ends with spaces, and control
    /// characters are escaped.
    #[test]
    fn columns_are_aligned() {
        let long = "long ".repeat(10);
        let expected = format!(
            "NAME           DEPTH  PAYLOAD\n\
             orders             7  {{\"a\": 1}}\n\
             日本           12345\n\
             x\\n\\u{{1b}}[31m      –  {}",
            long.trim()
        );
        assert_eq!(table().render(None, false), expected);
    }

    /// On a terminal the widest text gives way, numbers and ids never do, and no line is wider than the terminal.
    #[test]
    fn a_table_fits_the_terminal() {
        for columns in [30, 40, 50] {
            let text = table().render(Some(columns), false);
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}:\n{text}");
            assert!(text.contains("12345") && text.contains('…'), "{columns}:\n{text}");
        }
        assert!(!table().render(Some(200), false).contains('…'));
    }

    /// A column is removed with its cells.
    #[test]
    fn a_column_can_be_left_out() {
        let text = table().without("depth").render(None, false);
        assert!(text.starts_with("NAME           PAYLOAD\norders         {"), "{text}");
    }

    /// Colours change no width.
    #[test]
    fn colours_are_outside_of_the_alignment() {
        let mut table = Table::new([Column::text("state"), Column::text("name")]);
        table.row([Cell::styled("error", Style::Bad), "a".into()]);
        let coloured = table.render(None, true);
        assert!(coloured.contains("\x1b[31merror\x1b[0m  a"), "{coloured:?}");
    }
}
