//! Which failures of a task are worth another attempt.

use std::fmt;
use std::str::FromStr;

/// A way in which an attempt fails.
///
/// As text: an exit status such as `75`, or one of the words `exit`, `signal`, `timeout`, `memory`, `input`, `output` and
/// `start`.
///
/// ```
/// use mdts_dag::Failing;
/// assert_eq!("75".parse(), Ok(Failing::Status(75)));
/// assert_eq!(Failing::Timeout.to_string(), "timeout");
/// assert!("tiemout".parse::<Failing>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failing {
    /// Its process ended with this status.
    Status(i32),
    /// Its process ended with any status but 0.
    Exit,
    /// A signal killed its process.
    Signal,
    /// It ran out of time.
    Timeout,
    /// It took more memory than it may.
    Memory,
    /// A declared input was missing, so that it did not begin.
    Input,
    /// It ended well but left a declared output missing.
    Output,
    /// Its process could not be started.
    Start,
}

/// The classes and their words.
const WORDS: [(Failing, &str); 7] = [
    (Failing::Exit, "exit"),
    (Failing::Signal, "signal"),
    (Failing::Timeout, "timeout"),
    (Failing::Memory, "memory"),
    (Failing::Input, "input"),
    (Failing::Output, "output"),
    (Failing::Start, "start"),
];

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, WORDS.iter().find(|(class, _)| class == self)) {
            (Self::Status(status), _) => write!(f, "{status}"),
            (_, Some((_, word))) => f.write_str(word),
            (_, None) => Ok(()), // all classes have a word
        }
    }
}

impl FromStr for Failing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((class, _)) = WORDS.iter().find(|(_, word)| *word == text) {
            return Ok(*class);
        }
        match text.parse() {
            Ok(status @ 1..=255) => Ok(Self::Status(status)),
            _ => Err(format!(
                "'{text}' is no way to fail; expected an exit status from 1 to 255, or one of {}",
                WORDS.map(|(_, word)| word).join(", ")
            )),
        }
    }
}

/// After which failures a task is repeated, as long as it has retries.
///
/// ```
/// use mdts_dag::{Failing, RetryRule};
/// let rule = RetryRule { on: vec![], never_on: vec![Failing::Status(2)] };
/// assert!(rule.repeats(Failing::Status(1)) && rule.repeats(Failing::Signal));
/// assert!(!rule.repeats(Failing::Status(2)), "it says so");
/// assert!(!rule.repeats(Failing::Memory), "it would end the same way");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetryRule {
    /// Failures that are repeated; empty: all but [`Failing::Memory`] and [`Failing::Input`].
    pub on: Vec<Failing>,
    /// Failures that are not, although `on` has them.
    pub never_on: Vec<Failing>,
}

impl RetryRule {
    /// Whether another attempt is worth it after this failure.
    pub fn repeats(&self, failing: Failing) -> bool {
        let is_exit = matches!(failing, Failing::Status(_));
        let has = |list: &[Failing]| list.contains(&failing) || (is_exit && list.contains(&Failing::Exit));
        // A status that is named counts more than the class of all statuses.
        if is_exit && self.on.contains(&failing) && !self.never_on.contains(&failing) {
            return true;
        }
        let is_on = if self.on.is_empty() {
            !matches!(failing, Failing::Memory | Failing::Input)
        } else {
            has(&self.on)
        };
        is_on && !has(&self.never_on)
    }

    /// Whether it says nothing.
    pub fn is_default(&self) -> bool {
        self.on.is_empty() && self.never_on.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_obeyed() {
        use Failing::{Exit, Input, Memory, Signal, Status, Timeout};
        let table: &[[&[Failing]; 4]] = &[
            // on, never on, repeated, final
            [&[], &[], &[Status(1), Signal, Timeout, Failing::Start, Failing::Output], &[Memory, Input]],
            [&[Status(75), Signal], &[], &[Status(75), Signal], &[Status(1), Timeout, Memory]],
            [&[Memory, Exit], &[Status(2)], &[Memory, Status(1)], &[Status(2), Signal]],
            [&[Status(75)], &[Exit], &[Status(75)], &[Status(1), Signal]],
            [&[], &[Exit], &[Signal], &[Status(1), Status(255)]],
        ];
        for [on, never_on, repeated, last] in table {
            let rule = RetryRule { on: on.to_vec(), never_on: never_on.to_vec() };
            assert!(repeated.iter().all(|f| rule.repeats(*f)), "{rule:?}");
            assert!(!last.iter().any(|f| rule.repeats(*f)), "{rule:?}");
        }
    }

    #[test]
    fn classes_are_read_as_they_are_written() {
        for class in WORDS.map(|(class, _)| class).into_iter().chain([Failing::Status(137)]) {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        for wrong in ["", "0", "256", "-1", "Signal"] {
            assert!(wrong.parse::<Failing>().is_err(), "{wrong}");
        }
    }
}
