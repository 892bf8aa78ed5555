//! Folders in the cache: the list of all that is in one, which is kept like the contents of a file.
//!
//! Two folders are the same if names, contents and permissions are, and the targets of links; times and owners do not count.

use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path};

use blake3::Hash;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::store::mode;

/// All that is in a folder, in the order of the paths, folders before what is in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Tree {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    /// From the folder.
    path: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Folder { mode: u32 },
    File { hash: String, mode: u32 },
    Link { to: String },
}

/// What a folder has and a list has not.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Extra {
    File(Hash),
    Other,
}

impl Tree {
    /// Looks at a folder; `hash` tells that of a file.
    ///
    /// # Errors
    /// The operating system's; that a name is not UTF-8, or something is neither file, link nor folder.
    pub(super) fn read(folder: &Path, hash: &mut dyn FnMut(&Path) -> io::Result<Hash>) -> io::Result<Self> {
        let mut tree = Self { entries: Vec::new() };
        tree.add(folder, "", hash)?;
        tree.entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn add(
        &mut self,
        folder: &Path,
        within: &str,
        hash: &mut dyn FnMut(&Path) -> io::Result<Hash>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (at, name, kind) = (entry.path(), text(entry.file_name().to_str())?, entry.file_type()?);
            let path = if within.is_empty() { name } else { format!("{within}/{name}") };
            let what = if kind.is_symlink() {
                What::Link { to: text(fs::read_link(&at)?.to_str())? }
            } else if kind.is_dir() {
                self.add(&at, &path, hash)?;
                What::Folder { mode: mode(&at)? }
            } else if kind.is_file() {
                What::File { hash: hash(&at)?.to_hex().to_string(), mode: mode(&at)? }
            } else {
                return Err(io::Error::other(format!("'{path}' is neither file, link nor folder")));
            };
            self.entries.push(Entry { path, what });
        }
        Ok(())
    }

    /// The list as it is kept.
    pub(super) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(self)?)
    }

    /// A list that was kept; `None` if it is none, or has paths that lead elsewhere.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let tree: Self = serde_json::from_slice(bytes).ok()?;
        let is_inside = |entry: &Entry| {
            let mut components = Path::new(&entry.path).components();
            !entry.path.is_empty() && components.all(|component| matches!(component, Component::Normal(_)))
        };
        // Nothing is written through a link.
        let links: HashSet<&str> =
            tree.entries.iter().filter(|e| matches!(e.what, What::Link { .. })).map(|e| &*e.path).collect();
        let is_direct = |entry: &Entry| {
            let mut above = Path::new(&entry.path).ancestors().skip(1);
            above.all(|folder| folder.to_str().is_none_or(|folder| !links.contains(folder)))
        };
        tree.entries.iter().all(|entry| is_inside(entry) && is_direct(entry)).then_some(tree)
    }

    /// The hashes of all files.
    pub(super) fn files(&self) -> impl Iterator<Item = Hash> {
        self.entries.iter().filter_map(|entry| match &entry.what {
            What::File { hash, .. } => Hash::from_hex(hash).ok(),
            _ => None,
        })
    }

    /// What this has and `other` has not, empty folders apart.
    pub(super) fn beyond(&self, other: &Self) -> impl Iterator<Item = Extra> {
        let known: HashSet<&str> = other.entries.iter().map(|entry| &*entry.path).collect();
        let extra = self.entries.iter().filter(move |entry| !known.contains(&*entry.path));
        extra.filter_map(|entry| match &entry.what {
            What::Folder { .. } => None,
            What::File { hash, .. } => Some(Hash::from_hex(hash).map_or(Extra::Other, Extra::File)),
            What::Link { .. } => Some(Extra::Other),
        })
    }

    /// Fills an empty folder; `restore` brings a file, or tells that it cannot be had, and so does this.
    ///
    /// # Errors
    /// The operating system's.
    pub(super) fn build(
        &self,
        folder: &Path,
        restore: &mut dyn FnMut(&Hash, u32, &Path) -> io::Result<bool>,
    ) -> io::Result<bool> {
        for Entry { path, what } in &self.entries {
            let at = folder.join(path);
            match what {
                What::Folder { .. } => fs::create_dir(&at)?,
                What::Link { to } => symlink(to, &at)?,
                What::File { hash, mode } => {
                    let Ok(hash) = Hash::from_hex(hash) else { return Ok(false) };
                    if !restore(&hash, *mode, &at)? {
                        return Ok(false);
                    }
                }
            }
        }
        // A folder may allow nothing to be written: the innermost first, when all is in them.
        for Entry { path, what } in self.entries.iter().rev() {
            if let What::Folder { mode } = what {
                fs::set_permissions(folder.join(path), Permissions::from_mode(*mode))?;
            }
        }
        Ok(true)
    }
}

fn text(name: Option<&str>) -> io::Result<String> {
    name.map(str::to_owned).ok_or_else(|| io::Error::other("a name in it is not UTF-8"))
}

/// Puts what is at `new` in the place of `old`, and that in the place of `new` if there is something: at once where the system
/// can do that.
pub(super) fn exchange(new: &Path, old: &Path) -> io::Result<()> {
    match renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE) {
        Ok(()) => return Ok(()),
        Err(Errno::NOENT | Errno::INVAL | Errno::NOSYS) => {} // nothing is there, or the file system cannot
        Err(error) => return Err(error.into()),
    }
    let away = new.with_extension("old");
    match fs::rename(old, &away) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return fs::rename(new, old),
        renamed => renamed?,
    }
    fs::rename(new, old)?;
    fs::rename(&away, new)
}

/// Removes a folder with all that is in it, whatever it allows, or a file, if it is there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(about) if about.is_dir() => {
            unlock(path)?;
            fs::remove_dir_all(path)
        }
        Ok(_) => fs::remove_file(path),
    }
}

/// Lets the owner change what is in a folder and in those within.
fn unlock(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(path: &Path) -> io::Result<Hash> {
        fs::read(path).map(|bytes| blake3::hash(&bytes))
    }

    #[test]
    fn a_folder_comes_back_as_it_was() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        fs::create_dir_all(one.join("in/side"))?;
        fs::create_dir_all(one.join("empty"))?;
        for (name, text) in [("a", "x"), ("in/a", "y"), ("in.txt", "z"), ("in/side/b", "w")] {
            fs::write(one.join(name), text)?;
        }
        symlink("../nowhere", one.join("link"))?;
        fs::set_permissions(one.join("in/side/b"), Permissions::from_mode(0o755))?;
        fs::set_permissions(one.join("in/side"), Permissions::from_mode(0o555))?;
        let tree = Tree::read(&one, &mut hash)?;
        assert_eq!(tree.files().count(), 4);
        assert_eq!(Tree::from_bytes(&tree.to_bytes()?).as_ref(), Some(&tree));
        fs::create_dir(&two)?;
        let texts: Vec<(Hash, &str)> =
            ["x", "y", "z", "w"].map(|text| (blake3::hash(text.as_bytes()), text)).into();
        let mut restore = |hash: &Hash, mode: u32, at: &Path| {
            let text = texts.iter().find(|(of, _)| of == hash).map_or("", |(_, text)| *text);
            fs::write(at, text)?;
            fs::set_permissions(at, Permissions::from_mode(mode)).map(|()| true)
        };
        assert!(tree.build(&two, &mut restore)?);
        assert_eq!(Tree::read(&two, &mut hash)?, tree);
        fs::write(two.join("more"), "v")?;
        let more = Tree::read(&two, &mut hash)?;
        assert_eq!(more.beyond(&tree).collect::<Vec<_>>(), [Extra::File(blake3::hash(b"v"))]);
        assert_eq!(tree.beyond(&more).count(), 0);
        exchange(&one, &two)?;
        assert!(one.join("more").exists() && !two.join("more").exists());
        remove(&one)?;
        exchange(&two, &one)?;
        assert!(one.exists() && !two.exists());
        remove(&one)?;
        remove(&one)
    }

    #[test]
    fn lists_that_lead_elsewhere_are_none() {
        let file = |path: &str| {
            let what = What::File { hash: blake3::hash(b"").to_hex().to_string(), mode: 0o644 };
            Entry { path: path.to_owned(), what }
        };
        for path in ["../a", "/etc/a", "a/../../b", "", "./a"] {
            let tree = Tree { entries: vec![file(path)] };
            assert!(Tree::from_bytes(&tree.to_bytes().unwrap_or_default()).is_none(), "{path}");
        }
        let link = Entry { path: "a".to_owned(), what: What::Link { to: "/tmp".to_owned() } };
        let tree = Tree { entries: vec![link, file("a/b")] };
        assert!(Tree::from_bytes(&tree.to_bytes().unwrap_or_default()).is_none());
        assert!(Tree::from_bytes(b"[").is_none());
    }
}
