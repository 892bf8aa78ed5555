//! MDTS: multi-task deep reinforcement learning, in which one shared network places all parallel child tasks of a job
//! at once, with one output branch per child task.
//!
//! [`paper`] is the method as published, in an environment of its own: a fixed number of child tasks and nodes.

pub mod paper;
