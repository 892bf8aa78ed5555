//! The two adapters that give every policy the other role.

mod planned;
mod simulated;

pub use planned::Planned;
pub use simulated::Simulated;
