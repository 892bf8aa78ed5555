//! The folder of a cache: contents of files by their hash, and records of successes by the key of what they depend on.
//!
//! ```text
//!   DIR/version          the version of this layout
//!   DIR/hashes           hashes of files that were read
//!   DIR/objects/ab/...   contents by hash
//!   DIR/records/ab/...   what a task wrote, by key
//!   DIR/tasks/ab/...     what a task depended on the last time, by its name and folder: tells why it runs again
//!   DIR/tmp/...          files in the making
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use blake3::Hash;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::hashes::{self, Hashes};
use super::tree::{self, Tree};
use crate::error::{Error, Result};

const VERSION: &str = "mdts cache 1\n";
/// What is in the making for longer belongs to a process that was killed.
const OLD: Duration = Duration::from_hours(24);

/// What a success left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// For people who look into the file.
    pub(super) task: String,
    /// The files written.
    pub(super) outputs: Vec<Written>,
}

/// A file that a task wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// As it is declared.
    pub(super) name: String,
    /// Of its contents; of a folder, of the [list](Tree) of them.
    pub(super) hash: String,
    /// Its permissions.
    pub(super) mode: u32,
    /// Whether it is a folder.
    #[serde(default)]
    pub(super) is_folder: bool,
}

/// The permissions of a file.
pub(super) fn mode(path: &Path) -> io::Result<u32> {
    const PERMISSIONS: u32 = 0o777;
    Ok(fs::metadata(path)?.permissions().mode() & PERMISSIONS)
}

/// The folder of a cache.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    pub(super) hashes: Hashes,
    serial: AtomicU64,
}

impl Store {
    /// Opens a folder, and makes it if it is not there and `create` says so.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is of another version or no cache, [`Error::Output`] or [`Error::Input`] if it cannot be
    /// used.
    pub(super) fn open(folder: &Path, create: bool) -> Result<Self> {
        let version = folder.join("version");
        match fs::read_to_string(&version) {
            Ok(text) if text == VERSION => {}
            Ok(text) => {
                return Err(Error::Usage(format!(
                    "{}: it is '{}', this mdts has '{}'; name another folder for --cache",
                    folder.display(),
                    text.trim().escape_debug(),
                    VERSION.trim()
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if folder.exists() && !is_free(folder) {
                    let folder = folder.display();
                    return Err(Error::Usage(format!(
                        "{folder}: it is no cache of mdts; name an empty or a new folder for --cache"
                    )));
                }
                if create {
                    let failed = |source| Error::Output { path: folder.to_owned(), source };
                    fs::create_dir_all(folder).map_err(failed)?;
                    let temporary = folder.join(format!("version.{}.tmp", std::process::id()));
                    fs::write(&temporary, VERSION).map_err(failed)?;
                    fs::rename(&temporary, &version).map_err(failed)?;
                }
            }
            Err(source) => return Err(Error::Input { path: version, source }),
        }
        let memory = folder.join("hashes");
        let hashes = Hashes::open(memory.clone()).map_err(|source| Error::Input { path: memory, source })?;
        let store = Self { folder: folder.to_owned(), hashes, serial: AtomicU64::new(0) };
        store.clean();
        Ok(store)
    }

    /// Removes what killed processes left in the making.
    fn clean(&self) {
        for entry in fs::read_dir(self.folder.join("tmp")).into_iter().flatten().flatten() {
            let age = entry.metadata().and_then(|file| file.modified()).ok().and_then(|t| t.elapsed().ok());
            if age.is_some_and(|age| age > OLD) {
                fs::remove_file(entry.path()).ok(); // another process may have done it
            }
        }
    }

    /// Keeps the contents of a file.
    pub(super) fn keep(&self, path: &Path, stop: &AtomicBool) -> io::Result<Hash> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("neither a file nor a folder")); // a pipe might never end
        }
        if let Some(known) = self.hashes.known(path)?.filter(|hash| self.has(hash)) {
            return Ok(known);
        }
        // The copy is hashed, since nobody else writes it.
        let temporary = self.temporary()?;
        let hash = fs::copy(path, &temporary)
            .and_then(|_| hashes::read(&mut File::open(&temporary)?, stop))
            .and_then(|hash| self.put(&temporary, &self.object(&hash)).map(|()| hash));
        if hash.is_err() {
            fs::remove_file(&temporary).ok(); // the first error is the one to tell
        }
        hash
    }

    /// Keeps a folder with all that is in it.
    pub(super) fn keep_folder(&self, path: &Path, stop: &AtomicBool) -> io::Result<Hash> {
        let list = Tree::read(path, &mut |file| self.keep(file, stop))?.to_bytes()?;
        let hash = blake3::hash(&list);
        if !self.has(&hash) {
            let temporary = self.temporary()?;
            fs::write(&temporary, &list).and_then(|()| self.put(&temporary, &self.object(&hash)))?;
        }
        Ok(hash)
    }

    /// What is in a folder that is kept; `None` if it is not, or damaged.
    pub(super) fn tree(&self, hash: &Hash) -> Option<Tree> {
        read_tree(&self.object(hash), hash)
    }

    /// Puts a folder that is kept in the place of what is there; false if not all of it is kept.
    pub(super) fn restore_folder(
        &self,
        hash: &Hash,
        mode: u32,
        to: &Path,
        stop: &AtomicBool,
    ) -> io::Result<bool> {
        let Some(tree) = self.tree(hash) else { return Ok(false) };
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = self.beside(to, "new");
        fs::create_dir(&beside)?;
        let built = tree.build(&beside, &mut |hash, mode, at| self.restore(hash, mode, at, stop));
        let brought = match built {
            Ok(true) => fs::set_permissions(&beside, fs::Permissions::from_mode(mode))
                .and_then(|()| tree::exchange(&beside, to))
                .map(|()| true),
            other => other,
        };
        // What was there before, or what could not be finished.
        tree::remove(&beside)
            .or_else(|error| if matches!(brought, Ok(true)) { Err(error) } else { Ok(()) })?;
        brought
    }

    /// Whether the contents of this hash are kept.
    pub(super) fn has(&self, hash: &Hash) -> bool {
        self.object(hash).is_file()
    }

    /// Writes the contents of this hash to a file with these permissions; false if they are not kept, or damaged, in which
    /// case they are removed.
    pub(super) fn restore(&self, hash: &Hash, mode: u32, to: &Path, stop: &AtomicBool) -> io::Result<bool> {
        let object = self.object(hash);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = self.beside(to, "tmp");
        let brought = match fs::copy(&object, &beside) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            copied => copied.and_then(|_| hashes::read(&mut File::open(&beside)?, stop)).and_then(|found| {
                if found != *hash {
                    return Ok(false);
                }
                fs::set_permissions(&beside, fs::Permissions::from_mode(mode))?;
                fs::rename(&beside, to).map(|()| true)
            }),
        };
        if !matches!(brought, Ok(true)) {
            fs::remove_file(&beside).ok(); // the first error is the one to tell
        }
        if matches!(brought, Ok(false)) {
            fs::remove_file(&object).ok(); // damaged
        }
        brought
    }

    /// What a task wrote when it depended on what this key stands for.
    pub(super) fn record(&self, key: &Hash) -> Option<Record> {
        read_json(&self.by_hash("records", key))
    }

    /// Writes such a record.
    pub(super) fn write_record(&self, key: &Hash, record: &Record) -> io::Result<()> {
        self.write_json(&self.by_hash("records", key), record)
    }

    /// What a task depended on the last time.
    pub(super) fn last<T: DeserializeOwned>(&self, task: &Hash) -> Option<T> {
        read_json(&self.by_hash("tasks", task))
    }

    /// Writes what a task depended on.
    pub(super) fn write_last(&self, task: &Hash, parts: &impl Serialize) -> io::Result<()> {
        self.write_json(&self.by_hash("tasks", task), parts)
    }

    fn object(&self, hash: &Hash) -> PathBuf {
        self.by_hash("objects", hash)
    }

    fn by_hash(&self, kind: &str, hash: &Hash) -> PathBuf {
        let hex = hash.to_hex();
        self.folder.join(kind).join(&hex[..2]).join(&hex[2..])
    }

    /// A name for what is to become this file.
    fn beside(&self, to: &Path, end: &str) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        to.with_file_name(format!(".mdts-{}-{serial}.{end}", std::process::id()))
    }

    fn temporary(&self) -> io::Result<PathBuf> {
        let folder = self.folder.join("tmp");
        fs::create_dir_all(&folder)?;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        Ok(folder.join(format!("{}-{serial}", std::process::id())))
    }

    fn put(&self, temporary: &Path, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        fs::rename(temporary, path)
    }

    fn write_json(&self, path: &Path, value: &impl Serialize) -> io::Result<()> {
        let temporary = self.temporary()?;
        let written =
            fs::write(&temporary, serde_json::to_vec(value)?).and_then(|()| self.put(&temporary, path));
        if written.is_err() {
            fs::remove_file(&temporary).ok(); // the first error is the one to tell
        }
        written
    }
}

/// The list of a folder in the file of an object; `None` if it is not there, or damaged.
pub(super) fn read_tree(object: &Path, hash: &Hash) -> Option<Tree> {
    let bytes = fs::read(object).ok().filter(|bytes| blake3::hash(bytes) == *hash)?;
    Tree::from_bytes(&bytes)
}

/// Whether nothing is in a folder but what another process has begun that makes a cache of it.
fn is_free(folder: &Path) -> bool {
    let is_ours = |name: &str| name.starts_with("version");
    let entries = fs::read_dir(folder);
    entries
        .is_ok_and(|entries| entries.flatten().all(|entry| entry.file_name().to_str().is_some_and(is_ours)))
}

/// What cannot be read is as if it were not there: the task runs, and it is written again.
fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
