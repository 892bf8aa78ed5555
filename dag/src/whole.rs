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

/// Removes what processes that were killed while they wrote have left in the folder of `path`; those that still run keep
/// theirs. Where the system does not tell who runs, nothing is removed.
///
/// # Errors
/// The operating system's.
pub fn clear(path: &Path) -> io::Result<()> {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return Ok(());
    }
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let writer = entry.file_name().to_str().and_then(writer);
        if writer.is_some_and(|process| !processes.join(process.to_string()).exists()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The number of the process that writes a file of this name.
fn writer(temporary: &str) -> Option<u32> {
    temporary.strip_prefix(".mdts-")?.strip_suffix(".tmp")?.split_once('-')?.0.parse().ok()
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
    fn what_a_killed_process_left_is_removed() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        // No process has a number beyond 2^22.
        let own = format!(".mdts-{}-0.tmp", std::process::id());
        let names = [".mdts-4194999-0.tmp", &own, ".mdts-x-0.tmp", "w.st.state"];
        for name in names {
            fs::write(folder.path().join(name), "")?;
        }
        clear(&folder.path().join("w.st"))?;
        let knows_processes = Path::new("/proc/self").exists();
        let is_there = names.map(|name| folder.path().join(name).exists());
        assert_eq!(is_there, [!knows_processes, true, true, true]);
        Ok(())
    }

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
