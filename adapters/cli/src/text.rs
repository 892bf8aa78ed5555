//! Numbers and tables for people.

/// A number with about five significant digits and no trailing zeros.
pub(crate) fn number(x: f64) -> String {
    if !x.is_finite() {
        return "-".into();
    }
    let text = format!("{x:.*}", decimals(x.abs()));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Numbers that stand below each other: all with the same number of decimals.
pub(crate) fn column(values: &[f64]) -> Vec<String> {
    let largest = values.iter().filter(|x| x.is_finite()).fold(0.0_f64, |a, x| a.max(x.abs()));
    let whole = values.iter().all(|x| x.fract() == 0.0);
    let decimals = if whole { 0 } else { decimals(largest) };
    values.iter().map(|x| if x.is_finite() { format!("{x:.decimals$}") } else { "-".into() }).collect()
}

/// Decimals that give five significant digits.
fn decimals(x: f64) -> usize {
    if x <= 0.0 { 0 } else { (4.0 - x.log10().floor()).clamp(0.0, 9.0) as usize }
}

/// A size with a unit of 1000.
pub(crate) fn bytes(x: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let step = if x >= 1.0 { ((x.log10() / 3.0) as usize).min(units.len() - 1) } else { 0 };
    format!("{} {}", number(x / 1000_f64.powf(step as f64)), units[step])
}

/// `1 task`, `2 tasks`.
pub(crate) fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A bar of `width` characters for a share from 0 to 1.
pub(crate) fn meter(share: f64, width: usize) -> String {
    let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    "█".repeat(full) + &"░".repeat(width - full)
}

/// Which side a column of a table leans to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// A table of aligned columns.
#[derive(Debug)]
pub(crate) struct Table {
    align: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns: headings that begin with `>` lean right.
    pub(crate) fn new<const N: usize>(headings: [&str; N]) -> Self {
        let align = headings.map(|h| if h.starts_with('>') { Align::Right } else { Align::Left });
        let first = headings.map(|h| h.trim_start_matches('>').to_owned());
        Self { align: align.into(), rows: vec![first.into()] }
    }

    /// Adds a row.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        debug_assert_eq!(N, self.align.len());
        self.rows.push(cells.into());
    }

    /// The table, two spaces between columns, every line ended.
    pub(crate) fn show(&self) -> String {
        let width = |c: usize| self.rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.align.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), align) in row.iter().zip(&widths).zip(&self.align) {
                let pad = " ".repeat(width - cell.chars().count());
                let [before, after] = match align {
                    Align::Left => [cell, pad.as_str()],
                    Align::Right => [pad.as_str(), cell],
                };
                line.extend([before, after, "  "]);
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let table = [
            (0.0, "0"),
            (80.0, "80"),
            (133.25, "133.25"),
            (1066.128, "1066.1"),
            (123_456.7, "123457"),
            (0.012_345_67, "0.012346"),
            (100_000.0, "100000"),
            (f64::INFINITY, "-"),
        ];
        for (x, text) in table {
            assert_eq!(number(x), text);
        }
        assert_eq!(column(&[80.0, 133.25]), ["80.00", "133.25"]);
        assert_eq!(column(&[80.0, 133.0]), ["80", "133"]);
        assert_eq!(bytes(1_500_000.0), "1.5 MB");
        assert_eq!(bytes(0.0), "0 B");
    }

    #[test]
    fn tables_are_aligned() {
        let mut table = Table::new(["name", ">s"]);
        table.row(["a".into(), "1.0".into()]);
        table.row(["größe".into(), "10.0".into()]);
        assert_eq!(table.show(), "name      s\na       1.0\ngröße  10.0\n");
    }
}
