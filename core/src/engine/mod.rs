//! The engine: a pure state machine between events and commands.
//!
//! ```text
//!   driver (simulator or runner)            Engine                     policy (Placer)
//!        | events at a time  --------------> State::apply
//!        |                                   child tasks ready  -----> place(step)
//!        |                                   State::decide     <------ decisions
//!        | <------------------ commands ---- State::dispatch
//! ```
//! There is no clock, no randomness and no I/O in here. A driver may keep the [`Record`]s of an engine;
//! [`State::replay`] applies them, decisions included, and arrives at the same state without asking the policy.
//!
//! A task has one attempt at a time, or two if the driver tells that the first is [overdue](Event::Overdue).

mod amend;
mod demand;
mod driver;
mod event;
mod fair;
mod image;
mod jobs;
mod life;
mod node;
mod presence;
mod queue;
mod ready;
mod reshape;
mod rest;
mod speculation;
mod state;
mod step;
mod steps;
#[cfg(test)]
pub(crate) mod tests;
mod view;

pub use driver::{Engine, Record};
pub use event::{Command, Event, JobId, TaskRun};
pub use fair::Terms;
pub use rest::Backoff;
pub use speculation::Speculation;
pub use state::{Phase, State};
pub use step::{Step, Trigger};
