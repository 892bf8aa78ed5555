//! What a command gives back: text or JSON on standard output, and files that appear whole or not at all.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mdts_dag::whole;
use serde::Serialize;

use crate::error::{Error, Result};

/// Prints text on standard output.
///
/// # Errors
/// [`Error::Stdout`].
pub(crate) fn print(text: &str) -> Result<()> {
    print_as_is(&harmless(text))
}

/// Names come from files: what a terminal would obey is shown instead.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_harmful) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into()
}

/// Prints text that is data, not a message.
///
/// # Errors
/// [`Error::Stdout`].
pub(crate) fn print_as_is(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Stdout)
}

/// Prints text on standard error; if that is closed, nobody is left to tell.
pub(crate) fn complain(text: &str) {
    io::stderr().write_all(harmless(text).as_bytes()).ok();
}

/// Tells of an error in one line on standard error.
pub(crate) fn complain_of(error: &Error) {
    complain(&format!("error: {}\n", crate::error::one_line(&error.to_string())));
}

/// Prints one JSON object on a line of standard output.
///
/// # Errors
/// [`Error::Stdout`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    print_as_is(&json(value).map_err(|e| Error::Stdout(e.into()))?)
}

/// One JSON object on a line.
pub(crate) fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value).map(|text| text + "\n")
}

/// A file that is to be written at the end of the work.
///
/// Creating it shows before the work that it can be written; the file itself appears or changes in
/// [`OutputFile::write`] only, by renaming a temporary one. Until then there is no trace of it.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    /// Devices and pipes cannot be replaced: they are open.
    device: Option<File>,
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
                let device = OpenOptions::new().write(true).open(path).map_err(error)?;
                Ok(Self { path: path.into(), device: Some(device) })
            }
            _ => {
                whole::check(path).map_err(error)?;
                Ok(Self { path: path.into(), device: None })
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

    /// Writes all of it for now, to be replaced later. A device, which would get it twice, is left alone.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) fn update(&self, text: &str) -> Result<()> {
        if self.device.is_some() {
            return Ok(());
        }
        write_whole(&self.path, text).map_err(|source| Error::Output { path: self.path.clone(), source })
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// [`Error::Output`].
    pub(crate) fn write(self, text: &str) -> Result<()> {
        let written = match self.device {
            Some(mut device) => device.write_all(text.as_bytes()),
            None => write_whole(&self.path, text),
        };
        written.map_err(|source| Error::Output { path: self.path, source })
    }
}

fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    whole::write(path, |file| file.write_all(text.as_bytes()))
}
