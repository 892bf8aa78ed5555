//! Starts processes from an environment that was made ready before.
//!
//! The standard library sorts and copies the whole environment for every process that adds to it, which costs more than all
//! else that is done here. The directory is that of the whole process, as `posix_spawn` knows no other way everywhere: this is
//! for a process that does nothing else, the keeper. O(variables) per process, of which only those that change are looked at.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use rustix::stdio::{stderr, stdout};

use crate::launch::{Environment, Start, VISIBLE};

/// See the module.
#[derive(Debug)]
pub(crate) struct Spawner {
    attributes: PosixSpawnAttr,
    /// As `NAME=VALUE`.
    environment: Vec<CString>,
}

impl Spawner {
    /// # Errors
    /// The operating system's.
    pub(crate) fn new() -> io::Result<Self> {
        let mut attributes = PosixSpawnAttr::init()?;
        attributes
            .set_flags(PosixSpawnFlags::POSIX_SPAWN_SETPGROUP | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF)?;
        attributes.set_pgroup(Pid::from_raw(0))?; // each leads a group of its own
        let mut handled = SigSet::empty();
        handled.add(Signal::SIGPIPE); // which Rust programs ignore
        attributes.set_sigdefault(&handled)?;
        Ok(Self { attributes, environment: Vec::new() })
    }

    /// What processes have in their environment from now on, beside their own variables.
    pub(crate) fn set_environment(&mut self, environment: &Environment) {
        let assign = |(name, value): &(OsString, OsString)| {
            assignment(name.as_bytes(), value.as_bytes()).ok() // the system itself knows none with zero bytes
        };
        self.environment = environment.iter().filter_map(assign).collect();
    }

    /// The value of a variable that all processes have.
    pub(crate) fn variable(&self, name: &str) -> Option<OsString> {
        let assignment = self.environment.iter().find(|assignment| is_of(assignment, name))?;
        Some(OsStr::from_bytes(&assignment.as_bytes()[name.len() + 1..]).to_owned())
    }

    /// Starts a process whose input is that of this one; gives its number.
    ///
    /// # Errors
    /// The operating system's.
    pub(crate) fn spawn(&self, start: &Start<'_>) -> io::Result<u32> {
        std::env::set_current_dir(&start.launch.directory)?;
        let own = start.launch.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let own: Vec<(&str, &str)> =
            own.chain(start.gpus.iter().map(|gpus| (VISIBLE, gpus.as_str()))).collect();
        let own_assignments = own.iter().enumerate().filter(|(i, (name, _))| {
            own[i + 1..].iter().all(|(later, _)| later != name) // the last one counts
        });
        let own_assignments: Vec<CString> = own_assignments
            .map(|(_, (name, value))| assignment(name.as_bytes(), value.as_bytes()))
            .collect::<io::Result<_>>()?;
        let others = self.environment.iter().filter(|other| !own.iter().any(|(name, _)| is_of(other, name)));
        let environment: Vec<&CString> = others.chain(&own_assignments).collect();
        let arguments: Vec<CString> = start
            .launch
            .arguments
            .iter()
            .map(|argument| CString::new(argument.as_str()))
            .collect::<Result<_, _>>()?;
        let program = CString::new(start.launch.program.as_os_str().as_bytes())?;
        let mut actions = PosixSpawnFileActions::init()?;
        for (file, at) in start.files.iter().zip([stdout(), stderr()]) {
            actions.add_dup2(file.as_raw_fd(), at.as_raw_fd())?;
        }
        let number = posix_spawnp(&program, &actions, &self.attributes, &arguments, &environment)?;
        Ok(number.as_raw().cast_unsigned())
    }
}

fn assignment(name: &[u8], value: &[u8]) -> io::Result<CString> {
    let text = [name, b"=", value].concat();
    Ok(CString::new(text)?)
}

/// Whether an assignment is one to the variable of this name.
fn is_of(assignment: &CString, name: &str) -> bool {
    assignment.as_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use mdts_core::engine::{JobId, TaskRun};

    use super::*;
    use crate::launch::{Launch, Needs};

    #[test]
    fn variables_are_those_of_the_task_or_else_those_given() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let path = folder.path().join("out");
        let launch = Launch {
            run: TaskRun { job: JobId::from(0), task: 0.into(), attempt: 1 },
            program: "/bin/sh".into(),
            arguments: ["called", "-c", "echo $0; pwd; env; ps -o pid=,pgid= $$"].map(str::to_owned).to_vec(),
            directory: folder.path().canonicalize()?,
            variables: vec![pair("A", "first"), pair("B", "own"), pair("A", "last")],
            out: path.clone(),
            err: path.clone(),
            needs: Needs::default(),
        };
        let mut spawner = Spawner::new()?;
        let given = [("B", "given"), ("BB", "of another name"), ("PATH", "/bin:/usr/bin")];
        spawner.set_environment(&given.map(|(name, value)| (name.into(), value.into())).to_vec());
        let before = std::env::current_dir()?;
        let file = || File::options().append(true).create(true).open(&path);
        let start = Start { launch: &launch, files: [file()?, file()?], gpus: Some("1,2".to_owned()) };
        let number = spawner.spawn(&start)?;
        std::env::set_current_dir(before)?;
        nix::sys::wait::waitpid(Pid::from_raw(number.cast_signed()), None)?;
        let told = std::fs::read_to_string(&path)?;
        let mut lines: Vec<&str> = told.lines().collect();
        assert_eq!(
            (lines.remove(0), lines.remove(0)),
            ("called", launch.directory.to_str().unwrap_or_default())
        );
        let ids: Vec<u32> =
            lines.pop().unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok()).collect();
        assert_eq!(ids, [number, number], "it leads its group");
        lines.retain(|line| {
            !line.starts_with("PWD=") && !line.starts_with("_=") && !line.starts_with("SHLVL=")
        });
        lines.sort_unstable();
        let expected =
            ["A=last", "B=own", "BB=of another name", "CUDA_VISIBLE_DEVICES=1,2", "PATH=/bin:/usr/bin"];
        assert_eq!(lines, expected);
        Ok(())
    }
}
