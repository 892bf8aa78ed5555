//! Run times from earlier runs: features of tasks, models per type of task, and the choice among them.
//!
//! [`Predictor`] observes run times and predicts them with an uncertainty; [`Predictor::fill`] gives a job the run times
//! that it does not state, [`Predictor::learn_run`] learns from a run, [`leave_one_out`] measures how good it is.

mod error;
mod evaluate;
mod features;
mod history;
mod jobs;
mod linear;
mod model;
mod predictor;
mod scale;
mod stem;
mod tree;
mod types;

pub use error::{Error, Result};
pub use evaluate::{Score, Trial, leave_one_out, score, typical_score};
pub use features::{COLUMNS, Features};
pub use jobs::Filled;
pub use model::Method;
pub use predictor::{Prediction, Predictor, Source};
pub use stem::stem;
