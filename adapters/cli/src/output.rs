//! What a command gives back: text or JSON on standard output, and files that appear whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};

/// Prints text on standard output.
///
/// # Errors
/// [`Error::Stdout`].
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Stdout)
}

/// Prints text on standard error; if that is closed, nobody is left to tell.
pub(crate) fn complain(text: &str) {
    io::stderr().write_all(text.as_bytes()).ok();
}

/// Prints one JSON object on a line of standard output.
///
/// # Errors
/// [`Error::Stdout`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print(&json(value).map_err(|e| Error::Stdout(e.into()))?)
}

/// One JSON object on a line.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|text| text + "\n")
}

/// A file that is to be written at the end of the work.
///
/// Creating it shows before the work that it can be written; the file itself changes in [`OutputFile::write`] only,
/// by renaming a temporary one. Dropping it unwritten leaves no trace.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
    /// Absent for devices and pipes, which cannot be replaced.
    temporary: Option<PathBuf>,
}

impl OutputFile {
    /// Begins a file.
    ///
    /// # Errors
    /// [`Error::Output`] if it will not be possible to write it.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let error = |source| Error::Output { path: path.into(), source };
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => Err(error(io::ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => {
                let file = OpenOptions::new().write(true).open(path).map_err(error)?;
                Ok(Self { path: path.into(), file, temporary: None })
            }
            _ => {
                let (temporary, file) = create_beside(path).map_err(error)?;
                Ok(Self { path: path.into(), file, temporary: Some(temporary) })
            }
        }
    }

    /// Begins a file if there is a path.
    ///
    /// # Errors
    /// As for [`OutputFile::create`].
    pub(crate) fn create_if(path: Option<&Path>) -> Result<Option<Self>> {
        path.map(Self::create).transpose()
    }

    /// Where it will be.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) fn write(mut self, text: &str) -> Result<()> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.path),
            None => Ok(()),
        });
        written.map_err(|source| Error::Output { path: self.path.clone(), source })?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            fs::remove_file(temporary).ok(); // nothing more can be done about it
        }
    }
}

/// Creates a hidden file that does not exist yet in the folder of `path`.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    const TRIES: u32 = 100;
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file");
    let name = path.file_name().ok_or_else(invalid)?;
    let mut number = 0;
    loop {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < TRIES => number += 1,
            Err(e) => return Err(e),
        }
    }
}
