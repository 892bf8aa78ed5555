//! The lines of a batch script that say something to sbatch. O(bytes up to the first command).

use super::Obstacle;
use super::words::is_space;

/// Begins a directive, at the first column.
const MAGIC: &[u8] = b"#SBATCH";
/// Begin directives of other systems, which sbatch obeys as well.
const FOREIGN: [&[u8]; 2] = [b"#PBS", b"#BSUB"];
/// A comment line that the filter leaves behind.
pub(super) const MARK: &str = "# placed by mdts slurm filter";

/// One `#SBATCH` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive<'a> {
    /// Line number, from 1.
    pub line: usize,
    /// What stands behind `#SBATCH`, without the end of the line.
    pub text: &'a [u8],
}

/// What was found in a script before its first command.
#[derive(Debug, Clone)]
pub struct Script<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// In order.
    pub directives: Vec<Directive<'a>>,
    /// The first line with a directive of another system.
    pub foreign: Option<usize>,
    /// Where the second line begins, or the end.
    pub second_line: usize,
    /// Whether lines end in CR LF.
    pub has_crlf: bool,
}

impl<'a> Script<'a> {
    /// Reads a script.
    ///
    /// # Errors
    /// [`Obstacle`] if it is no batch script, or has been through the filter.
    pub fn scan(bytes: &'a [u8]) -> Result<Self, Obstacle> {
        if !bytes.starts_with(b"#!") {
            return Err(Obstacle::NoInterpreter);
        }
        if bytes.contains(&0) {
            return Err(Obstacle::Zero);
        }
        let mut lines = bytes.split_inclusive(|b| *b == b'\n').enumerate();
        let first = lines.next().map_or(&b""[..], |(_, line)| line);
        let mut script = Self {
            bytes,
            directives: Vec::new(),
            foreign: None,
            second_line: first.len(),
            has_crlf: first.ends_with(b"\r\n"),
        };
        for (at, line) in lines {
            let text = end_cut_off(line);
            if let Some(text) = text.strip_prefix(MAGIC) {
                script.directives.push(Directive { line: at + 1, text });
            } else if FOREIGN.iter().any(|magic| text.starts_with(magic)) {
                script.foreign.get_or_insert(at + 1);
            } else if text == MARK.as_bytes() {
                return Err(Obstacle::FilteredBefore);
            } else if text.iter().find(|b| !is_space(**b)).is_some_and(|b| *b != b'#') {
                break;
            }
        }
        Ok(script)
    }
}

/// A line without its end.
fn end_cut_off(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        Script::scan(text.as_bytes()).unwrap().directives.iter().map(|d| d.line).collect()
    }

    #[test]
    fn directives_end_at_the_first_command() {
        let table: [(&str, &[usize]); 7] = [
            ("#!/bin/sh\n#SBATCH -c2\nhostname\n#SBATCH -c3\n", &[2]),
            ("#!/bin/sh\n\n# hi\n \t\n#SBATCH -c2", &[5]),
            ("#!/bin/sh\n  #SBATCH -c2\n#SBATCH -c3\n", &[3]),
            ("#!/bin/sh\n#sbatch -c2\n#SBATCH-c3\n", &[3]),
            ("#!/bin/sh\r\n#SBATCH -c2\r\nls\r\n", &[2]),
            ("#!/bin/sh", &[]),
            ("#!", &[]),
        ];
        for (text, expected) in table {
            assert_eq!(lines(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_no_batch_script_is_told() {
        assert_eq!(Script::scan(b"").unwrap_err(), Obstacle::NoInterpreter);
        assert_eq!(Script::scan(b"#SBATCH -c2\n").unwrap_err(), Obstacle::NoInterpreter);
        assert_eq!(Script::scan(b"#!/bin/sh\n\0").unwrap_err(), Obstacle::Zero);
        let again = format!("#!/bin/sh\n{MARK}\n");
        assert_eq!(Script::scan(again.as_bytes()).unwrap_err(), Obstacle::FilteredBefore);
    }

    #[test]
    fn directives_of_other_systems_are_seen() {
        assert_eq!(Script::scan(b"#!/bin/sh\n#SBATCH -c2\n#PBS -N x\n").unwrap().foreign, Some(3));
    }
}
