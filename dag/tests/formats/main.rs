//! Reading and writing job graphs: real files, samples, round trips, bad input.

mod bad;
mod cost;
mod data;
mod detail;
mod mistakes;
mod round_trip;
mod samples;
