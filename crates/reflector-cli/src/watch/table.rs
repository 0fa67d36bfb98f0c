//! Rows of text in columns whose width grows with what has been seen.

/// The columns of a table that never ends.
#[derive(Debug, Default)]
pub(super) struct Table {
    headers: Vec<&'static str>,
    widths: Vec<usize>,
    has_header: bool,
}

const GAP: usize = 3;

impl Table {
    pub(super) fn new(headers: Vec<&'static str>) -> Self {
        let widths = headers.iter().map(|header| header.len()).collect();
        Self { headers, widths, has_header: false }
    }

    /// Takes the width of these rows into account.
    pub(super) fn fit(&mut self, rows: &[Vec<String>]) {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }

    /// The header, the first time.
    pub(super) fn header(&mut self) -> Option<String> {
        let first = !std::mem::replace(&mut self.has_header, true);
        first.then(|| self.line(&self.headers))
    }

    /// One line without its end.
    pub(super) fn line(&self, cells: &[impl AsRef<str>]) -> String {
        let mut line = String::new();
        for (width, cell) in self.widths.iter().zip(cells) {
            let cell = cell.as_ref();
            line.push_str(cell);
            let blanks = width.saturating_sub(cell.chars().count()) + GAP;
            line.extend(std::iter::repeat_n(' ', blanks));
        }
        line.truncate(line.trim_end().len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_tail() {
        let mut table = Table::new(vec!["NAME", "AGE"]);
        let rows = vec![vec!["ä-long-one".to_owned(), "1s".to_owned()], vec!["b".to_owned(), String::new()]];
        table.fit(&rows);
        assert_eq!(table.header().as_deref(), Some("NAME         AGE"));
        assert_eq!(table.header(), None);
        assert_eq!(table.line(&rows[0]), "ä-long-one   1s");
        assert_eq!(table.line(&rows[1]), "b");
    }
}
