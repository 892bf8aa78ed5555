//! Where programs are: a relative path is meant from the working directory, a bare name is looked for in `PATH`.
//!
//! They are looked for here, and not by the system for every process, because a process can only be started in the
//! cheapest way (`posix_spawn`) with its own environment if its path is known.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

/// Programs that were found in the `PATH` of this process.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    found: Mutex<FxHashMap<String, PathBuf>>,
}

impl Programs {
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
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        let Some(file) = search(program, directory, &path) else { return program.into() };
        found.insert(program.to_owned(), file.clone());
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
}
