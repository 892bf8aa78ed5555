//! How much a cache holds, and making room in it.
//!
//! A success that was kept is a record with the contents that it names; several may name the same. The newest are left. What
//! runs that go on have just written is never touched.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use blake3::Hash;
use serde::Serialize;

use super::store::{Record, Store, Written, read_tree};
use super::tree::Tree;
use crate::error::{Error, Result};

/// Contents that are younger may belong to a record that is about to be written.
const YOUNG: Duration = Duration::from_hours(1);

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Size {
    /// Successes that are known.
    pub(crate) records: u64,
    /// Contents of outputs.
    pub(crate) objects: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

/// What is to be left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leave {
    /// Nothing that was kept longer ago.
    pub(crate) younger_than: Option<Duration>,
    /// Contents of so many bytes at most.
    pub(crate) bytes: Option<u64>,
}

/// A record, with when it was written and the contents that it names.
struct Kept {
    path: PathBuf,
    written: SystemTime,
    outputs: Vec<String>,
}

/// What the cache in a folder holds.
///
/// # Errors
/// [`Error::Usage`] if it is no cache, [`Error::Input`] if it cannot be read.
pub(crate) fn size(folder: &Path) -> Result<Size> {
    open(folder)?;
    count(folder).map_err(|source| Error::Input { path: folder.to_owned(), source })
}

/// Removes all but what is to be left; tells what is.
///
/// # Errors
/// As for [`size`], and [`Error::Output`] if something cannot be removed.
pub(crate) fn clear(folder: &Path, leave: &Leave) -> Result<Size> {
    open(folder)?;
    let now = SystemTime::now();
    remove(folder, leave, now).map_err(|source| Error::Output { path: folder.to_owned(), source })?;
    size(folder)
}

fn open(folder: &Path) -> Result<()> {
    if folder.join("version").exists() {
        return Store::open(folder, false).map(drop);
    }
    Err(Error::Usage(format!("{}: there is no cache here; name the folder of --cache", folder.display())))
}

fn count(folder: &Path) -> io::Result<Size> {
    let mut size = Size { records: files(&folder.join("records"))?.len() as u64, ..Size::default() };
    for (_, file) in files(&folder.join("objects"))? {
        size.objects += 1;
        size.bytes += file.len();
    }
    Ok(size)
}

fn remove(folder: &Path, leave: &Leave, now: SystemTime) -> io::Result<()> {
    let age = |at: SystemTime| now.duration_since(at).unwrap_or_default();
    let mut records = records(folder)?;
    records.sort_by_key(|record| std::cmp::Reverse(record.written));
    let (mut bytes, mut left, mut is_full) = (0, HashSet::new(), false);
    for Kept { path, written, outputs } in records {
        let more: HashSet<&String> = outputs.iter().filter(|hash| !left.contains(*hash)).collect();
        let more: u64 = more
            .into_iter()
            .filter_map(|hash| fs::metadata(object(folder, hash)?).ok())
            .map(|f| f.len())
            .sum();
        is_full |= leave.bytes.is_some_and(|most| bytes + more > most);
        if is_full || leave.younger_than.is_some_and(|limit| age(written) > limit) {
            gone(fs::remove_file(&path))?;
        } else {
            bytes += more;
            left.extend(outputs);
        }
    }
    let named: HashSet<PathBuf> = left.iter().filter_map(|hash| object(folder, hash)).collect();
    for (path, file) in files(&folder.join("objects"))? {
        let is_young = age(file.modified()?) < YOUNG && leave.bytes != Some(0);
        if !named.contains(&path) && !is_young {
            gone(fs::remove_file(&path))?;
        }
    }
    for (path, file) in files(&folder.join("tasks"))? {
        if leave.younger_than.is_some_and(|limit| age(file.modified().unwrap_or(now)) > limit) {
            gone(fs::remove_file(&path))?;
        }
    }
    Ok(())
}

fn records(folder: &Path) -> io::Result<Vec<Kept>> {
    let mut records = Vec::new();
    for (path, file) in files(&folder.join("records"))? {
        let read = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
        // What makes no sense names nothing.
        let outputs = read.map_or(Vec::new(), |record| contents(folder, record));
        records.push(Kept { path, written: file.modified()?, outputs });
    }
    Ok(records)
}

/// The hashes of all that a record names, with what is in folders.
fn contents(folder: &Path, record: Record) -> Vec<String> {
    let mut hashes = Vec::new();
    for Written { hash, is_folder, .. } in record.outputs {
        let list = Hash::from_hex(&hash).ok().filter(|_| is_folder).zip(object(folder, &hash));
        let tree = list.and_then(|(hash, object)| read_tree(&object, &hash));
        hashes.extend(tree.iter().flat_map(Tree::files).map(|hash| hash.to_hex().to_string()));
        hashes.push(hash);
    }
    hashes
}

/// Where the contents of this hash are.
fn object(folder: &Path, hash: &str) -> Option<PathBuf> {
    let (head, rest) = hash.split_at_checked(2)?;
    Some(folder.join("objects").join(head).join(rest))
}

/// All files two levels below a folder, which need not be there. Another process may be removing some.
fn files(folder: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut found = Vec::new();
    for outer in entries(folder)? {
        for entry in entries(&outer?.path())? {
            let entry = entry?;
            if let Ok(file) = entry.metadata() {
                found.push((entry.path(), file));
            }
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> io::Result<Box<dyn Iterator<Item = io::Result<fs::DirEntry>>>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(Box::new(entries)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Box::new(std::iter::empty())),
        Err(error) => Err(error),
    }
}

/// Another process may have removed it.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
