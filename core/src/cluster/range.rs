//! The numbers that a cluster may hold.
//!
//! Workflows hold numbers up to 1e18; with these limits every run time, transfer, cost and sum of them is finite.

use std::ops::RangeInclusive;

use crate::{Error, Result};

/// Speeds, for all kinds or one.
pub(super) const SPEED: RangeInclusive<f64> = 1e-9..=1e9;
/// Cores; resources are counted in thousandths.
pub(super) const CORES: RangeInclusive<f64> = 1e-3..=1e12;
/// GPUs, named resources, prices and watts.
pub(super) const AMOUNT: RangeInclusive<f64> = 0.0..=1e12;
/// Bytes of memory.
pub(super) const MEMORY: RangeInclusive<f64> = 1.0..=1e18;
/// Seconds.
pub(super) const LATENCY: RangeInclusive<f64> = 0.0..=1e9;
/// Bytes per second.
pub(super) const BANDWIDTH: RangeInclusive<f64> = 1e-9..=f64::INFINITY;

/// What is wrong with `value`, if it is outside `range` or not a number.
pub(super) fn check(what: &str, value: f64, range: &RangeInclusive<f64>, unit: &str) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    let no_limit = if range.end().is_infinite() { " (no limit)" } else { "" };
    let [value, low, high] = [value, *range.start(), *range.end()].map(short);
    Err(format!("{what} is {value}; expected {unit} from {low} to {high}{no_limit}"))
}

/// A number as people write it, without rows of zeros.
fn short(value: f64) -> String {
    let plain = value == 0.0 || (1e-3..1e6).contains(&value.abs());
    if plain { value.to_string() } else { format!("{value:e}") }
}

/// An error at a place of the cluster.
pub(super) fn wrong(place: impl Into<String>, message: impl Into<String>) -> Error {
    Error::Cluster { place: place.into(), message: message.into() }
}
