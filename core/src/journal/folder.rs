//! A journal as a folder: the file `events`, and a lock that lets one process at a time write it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::log::unreadable;
use super::sync::Syncer;
use super::{Durability, Journal, Manifest, Reader, Storage, Syncing};
use crate::{Error, Result};

const EVENTS: &str = "events";
const LOCK: &str = "lock";

/// A journal's folder, locked for this process as long as it or its journal lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Locks a folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Journal`] if another process has it or the folder cannot be written to.
    pub fn lock(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let failed = |error: io::Error| {
            let message = format!("{error}; choose a folder that you may write to");
            Error::Journal { place: path.display().to_string(), message }
        };
        fs::create_dir_all(&path).map_err(failed)?;
        let name = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name)
            .map_err(failed)?;
        match try_lock(&lock) {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                lock.read_to_string(&mut holder).map_err(failed)?;
                let message = format!(
                    "it is in use by process {}; wait until that ends, stop it, or name another folder",
                    holder.trim()
                );
                return Err(Error::Journal { place: path.display().to_string(), message });
            }
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it holds a journal.
    pub fn has_journal(&self) -> bool {
        events_file(&self.path).exists()
    }

    /// Begins a journal.
    ///
    /// # Errors
    /// [`Error::Journal`] if there is one already, [`Error::NotRecorded`] if it cannot be written.
    pub fn begin(self, manifest: Manifest, durability: Durability) -> Result<Journal> {
        let place = self.path.join(EVENTS).display().to_string();
        if self.has_journal() {
            let message = "it is the journal of an earlier run; go on with that run with --resume, or name another folder";
            return Err(Error::Journal { place, message: message.to_owned() });
        }
        let storage = FileStorage::new(self, durability)
            .map_err(|source| Error::NotRecorded { place: place.clone(), source })?;
        Journal::create(Box::new(storage), place, manifest, durability)
    }

    /// Opens the journal to go on with its run.
    ///
    /// # Errors
    /// [`Error::Journal`] if there is none, or it is damaged or of a newer version.
    pub fn resume(self, durability: Durability) -> Result<Journal> {
        if !self.has_journal() {
            return Err(nothing_here(&self.path));
        }
        let place = self.path.join(EVENTS).display().to_string();
        let storage = FileStorage::new(self, durability).map_err(|error| unreadable(&place, &error))?;
        Journal::open(Box::new(storage), place, durability)
    }
}

/// Tries for a moment: whoever asks for the [`holder`] has the lock for an instant.
fn try_lock(lock: &File) -> Result<(), TryLockError> {
    const TRIES: u32 = 10;
    const PAUSE: Duration = Duration::from_millis(10);
    for _ in 1..TRIES {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            tried => return tried,
        }
    }
    lock.try_lock()
}

/// Number of the process that has the folder, if one has.
///
/// # Errors
/// [`Error::Journal`] if that cannot be found out.
pub fn holder(path: &Path) -> Result<Option<u32>> {
    let failed = |error: io::Error| unreadable(&path.join(LOCK).display().to_string(), &error);
    let mut lock = match File::open(path.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    match lock.try_lock_shared() {
        Ok(()) => return Ok(None),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let mut number = String::new();
    lock.read_to_string(&mut number).map_err(failed)?;
    Ok(number.trim().parse().ok())
}

/// The file of a folder's journal.
pub fn events_file(folder: &Path) -> PathBuf {
    folder.join(EVENTS)
}

fn nothing_here(path: &Path) -> Error {
    let message = "there is no journal here; name the folder of a run, or begin one without --resume";
    Error::Journal { place: path.display().to_string(), message: message.to_owned() }
}

/// Reads the journal in a folder, also while a process writes it.
///
/// # Errors
/// [`Error::Journal`] if there is none, or it is damaged or of a newer version.
pub fn read_folder(path: &Path) -> Result<Reader> {
    let events = path.join(EVENTS);
    let place = events.display().to_string();
    match File::open(&events) {
        Ok(file) => Reader::new(Box::new(file), place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(nothing_here(path)),
        Err(error) => Err(unreadable(&place, &error)),
    }
}

/// The file of a locked folder.
#[derive(Debug)]
struct FileStorage {
    folder: Folder,
    /// None until it is there.
    file: Option<Arc<File>>,
    /// None if every entry is synced at once.
    syncer: Option<Syncer>,
    durability: Durability,
    /// The folder has a new name that may not be on disk.
    is_name_unsynced: Arc<AtomicBool>,
}

impl FileStorage {
    fn new(folder: Folder, durability: Durability) -> io::Result<Self> {
        let mut storage =
            Self { folder, file: None, syncer: None, durability, is_name_unsynced: Arc::default() };
        if storage.folder.has_journal() {
            let file = OpenOptions::new().append(true).open(storage.path())?;
            storage.hold(Arc::new(file))?;
        }
        Ok(storage)
    }

    fn path(&self) -> PathBuf {
        self.folder.path.join(EVENTS)
    }

    fn hold(&mut self, file: Arc<File>) -> io::Result<()> {
        match &self.syncer {
            Some(syncer) => syncer.follow(file.clone()),
            None if self.durability == Durability::Process => self.syncer = Some(Syncer::new(file.clone())?),
            None => {}
        }
        self.file = Some(file);
        Ok(())
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_deref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Storage for FileStorage {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)?;
        self.syncer.as_ref().map_or(Ok(()), Syncer::touch)
    }

    fn sync(&mut self) -> io::Result<()> {
        sync_name(&self.folder.path, &self.is_name_unsynced)?;
        self.file()?.sync_data()
    }

    fn syncing(&self) -> io::Result<Syncing> {
        let file = self.file.clone().ok_or(io::ErrorKind::NotFound)?;
        let (folder, is_unsynced) = (self.folder.path.clone(), self.is_name_unsynced.clone());
        Ok(Arc::new(move || {
            sync_name(&folder, &is_unsynced)?;
            file.sync_data()
        }))
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file()?.set_len(length)
    }

    fn replace(&mut self, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let temporary = self.folder.path.join(".events.tmp");
        let mut write_new = || {
            let mut file = OpenOptions::new().append(true).create(true).open(&temporary)?;
            file.set_len(0)?;
            file.rewind()?;
            write(&mut file)?;
            file.sync_all()?;
            fs::rename(&temporary, self.path())?;
            Ok(file)
        };
        match write_new() {
            Ok(file) => {
                // The new name is on disk when the folder is; what was under it before is gone in any case.
                self.is_name_unsynced.store(true, Ordering::Release);
                sync_name(&self.folder.path, &self.is_name_unsynced).ok(); // it is tried again with the next entries
                self.hold(Arc::new(file))
            }
            Err(error) => {
                fs::remove_file(&temporary).ok(); // the first error is the one to tell
                Err(error)
            }
        }
    }

    fn read(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(self.path())?))
    }
}

/// Makes a folder's new name for the journal last, if that is not done.
fn sync_name(folder: &Path, is_unsynced: &AtomicBool) -> io::Result<()> {
    if is_unsynced.load(Ordering::Acquire) {
        File::open(folder)?.sync_all()?;
        is_unsynced.store(false, Ordering::Release);
    }
    Ok(())
}
