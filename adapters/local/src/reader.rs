//! Reads the output of an attempt, also while it is written and its middle is being left out.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, SeekFrom, seek};

use crate::cut;

/// Reads a file of output from its beginning to what is there so far; more may come later.
///
/// What has been left out of it is passed over, and nothing comes twice when the parts that are left are put together.
#[derive(Debug)]
pub struct LogReader {
    file: File,
    /// What comes next.
    at: u64,
    /// Where the hole begins, if the file had one at the last look.
    hole: Option<u64>,
    /// Bytes before `at` that the file has lost since it was opened.
    lost: u64,
}

impl LogReader {
    /// Opens a file of output.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A pipe that somebody has put there is not waited for.
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
        Ok(Self { file, at: 0, hole: None, lost: 0 })
    }

    /// Finds the place again in a file that has become shorter.
    fn find_place(&mut self, length: u64, hole: Option<u64>) {
        let joined = self.hole.filter(|from| hole != Some(*from));
        if joined.is_none() && length >= self.at {
            return;
        }
        match joined.and_then(|from| Some((from, cut::left_out(&self.file, from)?))).or_else(|| {
            cut::ends_of_beginnings(length).find_map(|from| Some((from, cut::left_out(&self.file, from)?)))
        }) {
            Some((from, left_out)) if self.at > from => {
                self.at = self.at.saturating_sub(left_out - self.lost.min(left_out)).max(from);
                self.lost = left_out;
            }
            Some(_) => {}
            // The task has begun it anew.
            None => (self.at, self.lost) = (0, 0),
        }
    }

    /// Begin and end of what is left out in the midst of the file.
    fn find_hole(&self, length: u64) -> Option<(u64, u64)> {
        let mut at = 0;
        loop {
            let from = seek(&self.file, SeekFrom::Hole(at)).ok().filter(|from| *from < length)?;
            let to = seek(&self.file, SeekFrom::Data(from)).unwrap_or(length); // an error says that nothing follows
            if cut::left_out(&self.file, from).is_some() {
                return Some((from, to));
            }
            at = to; // the task itself has left it
        }
    }
}

impl Read for LogReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.file.metadata()?.len();
        let hole = self.find_hole(length);
        self.find_place(length, hole.map(|(from, _)| from));
        self.hole = hole.map(|(from, _)| from);
        let end = match hole {
            Some((from, _)) if self.at < from => from,
            Some((_, to)) => {
                self.at = self.at.max(to);
                length
            }
            None => length,
        };
        let most = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(into.len());
        let read = self.file.read_at(&mut into[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::cut::{SMALLEST, bound, close};

    #[test]
    fn all_that_is_kept_comes_once() -> io::Result<()> {
        // A disk, and memory, where the parts are joined in another file.
        for place in [std::env::temp_dir().as_path(), Path::new("/dev/shm")] {
            let folder = tempfile::tempdir_in(place)?;
            let path = folder.path().join("t.1.out");
            let mut task = File::options().append(true).create(true).open(&path)?;
            let file = File::options().read(true).write(true).open(&path)?;
            let (mut reader, mut cut, mut text) = (LogReader::open(&path)?, None, String::new());
            for first in (0..200_000).step_by(1000) {
                let lines: Vec<String> = (first..first + 1000).map(|line| format!("{line:09}\n")).collect();
                task.write_all(lines.concat().as_bytes())?;
                cut = bound(&file, SMALLEST, cut)?;
                if first % 7000 == 0 {
                    reader.read_to_string(&mut text)?;
                }
            }
            // What is opened late has beginning and end.
            let mut late = String::new();
            LogReader::open(&path)?.read_to_string(&mut late)?;
            assert!(
                late.starts_with("000000000\n") && late.ends_with("\n000199999\n") && !late.contains('\0')
            );
            assert!(late.len() as u64 <= SMALLEST && late.contains(" bytes of output are left out here]"));
            reader.read_to_string(&mut text)?;
            close(&file, &path, cut.ok_or_else(|| io::Error::other("nothing was cut"))?)?;
            reader.read_to_string(&mut text)?;
            // It was read so often that nothing was missed.
            let lines: Vec<usize> = text.lines().filter_map(|line| line.parse().ok()).collect();
            assert!(lines.windows(2).all(|pair| pair[0] < pair[1]), "something came twice");
            assert_eq!((lines.first(), lines.last()), (Some(&0), Some(&199_999)));
            assert!(!text.contains('\0'));
        }
        Ok(())
    }

    #[test]
    fn a_file_that_is_begun_anew_is_read_anew() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("t.1.out");
        std::fs::write(&path, "first and long")?;
        let (mut reader, mut text) = (LogReader::open(&path)?, String::new());
        reader.read_to_string(&mut text)?;
        std::fs::write(&path, ", second")?;
        reader.read_to_string(&mut text)?;
        assert_eq!(text, "first and long, second");
        Ok(())
    }
}
