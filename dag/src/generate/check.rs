//! Checks of generator parameters, before anything is built.

use std::fmt::Display;
use std::ops::RangeInclusive;

use crate::{Error, Result};

/// The largest graph that is generated; a larger request is taken for a mistake, not for a need.
const MOST_TASKS: f64 = (1 << 24) as f64;
const MOST_DEPENDENCIES: f64 = (1 << 27) as f64;

pub(super) fn bad(name: impl Into<String>, message: impl Into<String>) -> Error {
    Error::BadParameter { name: name.into(), message: message.into() }
}

/// A count of at least `least`.
pub(super) fn at_least(name: &str, value: usize, least: usize) -> Result<()> {
    if value >= least {
        return Ok(());
    }
    Err(bad(name, format!("{value} is too few; expected at least {least}")))
}

/// A number inside `range`; NaN is not.
pub(super) fn within(name: &str, value: f64, range: RangeInclusive<f64>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(out_of(name, value, range.start(), range.end()))
}

fn out_of(name: &str, value: impl Display, low: impl Display, high: impl Display) -> Error {
    bad(name, format!("{value} is out of range; expected a number from {low} to {high}"))
}

/// The size of the graph to come; as floats, because products of absurd parameters overflow integers.
pub(super) fn size(name: &str, tasks: f64, dependencies: f64) -> Result<()> {
    for (count, most, what) in
        [(tasks, MOST_TASKS, "tasks"), (dependencies, MOST_DEPENDENCIES, "dependencies")]
    {
        if count > most {
            return Err(bad(name, format!("this makes {count:.0} {what}; at most {most:.0} are generated")));
        }
    }
    Ok(())
}
