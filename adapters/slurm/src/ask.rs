//! One question to the sidecar, within a budget of time. The plugin inside slurmctld uses this file, too: no allocation of
//! weight, no thread, no signal, no panic.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};

/// Ends every message.
const END: &[u8] = b"\n\n";
/// Longer answers are none.
const LONGEST: usize = 64 << 10;

/// Sends a message, which ends in an empty line, and receives the answer without its empty line.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`] after `budget`; what the system says if nobody listens; [`io::ErrorKind::InvalidData`] for what is
/// no answer.
pub fn ask(path: &Path, message: &str, budget: Duration) -> io::Result<String> {
    let end = Instant::now() + budget;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // A listener with a full queue says so at once; it is not waited for.
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let mut rest = message.as_bytes();
    while !rest.is_empty() {
        match send(&socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(error) => wait_after(error, &socket, PollFlags::OUT, end)?,
        }
    }
    let mut answer = Vec::with_capacity(512);
    let mut piece = [0; 1024];
    loop {
        match recv(&socket, &mut piece, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, length)) => answer.extend_from_slice(piece.get(..length).unwrap_or_default()),
            Err(error) => {
                wait_after(error, &socket, PollFlags::IN, end)?;
                continue;
            }
        }
        if answer.ends_with(END) || answer == b"\n" {
            answer.truncate(answer.len().saturating_sub(END.len()));
            return String::from_utf8(answer).map_err(|_| io::ErrorKind::InvalidData.into());
        }
        if answer.len() > LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // Whoever sends byte by byte has no more time than others.
        if Instant::now() >= end {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Waits until the socket is ready, if it was only not ready.
fn wait_after(error: rustix::io::Errno, socket: &OwnedFd, flags: PollFlags, end: Instant) -> io::Result<()> {
    match error {
        rustix::io::Errno::INTR => return Ok(()),
        rustix::io::Errno::AGAIN => {}
        other => return Err(other.into()),
    }
    let left = end.saturating_duration_since(Instant::now());
    let time = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut [PollFd::from_borrowed_fd(socket.as_fd(), flags)], Some(&time)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
