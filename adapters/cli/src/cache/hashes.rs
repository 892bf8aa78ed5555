//! Hashes of files, remembered so that a big file is read once as long as it does not change.
//!
//! A file is known by device, inode, size and the times of its last change of content and of anything about it. The
//! memory is a file of lines, `DEVICE INODE SIZE MODIFIED CHANGED HASH`, times in nanoseconds; lines that make no sense
//! are skipped.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use blake3::{Hash, Hasher};

/// A memory of more bytes is begun anew.
const LONGEST: u64 = 64 << 20;
/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// The clock of file systems ticks at least this often: a file that changes later gets another time.
const TICK_NS: i128 = 20_000_000;

/// Tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: file.dev(),
            inode: file.ino(),
            size: file.len(),
            modified_ns: ns(file.mtime(), file.mtime_nsec()),
            changed_ns: ns(file.ctime(), file.ctime_nsec()),
        }
    }

    /// Whether every later change gives the file another identity.
    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let now = i128::try_from(now).unwrap_or(i128::MAX);
        now - self.modified_ns.max(self.changed_ns) > TICK_NS
    }
}

/// Hashes of contents.
#[derive(Debug)]
pub(super) struct Hashes {
    path: PathBuf,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    known: HashMap<Identity, Hash>,
    /// None until something is to be remembered.
    file: Option<File>,
}

impl Hashes {
    /// With what the file at `path` remembers, if there is one.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let mut known = HashMap::new();
        match fs::metadata(&path) {
            Ok(file) if file.len() > LONGEST => fs::remove_file(&path)?,
            Ok(_) => {
                let bytes = fs::read(&path)?;
                known.extend(String::from_utf8_lossy(&bytes).lines().filter_map(parse));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self { path, inside: Mutex::new(Inside { known, file: None }) })
    }

    /// Hash of a file, or of all that is in a folder with the names. Ends with an error when `stop` is raised.
    pub(super) fn of(&self, path: &Path, stop: &AtomicBool) -> io::Result<Hash> {
        let kind = fs::metadata(path)?;
        if kind.is_dir() {
            return self.of_folder(path, stop);
        }
        if !kind.is_file() {
            return Err(io::Error::other("neither a file nor a folder")); // a pipe might never end
        }
        if let Some(known) = self.known(path)? {
            return Ok(known);
        }
        let mut file = File::open(path)?;
        let before = Identity::of(&file.metadata()?);
        let hash = read(&mut file, stop)?;
        if before == Identity::of(&file.metadata()?) {
            self.remember(before, hash);
        }
        Ok(hash)
    }

    /// The hash of a file as it is now, if it is remembered.
    pub(super) fn known(&self, path: &Path) -> io::Result<Option<Hash>> {
        Ok(self.lock().known.get(&Identity::of(&fs::metadata(path)?)).copied())
    }

    fn of_folder(&self, path: &Path, stop: &AtomicBool) -> io::Result<Hash> {
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut hasher = Hasher::new();
        for entry in entries {
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let (tag, hash) = if kind.is_symlink() {
                (b'l', blake3::hash(fs::read_link(entry.path())?.as_os_str().as_bytes()))
            } else {
                (if kind.is_dir() { b'd' } else { b'f' }, self.of(&entry.path(), stop)?)
            };
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes()).update(&[tag]).update(hash.as_bytes());
        }
        Ok(hasher.finalize())
    }

    /// The next time it need not be read. What cannot be remembered is read again, which costs time only.
    fn remember(&self, identity: Identity, hash: Hash) {
        if !identity.is_settled() {
            return;
        }
        let mut inside = self.lock();
        inside.known.insert(identity, hash);
        if inside.file.is_none() {
            inside.file = OpenOptions::new().append(true).create(true).open(&self.path).ok();
        }
        if let Some(file) = &mut inside.file {
            file.write_all(line(&identity, &hash).as_bytes()).ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hash of all that is left to read.
pub(super) fn read(from: &mut impl Read, stop: &AtomicBool) -> io::Result<Hash> {
    let (mut hasher, mut chunk) = (Hasher::new(), vec![0; CHUNK]);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        match from.read(&mut chunk) {
            Ok(0) => return Ok(hasher.finalize()),
            Ok(n) => drop(hasher.update(&chunk[..n])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn line(identity: &Identity, hash: &Hash) -> String {
    let Identity { device, inode, size, modified_ns, changed_ns } = identity;
    let mut line = String::with_capacity(160);
    _ = writeln!(line, "{device} {inode} {size} {modified_ns} {changed_ns} {}", hash.to_hex());
    line
}

fn parse(line: &str) -> Option<(Identity, Hash)> {
    let mut words = line.split(' ');
    let mut word = || words.next();
    let identity = Identity {
        device: word()?.parse().ok()?,
        inode: word()?.parse().ok()?,
        size: word()?.parse().ok()?,
        modified_ns: word()?.parse().ok()?,
        changed_ns: word()?.parse().ok()?,
    };
    Some((identity, Hash::from_hex(word()?).ok()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    static GO: AtomicBool = AtomicBool::new(false);

    #[test]
    fn a_settled_file_is_read_once_and_a_changed_one_again() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (memory, path) = (folder.path().join("hashes"), folder.path().join("a"));
        fs::write(&path, "one")?;
        let hashes = Hashes::open(memory.clone())?;
        assert_eq!(hashes.of(&path, &GO)?, blake3::hash(b"one"));
        std::thread::sleep(Duration::from_millis(60));
        hashes.of(&path, &GO)?;
        assert_eq!(hashes.known(&path)?, Some(blake3::hash(b"one")));
        OpenOptions::new().append(true).open(&memory)?.write_all(b"nonsense\n1 2 3")?;
        assert_eq!(
            Hashes::open(memory)?.known(&path)?,
            Some(blake3::hash(b"one")),
            "another process knows it"
        );
        fs::write(&path, "two")?; // of the same size
        assert_eq!(hashes.known(&path)?, None);
        assert_eq!(hashes.of(&path, &GO)?, blake3::hash(b"two"));
        Ok(())
    }

    #[test]
    fn a_folder_is_its_names_and_contents() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let inner = folder.path().join("in/side");
        fs::create_dir_all(&inner)?;
        fs::write(inner.join("a"), "x")?;
        let hashes = Hashes::open(folder.path().join("hashes"))?;
        let of = || hashes.of(&folder.path().join("in"), &GO);
        let first = of()?;
        assert_eq!(of()?, first);
        fs::rename(inner.join("a"), inner.join("b"))?;
        assert_ne!(of()?, first);
        assert!(hashes.of(&folder.path().join("in"), &AtomicBool::new(true)).is_err(), "it can be stopped");
        Ok(())
    }
}
