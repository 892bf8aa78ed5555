//! Where programs are: a relative path is meant from the working directory, a bare name is looked for in `PATH`.
//!
//! They are looked for here, and not by the system for every process, because a process can only be started in the
//! cheapest way (`posix_spawn`) with its own environment if its path is known.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

/// Programs that were found in the `PATH` of this process.
#[derive(Debug)]
pub(crate) struct Programs {
    path: OsString,
    /// Whether every folder of it is the same from wherever it is looked at.
    is_fixed: bool,
    found: Mutex<FxHashMap<String, PathBuf>>,
}

impl Default for Programs {
    fn default() -> Self {
        Self::new(std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into()))
    }
}

impl Programs {
    fn new(path: OsString) -> Self {
        let is_fixed = std::env::split_paths(&path).all(|folder| folder.is_absolute());
        Self { path, is_fixed, found: Mutex::default() }
    }

    /// The file of a program, for a process that runs in `directory`; `path` takes the place of this process's `PATH`. The name
    /// itself if there is none: starting it will say why.
    pub(crate) fn locate(&self, program: &str, directory: &Path, path: Option<&str>) -> PathBuf {
        if program.contains('/') {
            return directory.join(program);
        }
        if let Some(path) = path {
            return search(program, directory, path.as_ref()).unwrap_or_else(|| program.into());
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = found.get(program) {
            return file.clone();
        }
        let Some(file) = search(program, directory, &self.path) else { return program.into() };
        if self.is_fixed {
            found.insert(program.to_owned(), file.clone());
        }
        file
    }
}

fn search(program: &str, directory: &Path, path: &OsStr) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|folder| directory.join(folder).join(program)).find(is_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_would() {
        let programs = Programs::default();
        let cases = [
            ("./x.sh", None, "/w/./x.sh"),
            ("bin/x", None, "/w/bin/x"),
            ("/bin/x", None, "/bin/x"),
            ("sh", Some("/nowhere:/bin"), "/bin/sh"),
            ("sh", Some("/nowhere"), "sh"),
            ("passwd", Some("/etc"), "passwd"), // no program
        ];
        for (program, path, file) in cases {
            assert_eq!(programs.locate(program, Path::new("/w"), path), Path::new(file));
        }
        let found = programs.locate("sh", Path::new("/w"), None);
        assert!(found.is_absolute() && found.ends_with("sh"), "{}", found.display());
        assert_eq!(programs.locate("sh", Path::new("/w"), None), found);
    }

    #[test]
    fn a_relative_folder_is_that_of_the_task() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let programs = Programs::new(".:/bin".into());
        for name in ["x", "y"] {
            let task = folder.path().join(name);
            std::fs::create_dir(&task)?;
            let program = task.join("sh");
            assert_eq!(programs.locate("sh", &task, None), Path::new("/bin/sh"));
            std::fs::write(&program, "")?;
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
            assert_eq!(programs.locate("sh", &task, None).canonicalize()?, program.canonicalize()?);
        }
        Ok(())
    }
}
