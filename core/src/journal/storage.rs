//! Where the bytes of a journal lie.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Returns when all that was added survives the loss of power.
pub type Syncing = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

/// An append-only file, or a double of one.
pub trait Storage: Debug + Send {
    /// Adds all bytes at the end. When it returns, they are out of this process: its death loses none of them. After
    /// an error some of them may be there.
    ///
    /// # Errors
    /// The operating system's.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Returns when all that was added survives the loss of power.
    ///
    /// # Errors
    /// The operating system's.
    fn sync(&mut self) -> io::Result<()>;

    /// What does the same from another thread, for all that was added until it is called and not replaced since.
    ///
    /// # Errors
    /// The operating system's; [`io::ErrorKind::Unsupported`] if only [`Storage::sync`] can do it.
    fn syncing(&self) -> io::Result<Syncing> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Cuts all that is behind the first `length` bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Puts what `write` writes in the place of all bytes: after a crash either the old or the new ones are there, whole.
    ///
    /// # Errors
    /// The operating system's, and that of `write`; the old bytes then remain.
    fn replace(&mut self, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()>;

    /// All bytes from the beginning.
    ///
    /// # Errors
    /// The operating system's.
    fn read(&self) -> io::Result<Box<dyn Read + Send>>;
}
