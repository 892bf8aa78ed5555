//! Files that appear whole or not at all: written under another name in the same folder, then renamed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file through `write`, on disk before it gets its name, with the permissions of the one that was there. A link
/// stays a link: what it leads to is replaced. After an error there is no trace of it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("greeting");
/// use std::io::Write;
/// mdts_dag::whole::write(&path, |file| file.write_all(b"hello\n"))?;
/// assert_eq!(std::fs::read(&path)?, b"hello\n");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// Those of `write`, and the operating system's.
pub fn write<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let (temporary, mut file) = create_beside(&path)?;
    let written = write(&mut file).and_then(|()| {
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        file.sync_all()?;
        Ok(fs::rename(&temporary, &path)?)
    });
    if written.is_err() {
        fs::remove_file(&temporary).ok(); // the first error is the one to report
    }
    written
}

/// Shows that a file can be written at `path` later, and leaves no trace.
///
/// # Errors
/// The operating system's.
pub fn check(path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let (temporary, _) = create_beside(&path)?;
    fs::remove_file(temporary)
}

/// Creates a hidden file that does not exist yet in the folder of `path`.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    const TRIES: u32 = 100;
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    }
    let mut number = 0;
    loop {
        let temporary = path.with_file_name(format!(".mdts-{}-{number}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < TRIES => number += 1,
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn files_are_whole_or_as_they_were() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        fs::write(&path, "old")?;
        std::os::unix::fs::symlink(&path, &link)?;
        let failed = write(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path)?, b"old");
        write(&link, |file| file.write_all(b"new"))?;
        assert_eq!(fs::read(&path)?, b"new");
        assert!(fs::symlink_metadata(&link)?.is_symlink());
        check(&folder.path().join("b"))?;
        assert_eq!(fs::read_dir(folder.path())?.count(), 2, "nothing else is left");
        assert!(check(&folder.path().join("none/b")).is_err());
        Ok(())
    }
}
