//! `mdts train`: learns weights for the policies mdts and mdts-raw.
//!
//! [`command`] holds the arguments, [`files`] what stays on disk, [`session`] the rounds, [`show`] how they are told.

mod command;
mod files;
mod session;
mod show;

pub(crate) use command::Train;
