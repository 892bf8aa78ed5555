//! Bounds a file that a task is writing to: its beginning and its end stay, the middle goes.
//!
//! The writer is not slowed and needs to know nothing: the middle is punched out of the file (`fallocate`), whose size
//! goes on growing while its blocks do not. When the writer has ended, the two parts are put together.
//!
//! ```text
//!   beginning | mark | hole ............ | end      while it is written
//!   beginning | mark | end                          afterwards
//! ```
//! Where files have no holes, all behind the mark is cut off; what is written next follows there, as tasks append.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Holes begin and end at multiples of this, which suits the blocks of all file systems.
const BLOCK: u64 = 64 << 10;
/// The smallest limit that leaves room for both parts.
pub(crate) const SMALLEST: u64 = 4 * BLOCK;
/// Length of the mark in bytes.
const MARK: u64 = 64;

/// What has been cut out of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Where the hole begins and ends; there is none if that is the same.
    from: u64,
    to: u64,
    /// Bytes that are in the file no more.
    left_out: u64,
}

/// Cuts the middle out of `file` if more than `limit` bytes of it are on disk; tells what is cut out now. A quarter of
/// the limit stays at the beginning, half of it at the end.
///
/// # Errors
/// The operating system's.
pub(crate) fn bound(file: &File, limit: u64, cut: Option<Cut>) -> io::Result<Option<Cut>> {
    bound_by(punch, file, limit, cut)
}

fn punch(file: &File, from: u64, length: u64) -> rustix::io::Result<()> {
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, from, length)
}

fn bound_by(
    punch: impl FnOnce(&File, u64, u64) -> rustix::io::Result<()>,
    file: &File,
    limit: u64,
    cut: Option<Cut>,
) -> io::Result<Option<Cut>> {
    let about = file.metadata()?;
    let there = cut.map_or(about.len(), |cut| about.len() - (cut.to - cut.from).min(about.len()));
    // Where holes are not really holes, the file's own size counts.
    if there.min(about.blocks() * 512) <= limit {
        return Ok(cut);
    }
    let whole = |bytes: u64| bytes / BLOCK * BLOCK;
    let from = whole(limit / 4).max(BLOCK);
    let to = whole(about.len() - limit / 2).max(from);
    let cut = match punch(file, from, to - from) {
        Ok(()) => Cut { from, to, left_out: to - from },
        Err(Errno::OPNOTSUPP) => {
            file.set_len(from)?;
            let before = cut.map_or(0, |cut| cut.left_out);
            Cut { from, to: from, left_out: before + about.len() - from }
        }
        Err(error) => return Err(error.into()),
    };
    write_mark(file, from, cut.left_out)?;
    Ok(Some(cut))
}

fn write_mark(file: &File, at: u64, left_out: u64) -> io::Result<()> {
    let mark = format!("\n[mdts: {left_out:>20} bytes of output are left out here]");
    let width = MARK as usize - 1;
    file.write_all_at(format!("{mark:<width$}\n").as_bytes(), at - MARK)
}

/// How many bytes are left out at `at` by the mark before it, if there is one.
pub(crate) fn left_out(file: &File, at: u64) -> Option<u64> {
    let mut mark = [0; MARK as usize];
    file.read_exact_at(&mut mark, at.checked_sub(MARK)?).ok()?;
    let mut words = std::str::from_utf8(&mark).ok()?.split_ascii_whitespace();
    if words.next() == Some("[mdts:") { words.next()?.parse().ok() } else { None }
}

/// All places in a file of this length before which a mark may be.
pub(crate) fn ends_of_beginnings(length: u64) -> impl Iterator<Item = u64> {
    (1..=length / BLOCK).map(|block| block * BLOCK)
}

/// Puts the two parts of a file together, now that nobody writes to it any more.
///
/// # Errors
/// The operating system's.
pub(crate) fn close(file: &File, path: &Path, cut: Cut) -> io::Result<()> {
    let length = file.metadata()?.len();
    if cut.from == cut.to {
        return Ok(());
    }
    if length <= cut.to {
        return file.set_len(cut.from.min(length)); // somebody has made it shorter
    }
    if fallocate(file, FallocateFlags::COLLAPSE_RANGE, cut.from, cut.to - cut.from).is_ok() {
        return Ok(());
    }
    let joined = path.with_added_extension("joined");
    let join = || {
        let into = File::create(&joined)?;
        copy(file, 0, cut.from, &into, 0)?;
        copy(file, cut.to, length, &into, cut.from)?;
        std::fs::rename(&joined, path)
    };
    join().inspect_err(|_| drop(std::fs::remove_file(&joined))) // the first error is the one to tell
}

fn copy(file: &File, mut from: u64, to: u64, into: &File, mut at: u64) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK as usize];
    while from < to {
        let piece = &mut buffer[..(to - from).min(BLOCK) as usize];
        file.read_exact_at(piece, from)?;
        into.write_all_at(piece, at)?;
        from += piece.len() as u64;
        at += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn beginning_and_end_are_kept() -> io::Result<()> {
        // A disk, and memory, where a range of a file cannot collapse.
        for place in [std::env::temp_dir().as_path(), Path::new("/dev/shm")] {
            let folder = tempfile::tempdir_in(place)?;
            let path = folder.path().join("t.1.out");
            let mut file = File::options().read(true).write(true).create_new(true).open(&path)?;
            let (limit, mut cut, mut largest) = (SMALLEST, None, 0);
            for first in (0..400_000).step_by(1000) {
                let lines: Vec<String> = (first..first + 1000).map(|line| format!("{line:09}\n")).collect();
                file.write_all(lines.concat().as_bytes())?;
                cut = bound(&file, limit, cut)?;
                largest = largest.max(file.metadata()?.blocks() * 512);
            }
            assert!(largest <= limit + 2 * BLOCK, "{largest} bytes are on disk");
            assert_eq!(file.metadata()?.len(), 4_000_000, "the writer's place is as it was");
            let cut = cut.ok_or_else(|| io::Error::other("nothing was cut"))?;
            close(&file, &path, cut)?;
            let text = std::fs::read_to_string(&path)?;
            assert!(text.len() as u64 <= limit, "{}", text.len());
            assert!(text.starts_with("000000000\n000000001\n") && text.ends_with("\n000399999\n"));
            let left_out = 4_000_000 - text.len();
            let mark = format!("\n[mdts: {left_out:>20} bytes of output are left out here]");
            assert!(text.contains(&mark), "{mark}");
            assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
        }
        Ok(())
    }

    #[test]
    fn without_holes_what_is_written_next_follows_the_mark() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("t.1.out");
        std::fs::write(&path, "first\n")?;
        let mut task = File::options().append(true).open(&path)?;
        let file = File::options().read(true).write(true).open(&path)?;
        let (mut cut, mut written) = (None, 6);
        for _ in 0..40 {
            let line = vec![b'x'; 50_000];
            task.write_all(&line)?;
            written += line.len();
            cut = bound_by(|_, _, _| Err(Errno::OPNOTSUPP), &file, SMALLEST, cut)?;
        }
        task.write_all(b"\nlast\n")?;
        close(&file, &path, cut.ok_or_else(|| io::Error::other("nothing was cut"))?)?;
        let text = std::fs::read_to_string(&path)?;
        assert!(text.len() as u64 <= SMALLEST && text.starts_with("first\n") && text.ends_with("\nlast\n"));
        assert!(!text.contains('\0'));
        let left_out = written + "\nlast\n".len() - text.len();
        assert!(text.contains(&format!("\n[mdts: {left_out:>20} bytes of output")), "{left_out}");
        Ok(())
    }

    #[test]
    fn short_files_stay_as_they_are() -> io::Result<()> {
        let mut file = tempfile::tempfile()?;
        file.write_all(&vec![b'x'; SMALLEST as usize])?;
        assert_eq!(bound(&file, SMALLEST, None)?, None);
        Ok(())
    }
}
