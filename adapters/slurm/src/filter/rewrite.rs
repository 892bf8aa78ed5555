//! Adds lines to a script. Every other byte stays as it is.

use super::script::MARK;
use super::{Obstacle, Script, Sources, read_request};
use crate::brain::{Decision, Request, Verdict};

/// The lines that a decision adds, without line ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines(Vec<String>);

impl Lines {
    /// The lines of a decision. None if nothing is set, or if a value cannot stand in a script.
    pub fn of(decision: &Decision) -> Option<Self> {
        let options = [
            ("nodelist", decision.nodelist.clone()),
            ("prefer", decision.prefer.clone()),
            ("partition", decision.partition.clone()),
            ("nice", decision.nice.map(|nice| nice.to_string())),
        ];
        let options: Vec<_> = options.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let is_plain = |value: &String| {
            !value.is_empty()
                && value.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\' | '#'))
        };
        if options.is_empty() || !options.iter().all(|(_, value)| is_plain(value)) {
            return None;
        }
        let mut lines = vec![MARK.to_owned()];
        lines.extend(options.iter().map(|(name, value)| format!("#SBATCH --{name}={value}")));
        Some(Self(lines))
    }
}

/// The script with these lines behind its first one.
///
/// There they come before all directives, so that a directive that means the same would still win.
pub fn insert(script: &Script<'_>, lines: &Lines) -> Vec<u8> {
    let end: &[u8] = if script.has_crlf { b"\r\n" } else { b"\n" };
    let (before, after) = script.bytes.split_at(script.second_line);
    let mut text = Vec::with_capacity(script.bytes.len() + 128);
    text.extend_from_slice(before);
    // A script of one line that does not end.
    let lacks_end = !before.ends_with(b"\n");
    for (at, line) in lines.0.iter().enumerate() {
        if lacks_end || at > 0 {
            text.extend_from_slice(end);
        }
        text.extend_from_slice(line.as_bytes());
    }
    if !lacks_end {
        text.extend_from_slice(end);
    }
    text.extend_from_slice(after);
    text
}

/// The whole filter: reads the script, asks `brain`, and gives what is to be submitted, with what there is to say about it.
///
/// # Errors
/// [`Obstacle`] if the script is to stay as it is; or, in the inner result, why the job can never run.
pub fn filter<B>(
    bytes: &[u8],
    sources: &Sources,
    brain: B,
) -> Result<Result<(Vec<u8>, String), String>, Obstacle>
where
    B: FnOnce(&Request) -> Verdict,
{
    let script = Script::scan(bytes)?;
    let request = read_request(&script, sources)?;
    Ok(match brain(&request) {
        Verdict::Hopeless(message) => Err(message),
        Verdict::Go(decision) => {
            let text = Lines::of(&decision).map_or_else(|| bytes.to_vec(), |lines| insert(&script, &lines));
            Ok((text, decision.note))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(script: &str) -> String {
        let decision = Decision { nodelist: Some("fast1".into()), nice: Some(7), ..Decision::default() };
        let (text, _) =
            filter(script.as_bytes(), &Sources::default(), |_| Verdict::Go(decision)).unwrap().unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn lines_come_behind_the_first_one() {
        let added = format!("{MARK}\n#SBATCH --nodelist=fast1\n#SBATCH --nice=7");
        assert_eq!(pinned("#!/bin/sh\n#SBATCH -c2\nls"), format!("#!/bin/sh\n{added}\n#SBATCH -c2\nls"));
        assert_eq!(pinned("#!/bin/sh"), format!("#!/bin/sh\n{added}"));
        assert_eq!(
            pinned("#!/bin/sh\r\nls\r\n"),
            format!("#!/bin/sh\r\n{}\r\nls\r\n", added.replace('\n', "\r\n"))
        );
    }

    #[test]
    fn values_that_could_break_a_script_are_not_written() {
        for value in ["", "a b", "a\n#SBATCH -c9", "a'", "a\"", "a\\", "a#", "é"] {
            let decision = Decision { nodelist: Some(value.into()), ..Decision::default() };
            assert_eq!(Lines::of(&decision), None, "{value:?}");
        }
    }
}
