//! Control groups of version 2: the system itself watches the memory of an attempt, and ends it to the last process.
//!
//! They live in a folder that the user has been given (delegated), which holds no processes of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use mdts_core::engine::TaskRun;

use crate::keeper::Ending;
use crate::launch::mark;

/// The group of one attempt; dropping it ends what is left in it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    limit: u64,
}

/// Makes a folder ready for groups whose memory is limited.
///
/// # Errors
/// A sentence that says what is not as it must be.
pub(crate) fn prepare(folder: &Path) -> Result<(), String> {
    let say = |what: &str| format!("{}: {what}", folder.display());
    let controllers = fs::read_to_string(folder.join("cgroup.controllers"))
        .map_err(|error| say(&format!("it is no control group of version 2: {error}")))?;
    if !has(&controllers, "memory") {
        return Err(say(
            "this control group has no control of memory; delegate it, for example with systemd-run \
                        --user --scope -p Delegate=yes",
        ));
    }
    let control = folder.join("cgroup.subtree_control");
    let given = fs::read_to_string(&control).unwrap_or_default();
    if has(&given, "memory") {
        return Ok(());
    }
    fs::write(&control, "+memory").map_err(|error| {
        say(&format!("control of memory cannot be handed on: {error}; it must hold no processes of its own"))
    })
}

/// The control group that holds this process, made ready by moving this process one level down. Only for a group that
/// holds nothing else.
///
/// # Errors
/// A sentence that says what is not as it must be.
pub(crate) fn own() -> Result<PathBuf, String> {
    let text = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let none = || "this process is in no control group of version 2".to_owned();
    let path = place(&text("/proc/self/cgroup")?, &text("/proc/self/mounts")?).ok_or_else(none)?;
    let inside = path.join("mdts");
    let moved = fs::create_dir_all(&inside)
        .and_then(|()| fs::write(inside.join("cgroup.procs"), std::process::id().to_string()));
    moved.map_err(|error| format!("{}: {error}", inside.display()))?;
    prepare(&path)?;
    Ok(path)
}

/// Where the group is that `/proc/self/cgroup` names, by the mounts.
fn place(cgroup: &str, mounts: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mount = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then_some(place)
    })?;
    Some(Path::new(mount).join(path.trim_start_matches('/')))
}

fn has(list: &str, controller: &str) -> bool {
    list.split_whitespace().any(|word| word == controller)
}

impl Cgroup {
    /// A group for an attempt in a folder that is [ready](prepare).
    pub(crate) fn new(folder: &Path, run: TaskRun, limit: u64) -> io::Result<Self> {
        let group = Self { path: folder.join(format!("mdts-{}-{}", std::process::id(), mark(run))), limit };
        fs::create_dir(&group.path)?;
        group.write("memory.max", &limit.to_string())?;
        group.write("memory.swap.max", "0").ok(); // where nothing is swapped there is no such file
        group.write("memory.oom.group", "1").ok(); // since Linux 4.19
        Ok(group)
    }

    /// Puts a process into the group, with all that it will start.
    pub(crate) fn take(&self, process: u32) -> io::Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// What the attempt was killed for, if it was for memory.
    pub(crate) fn verdict(&self) -> Option<Ending> {
        let events = fs::read_to_string(self.path.join("memory.events")).ok()?;
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
        if kills.trim() == "0" {
            return None;
        }
        Some(Ending::Memory { used: self.peak().unwrap_or(self.limit), limit: self.limit })
    }

    /// Most bytes that the attempt has used; since Linux 5.19.
    pub(crate) fn peak(&self) -> Option<u64> {
        fs::read_to_string(self.path.join("memory.peak")).ok()?.trim().parse().ok()
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.path.join(file), text)
    }
}

impl Cgroup {
    /// Ends what is left in the group and removes it; false if somebody is still in it.
    pub(crate) fn remove(&self) -> bool {
        self.write("cgroup.kill", "1").ok(); // since Linux 5.14; process groups are killed anyway
        !matches!(fs::remove_dir(&self.path), Err(error) if error.kind() == io::ErrorKind::ResourceBusy)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        /// The dead leave a group a little later.
        const ATTEMPTS: usize = 20;
        for _ in 0..ATTEMPTS {
            if self.remove() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use mdts_core::engine::JobId;

    use super::*;

    /// A folder with the files that the system would make.
    fn folder(controllers: &str) -> io::Result<tempfile::TempDir> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("cgroup.controllers"), controllers)?;
        fs::write(folder.path().join("cgroup.subtree_control"), "")?;
        Ok(folder)
    }

    #[test]
    fn limits_are_set_and_deaths_are_read() -> io::Result<()> {
        let folder = folder("cpu memory\n")?;
        prepare(folder.path()).map_err(io::Error::other)?;
        assert_eq!(fs::read_to_string(folder.path().join("cgroup.subtree_control"))?, "+memory");
        let run = TaskRun { job: JobId::from(0), task: 7.into(), attempt: 2 };
        let group = Cgroup::new(folder.path(), run, 1000)?;
        group.take(42)?;
        let read = |name: &str| fs::read_to_string(group.path.join(name));
        assert_eq!((read("memory.max")?, read("cgroup.procs")?), ("1000".into(), "42".into()));
        assert!(group.path.ends_with(format!("mdts-{}-0.7.2", std::process::id())));
        assert_eq!(group.verdict(), None);
        group.write("memory.events", "low 0\noom 0\noom_kill 0\n")?;
        assert_eq!(group.verdict(), None);
        group.write("memory.events", "low 0\noom 1\noom_kill 3\noom_group_kill 1\n")?;
        assert_eq!(group.verdict(), Some(Ending::Memory { used: 1000, limit: 1000 }));
        group.write("memory.peak", "1004\n")?;
        assert_eq!(group.verdict(), Some(Ending::Memory { used: 1004, limit: 1000 }));
        Ok(())
    }

    #[test]
    fn what_is_no_group_or_has_no_memory_is_refused() -> io::Result<()> {
        let plain = tempfile::tempdir()?;
        assert!(prepare(plain.path()).is_err_and(|e| e.contains("no control group of version 2")));
        assert!(prepare(folder("cpu io")?.path()).is_err_and(|e| e.contains("no control of memory")));
        Ok(())
    }

    #[test]
    fn the_own_group_is_found() {
        let mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let place = |cgroup: &str| place(cgroup, mounts);
        assert_eq!(place("0::/user.slice/a.scope\n"), Some("/sys/fs/cgroup/user.slice/a.scope".into()));
        assert_eq!(place("4:memory:/x\n"), None);
    }
}
