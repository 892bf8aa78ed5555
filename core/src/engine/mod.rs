//! engine
use crate::Instance;
/// step
#[derive(Debug)]
pub struct Step<'a> {
    /// x
    pub instance: &'a Instance,
}
