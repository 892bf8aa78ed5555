//! List scheduling: one task after the other gets the best place left, and keeps it.
//!
//! - Ordered by rank, every task once: [`Heft`], [`Cpop`], [`Peft`], [`Lookahead`].
//! - Best pair of ready task and node, again and again: [`MinMin`], [`MaxMin`], [`Sufferage`], [`Dls`], [`Etf`].
//! - In topological order, each task on its own: [`Mct`], [`Olb`], [`Met`], [`FastestNode`].
//!
//! All of them leave started tasks as they are and avoid lost nodes. They draw nothing from the generator.

mod cpop;
mod dls;
mod etf;
mod fastest_node;
mod heft;
mod lookahead;
mod max_min;
mod mct;
mod met;
mod min_min;
mod olb;
mod peft;
mod pool;
pub(crate) mod rank;
mod ready;
mod sufferage;

pub use cpop::Cpop;
pub use dls::Dls;
pub use etf::Etf;
pub use fastest_node::FastestNode;
pub use heft::Heft;
pub use lookahead::Lookahead;
pub use max_min::MaxMin;
pub use mct::Mct;
pub use met::Met;
pub use min_min::MinMin;
pub use olb::Olb;
pub use peft::Peft;
pub use sufferage::Sufferage;
