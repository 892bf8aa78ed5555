//! What runner and keeper say to each other: postcard behind a length of four bytes, little-endian.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
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
    /// That of a process that was started.
    pub(crate) fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exit(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }

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

/// The end of an attempt, and what it used, if that is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ended {
    pub(crate) ending: Ending,
    pub(crate) usage: Option<Usage>,
}

/// A message with its length before it.
pub(super) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER];
    postcard::to_io(message, &mut bytes).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len() - HEADER).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("a message of more than 64 MiB"))?;
    bytes[..HEADER].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(message)?)
}

/// The next message; an error at the end.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<T> {
    let mut header = [0; HEADER];
    from.read_exact(&mut header)?;
    let mut bytes = vec![0; length(header)?];
    from.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

const HEADER: usize = 4;

fn length(header: [u8; HEADER]) -> io::Result<usize> {
    let length = u32::from_le_bytes(header);
    if length > LONGEST {
        return Err(io::Error::other("a message that is too long"));
    }
    Ok(length as usize)
}

/// Messages that come in pieces.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// What is read and no whole message yet, behind `used` bytes that were.
    bytes: Vec<u8>,
    used: usize,
}

impl Incoming {
    /// Reads what is there, once. Tells whether there may be more; an error at the end, too.
    pub(super) fn fill(&mut self, mut from: impl Read) -> io::Result<bool> {
        let mut room = [0; 1 << 14];
        let read = from.read(&mut room)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes.drain(..self.used);
        self.used = 0;
        self.bytes.extend_from_slice(&room[..read]);
        Ok(read == room.len())
    }

    /// The next whole message.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let rest = &self.bytes[self.used..];
        let Some((header, rest)) = rest.split_first_chunk() else { return Ok(None) };
        let length = length(*header)?;
        let Some(message) = rest.get(..length) else { return Ok(None) };
        self.used += HEADER + length;
        postcard::from_bytes(message).map(Some).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_put_together_from_pieces() -> io::Result<()> {
        let messages = [Reply::Hello { version: 7 }, Reply::Hello { version: 8 }];
        let bytes = [encode(&messages[0])?, encode(&messages[1])?].concat();
        for piece in 1..=bytes.len() {
            let (mut incoming, mut heard) = (Incoming::default(), Vec::new());
            for piece in bytes.chunks(piece) {
                incoming.fill(piece)?;
                while let Some(message) = incoming.next::<Reply>()? {
                    heard.push(message);
                }
            }
            assert_eq!(heard, messages, "pieces of {piece} bytes");
        }
        let mut incoming = Incoming::default();
        incoming.fill(&u32::MAX.to_le_bytes()[..])?;
        assert!(incoming.next::<Reply>().is_err());
        assert!(incoming.fill(&[][..]).is_err());
        Ok(())
    }
}
