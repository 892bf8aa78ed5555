//! The files that hold the output of attempts.
//!
//! Creating a file is dear on a disk, and most attempts write nothing, at least not to both streams. So attempts write to
//! nameless files, as it were, `.output.PROCESS.NUMBER` in the folder of logs, which get their names when there is
//! something in them; what has stayed empty serves the next attempt, if nobody can write to it any more. That is told by a
//! lock which belongs to the file as it was opened for the attempt, and lasts as long as one of its processes has it so.

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

/// A file without a name of its own, open for the next attempt, and locked.
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
    /// Where the file is until it has its name.
    path: PathBuf,
    name: PathBuf,
    /// The file, once it has its name.
    named: Option<File>,
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
                self.free.push(Blank { file: to_out, path: out.path });
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
        let blank = match self.reuse() {
            Some(blank) => blank,
            None => self.make().map_err(|error| Ending::not_started(&name.display().to_string(), &error))?,
        };
        Ok((Stream { path: blank.path, name: name.to_owned(), named: None, cut: None }, blank.file))
    }

    /// A file that an earlier attempt has left empty, and that nobody has removed.
    fn reuse(&mut self) -> Option<Blank> {
        while let Some(blank) = self.free.pop() {
            if blank.path.exists() {
                return Some(blank);
            }
        }
        None
    }

    fn make(&mut self) -> io::Result<Blank> {
        loop {
            self.made += 1;
            let path = self.folder.join(format!("{PREFIX}{}.{}", std::process::id(), self.made));
            match File::options().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    file.try_lock().ok(); // without locks no file is used again
                    return Ok(Blank { file, path });
                }
                // Another executor of this process has it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // Somebody has removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(&self.folder)?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes back what an attempt has not used, if nobody else can write to it.
    pub(crate) fn put_back(&mut self, unused: Unused) {
        for blank in unused.0.into_iter().flatten() {
            if blank.path.parent() == Some(&self.folder) {
                self.free.push(blank);
            } else {
                fs::remove_file(&blank.path).ok(); // it is of no use to anybody
            }
        }
    }

    /// Removes the files that no attempt has.
    pub(crate) fn clear(&mut self) {
        for blank in self.free.drain(..) {
            fs::remove_file(&blank.path).ok(); // it is of no use to anybody
        }
    }
}

/// Nothing if somebody has removed the file.
fn there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
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

    /// The attempt has ended: what it has written stays under its name. Also gives what can serve the next one.
    ///
    /// # Errors
    /// The operating system's, about one of the files.
    pub(crate) fn close(self) -> (Result<(), String>, Unused) {
        let mut outcome = Ok(());
        let unused = self.streams.map(|mut stream| match stream.close(self.limit) {
            Ok(unused) => unused,
            Err(error) => {
                outcome = Err(stream.complaint(&error));
                None
            }
        });
        (outcome, Unused(unused))
    }
}

/// Files of an attempt that has ended which are as good as new.
#[derive(Debug)]
pub(crate) struct Unused([Option<Blank>; 2]);

impl Stream {
    fn look(&mut self, limit: Option<u64>) -> io::Result<()> {
        if self.named.is_none() && there(fs::metadata(&self.path))?.is_some_and(|about| about.len() > 0) {
            self.name()?;
        }
        if let (Some(limit), Some(file)) = (limit, &self.named) {
            self.cut = cut::bound(file, limit, self.cut)?;
        }
        Ok(())
    }

    /// Gives the file its name.
    fn name(&mut self) -> io::Result<()> {
        let file = File::options().read(true).write(true).open(&self.path)?;
        fs::rename(&self.path, &self.name)?;
        self.named = Some(file);
        Ok(())
    }

    fn close(&mut self, limit: Option<u64>) -> io::Result<Option<Blank>> {
        if self.named.is_none() {
            // As another opening of the file, which alone can have a lock if nobody has the one of the attempt any more.
            let Some(file) = there(open_for_task(&self.path))? else { return Ok(None) };
            if file.metadata()?.len() == 0 {
                let path = std::mem::take(&mut self.path);
                if file.try_lock().is_ok() {
                    return Ok(Some(Blank { file, path }));
                }
                fs::remove_file(&path)?; // whoever still writes to it is no task
                return Ok(None);
            }
        }
        self.look(limit)?;
        if let (Some(cut), Some(file)) = (self.cut.take(), &self.named) {
            cut::close(file, &self.name, cut)?;
        }
        Ok(None)
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
                paths.push(pool.make()?.path);
            }
        }
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 6);
        Ok(())
    }
}
