//! What runner and keeper say to each other: postcard behind a length of four bytes, little-endian.

use std::io::{self, Read, Write};
use std::time::Duration;

use mdts_core::engine::TaskRun;
use mdts_core::runner::Usage;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::launch::{Environment, Launch};

/// Both sides must be of one version.
pub(super) const VERSION: u32 = 4;
/// Longest time that one side waits for the other to answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest message in bytes.
const LONGEST: u32 = 64 << 20;

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ending {
    /// With this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// It could not be started.
    NotStarted(String),
    /// It was not started for want of something that the system may have again later.
    Lacking(String),
    /// It was not started, and nothing else can be.
    Refused(String),
    /// It was killed because it used more memory than it may, in bytes.
    Memory { used: u64, limit: u64 },
}

impl Ending {
    /// That of an attempt which could not be started: what the system lacks is no fault of the task.
    pub(crate) fn not_started(what: &str, error: &io::Error) -> Self {
        let reason = format!("{what}: {error}");
        match Errno::from_io_error(error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::Refused(reason),
            Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => Self::Lacking(reason),
            _ => Self::NotStarted(reason),
        }
    }
}

/// From the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Request {
    /// The first message.
    Hello { version: u32 },
    /// What processes have in their environment from now on.
    Environment(Environment),
    /// Start a process.
    Launch(Box<Launch>),
    /// Ask the group of this attempt to end. What does not is the runner's to end, and how it ends does not count.
    Release(TaskRun),
    /// Nothing is left of the group of an attempt that was released.
    Gone(TaskRun),
}

/// From the keeper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The answer to the first message. All that was asked for by earlier runners is done, and in the register.
    Hello { version: u32 },
    /// A process has ended, or never began; what it used, if the system tells.
    Ended(TaskRun, Ending, Option<Usage>),
    /// The answer to [`Request::Release`]: the number of the process; `None` if it has ended before, which counts.
    Released(TaskRun, Option<u32>),
}

pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    postcard::to_io(message, &mut bytes).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - 4).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("a message of more than 64 MiB"))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)
}

/// The next message; an error at the end.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST {
        return Err(io::Error::other("a message that is too long"));
    }
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}
