//! The files that hold the output of attempts.
//!
//! Creating a file is dear on a disk, and most attempts write nothing, at least not to both streams. So attempts write to
//! nameless files, as it were, `.output.PROCESS.NUMBER` in the folder of logs, which get their names when there is
//! something in them; what has stayed empty serves the next attempt, if nobody can write to it any more. That is told by a
//! lock which the attempt's processes share as long as one of them has the file open.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::cut::{self, Cut};
use crate::keeper::Ending;
use crate::launch::Launch;

const PREFIX: &str = ".output.";

/// Empty files of one folder.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    folder: PathBuf,
    free: Vec<Blank>,
    made: u64,
}

/// A file without a name of its own.
#[derive(Debug)]
struct Blank {
    file: File,
    path: PathBuf,
}

/// The two streams of one attempt.
#[derive(Debug)]
pub(crate) struct Output {
    streams: [Stream; 2],
    limit: Option<u64>,
}

#[derive(Debug)]
struct Stream {
    blank: Blank,
    /// The name that it gets.
    name: PathBuf,
    is_named: bool,
    cut: Option<Cut>,
}

impl Pool {
    /// Files for the streams of an attempt, and the same for its process.
    ///
    /// # Errors
    /// How the attempt ends then; it names the file which cannot be made.
    pub(crate) fn take(&mut self, launch: &Launch) -> Result<(Output, [File; 2]), Ending> {
        let folder = launch.out.parent().unwrap_or(Path::new("."));
        if self.folder != folder {
            self.change_to(folder);
        }
        let (out, to_out) = self.stream(&launch.out)?;
        match self.stream(&launch.err) {
            Ok((err, to_err)) => {
                Ok((Output { streams: [out, err], limit: launch.needs.output }, [to_out, to_err]))
            }
            Err(error) => {
                self.free.push(out.blank);
                Err(error)
            }
        }
    }

    fn change_to(&mut self, folder: &Path) {
        self.clear();
        folder.clone_into(&mut self.folder);
        remove_strays(folder);
    }

    fn stream(&mut self, name: &Path) -> Result<(Stream, File), Ending> {
        let made = self.reuse().map_or_else(|| self.make(), Ok);
        let (blank, child) =
            made.map_err(|error| Ending::not_started(&name.display().to_string(), &error))?;
        Ok((Stream { blank, name: name.to_owned(), is_named: false, cut: None }, child))
    }

    /// A file that an earlier attempt has left empty.
    fn reuse(&mut self) -> Option<(Blank, File)> {
        while let Some(blank) = self.free.pop() {
            if let Ok(child) = open_for_task(&blank.path)
                && child.lock_shared().is_ok()
            {
                return Some((blank, child));
            }
        }
        None
    }

    fn make(&mut self) -> io::Result<(Blank, File)> {
        let (path, file) = loop {
            self.made += 1;
            let path = self.folder.join(format!("{PREFIX}{}.{}", std::process::id(), self.made));
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Ok(file) => break (path, file),
                // Another executor of this process has it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Somebody has removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(&self.folder)?,
                Err(error) => return Err(error),
            }
        };
        let child = open_for_task(&path)?;
        child.lock_shared().ok(); // without locks no file is used again
        Ok((Blank { file, path }, child))
    }

    /// Takes back what an attempt has not used.
    fn put_back(&mut self, blank: Blank) {
        let folder = blank.path.parent() == Some(&self.folder);
        if folder && blank.file.try_lock().is_ok() && blank.file.unlock().is_ok() {
            self.free.push(blank);
        } else {
            fs::remove_file(&blank.path).ok(); // it is of no use to anybody
        }
    }

    /// Removes the files that no attempt has.
    pub(crate) fn clear(&mut self) {
        for blank in self.free.drain(..) {
            fs::remove_file(&blank.path).ok(); // it is of no use to anybody
        }
    }
}

/// Appending, so that a task may open its `/dev/stdout` once more without the two writing over each other.
fn open_for_task(path: &Path) -> io::Result<File> {
    File::options().append(true).open(path)
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Removes files that processes which are gone have left.
fn remove_strays(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('.').next());
        // Processes of other machines and containers are in no list of this one: they are known by the locks of their tasks.
        let is_gone = |process| !Path::new("/proc").join(process).exists();
        let is_free = || open_for_task(&entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if process.is_some_and(is_gone) && is_free() {
            fs::remove_file(entry.path()).ok(); // it is of no use to anybody
        }
    }
}

impl Output {
    /// Gives files their names in which there is something, and keeps them from growing too large. Tells whether something
    /// was cut out.
    ///
    /// # Errors
    /// The operating system's, about one of the files.
    pub(crate) fn look(&mut self) -> Result<bool, String> {
        let mut has_cut = false;
        for stream in &mut self.streams {
            let before = stream.cut;
            stream.look(self.limit).map_err(|error| stream.complaint(&error))?;
            has_cut |= stream.cut != before;
        }
        Ok(has_cut)
    }

    /// The attempt has ended: what it has written stays under its name.
    ///
    /// # Errors
    /// The operating system's, about one of the files.
    pub(crate) fn close(self, pool: &mut Pool) -> Result<(), String> {
        let mut outcome = Ok(());
        for mut stream in self.streams {
            if let Err(error) = stream.close(self.limit) {
                outcome = Err(stream.complaint(&error));
            }
            if !stream.is_named {
                pool.put_back(stream.blank);
            }
        }
        outcome
    }
}

impl Stream {
    fn look(&mut self, limit: Option<u64>) -> io::Result<()> {
        if !self.is_named {
            if self.blank.file.metadata()?.len() == 0 {
                return Ok(());
            }
            fs::rename(&self.blank.path, &self.name)?;
            self.is_named = true;
        }
        if let Some(limit) = limit {
            self.cut = cut::bound(&self.blank.file, limit, self.cut)?;
        }
        Ok(())
    }

    fn close(&mut self, limit: Option<u64>) -> io::Result<()> {
        self.look(limit)?;
        self.cut.take().map_or(Ok(()), |cut| cut::close(&self.blank.file, &self.name, cut))
    }

    fn complaint(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.name.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pools_of_one_process_share_a_folder() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let mut pools = [Pool::default(), Pool::default()];
        let mut paths = Vec::new();
        for _ in 0..3 {
            for pool in &mut pools {
                folder.path().clone_into(&mut pool.folder);
                paths.push(pool.make()?.0.path);
            }
        }
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 6);
        Ok(())
    }
}
