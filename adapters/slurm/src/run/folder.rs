//! The folder of a run: all that mdts and the jobs of the run tell each other.
//!
//! ```text
//!   run                  the run's id
//!   waves/3/wave.json    what was submitted as one: written before it is
//!   waves/3/0.sh ...     what each element runs
//!   waves/3/job          number of the job: written when Slurm has it
//!   waves/3/released     there if nothing is left to do for the wave
//!   claims/12.1/         made by whoever may run attempt 1 of task 12: once
//!   results/12.1.ok      how that ended; or .bad
//! ```
//! It has to be on a file system that the nodes share. Making a folder is atomic there, and so is renaming a file.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::wave::{Ticket, Wave};
use crate::{Error, Result};

const RUN: &str = "run";
const WAVES: &str = "waves";
const CLAIMS: &str = "claims";
const RESULTS: &str = "results";
const WAVE: &str = "wave.json";
const JOB: &str = "job";
const SPOOL: &str = "script";
const RELEASED: &str = "released";

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct RunFolder {
    path: PathBuf,
    id: String,
}

/// How an attempt ended, as its job wrote it down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TaskResult {
    pub(crate) ending: Ending,
    /// Seconds that it ran.
    pub(crate) seconds: f64,
    /// Seconds of processor time, of it and all that it waited for.
    pub(crate) cpu_seconds: f64,
    /// Where it really ran.
    pub(crate) node: String,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Exit(i32),
    /// This one of its inputs was missing, so that it did not begin.
    Input(usize),
    /// This one of its outputs was missing at its end.
    Output(usize),
    /// Its folder cannot be entered.
    Directory,
}

/// A wave as the folder has it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) wave: Wave,
    pub(crate) job: Option<u32>,
    pub(crate) is_released: bool,
}

impl RunFolder {
    /// Opens a folder, which is made if it is not there; with an id of its own if it is new.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn open(path: &Path) -> Result<Self> {
        for part in [WAVES, CLAIMS, RESULTS] {
            let part = path.join(part);
            fs::create_dir_all(&part).map_err(Error::io(&part))?;
        }
        let path = path.canonicalize().map_err(Error::io(path))?;
        let name = path.join(RUN);
        let id = match fs::read_to_string(&name) {
            Ok(id) => id.trim().to_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let id = new_id().map_err(Error::io("/dev/urandom"))?;
                write(&name, &format!("{id}\n"))?;
                id
            }
            Err(source) => return Err(Error::Io { path: name, source }),
        };
        Ok(Self { path, id })
    }

    /// Whether a folder is that of a run.
    pub(crate) fn is_one(path: &Path) -> bool {
        path.join(RUN).exists()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What tells the jobs of this run from others.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The comment of the jobs of a wave.
    pub(crate) fn tag(&self, wave: u32) -> String {
        format!("mdts:{}:{wave}", self.id)
    }

    /// The wave of a job with this comment, if it is of this run.
    pub(crate) fn wave_of(&self, comment: &str) -> Option<u32> {
        // A site may add its own words.
        let comment = comment.split_whitespace().find_map(|word| word.strip_prefix("mdts:"))?;
        comment.strip_prefix(&self.id)?.strip_prefix(':')?.parse().ok()
    }

    pub(crate) fn wave_folder(&self, wave: u32) -> PathBuf {
        self.path.join(WAVES).join(wave.to_string())
    }

    /// The file for the batch script of a wave, see [`crate::Submission::spool`].
    pub(crate) fn spool(&self, wave: u32) -> PathBuf {
        self.wave_folder(wave).join(SPOOL)
    }

    /// Whether a program has that file, so that it may still submit the wave.
    pub(crate) fn is_being_submitted(&self, wave: u32) -> bool {
        let file = File::options().write(true).open(self.spool(wave));
        file.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// Writes down a wave with what its elements run.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn write_wave(&self, wave: &Wave, scripts: &[String]) -> Result<()> {
        let folder = self.wave_folder(wave.number);
        fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
        for (at, script) in scripts.iter().enumerate() {
            let path = folder.join(format!("{at}.sh"));
            fs::write(&path, script).map_err(Error::io(&path))?;
        }
        let path = folder.join(WAVE);
        let text = serde_json::to_string(wave).map_err(|error| strange(&path, &error.to_string()))?;
        write(&path, &text)
    }

    /// Notes the number of a wave's job.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn write_job(&self, wave: u32, job: u32) -> Result<()> {
        write(&self.wave_folder(wave).join(JOB), &job.to_string())
    }

    /// Notes that nothing is left to do for a wave.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn write_released(&self, wave: u32) -> Result<()> {
        write(&self.wave_folder(wave).join(RELEASED), "")
    }

    /// All waves in their order. Folders of waves that were not written to their end are left out: nothing was submitted.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Strange`].
    pub(crate) fn waves(&self) -> Result<Vec<Kept>> {
        let folder = self.path.join(WAVES);
        let mut numbers: Vec<u32> = names(&folder)?.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let mut waves = Vec::new();
        for number in numbers {
            let path = self.wave_folder(number).join(WAVE);
            let text = match fs::read(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(source) => return Err(Error::Io { path, source }),
            };
            let wave = serde_json::from_slice(&text).map_err(|error| strange(&path, &error.to_string()))?;
            let job = fs::read_to_string(self.wave_folder(number).join(JOB)).ok();
            let is_released = self.wave_folder(number).join(RELEASED).exists();
            waves.push(Kept { wave, job: job.and_then(|job| job.trim().parse().ok()), is_released });
        }
        Ok(waves)
    }

    /// The number after all that were ever used, also of waves that were not written to their end.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn next_wave(&self) -> Result<u32> {
        let numbers = names(&self.path.join(WAVES))?;
        Ok(numbers.iter().filter_map(|name| name.parse::<u32>().ok()).max().map_or(0, |last| last + 1))
    }

    /// Takes the right to run an attempt; false if somebody has it.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn claim(&self, ticket: Ticket) -> Result<bool> {
        let path = self.path.join(CLAIMS).join(ticket.to_string());
        match fs::create_dir(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// Whether somebody has the right to run an attempt.
    pub(crate) fn is_claimed(&self, ticket: Ticket) -> bool {
        self.path.join(CLAIMS).join(ticket.to_string()).exists()
    }

    /// Seconds since an attempt was claimed, by the clock of the file system.
    pub(crate) fn claimed_for(&self, ticket: Ticket) -> Option<f64> {
        let made = fs::metadata(self.path.join(CLAIMS).join(ticket.to_string())).ok()?.modified().ok()?;
        Some(made.elapsed().map_or(0.0, |age| age.as_secs_f64()))
    }

    /// All attempts that are claimed.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn claims(&self) -> Result<Vec<Ticket>> {
        Ok(names(&self.path.join(CLAIMS))?.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// All attempts of whose end there is word.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn ended(&self) -> Result<Vec<Ticket>> {
        let is_result =
            |name: &String| name.strip_suffix(".ok").or_else(|| name.strip_suffix(".bad"))?.parse().ok();
        Ok(names(&self.path.join(RESULTS))?.iter().filter_map(is_result).collect())
    }

    /// How an attempt ended, if there is word of it.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Strange`].
    pub(crate) fn result(&self, ticket: Ticket) -> Result<Option<TaskResult>> {
        for kind in ["ok", "bad"] {
            let path = self.path.join(RESULTS).join(format!("{ticket}.{kind}"));
            match fs::read_to_string(&path) {
                Ok(text) => return read_result(&text).map(Some).ok_or_else(|| strange(&path, &text)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(Error::Io { path, source }),
            }
        }
        Ok(None)
    }
}

/// `WHAT NUMBER BEGIN END NODE`, and if a command has run, its status and what the shell's `times` says of the shell and of
/// the command, two times each.
fn read_result(text: &str) -> Option<TaskResult> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [what, number, begin, end, node, ref used @ ..] = words[..] else { return None };
    let ending = match what {
        "exit" => Ending::Exit(number.parse().ok()?),
        "input" => Ending::Input(number.parse().ok()?),
        "output" => Ending::Output(number.parse().ok()?),
        "directory" => Ending::Directory,
        _ => return None,
    };
    // A date program without fractions writes 12.N.
    let time = |text: &str| text.trim_end_matches(".N").parse::<f64>().unwrap_or_default();
    let cpu_seconds = match used {
        [_, _, _, user, system] => minutes(user) + minutes(system),
        _ => 0.0,
    };
    let seconds = (time(end) - time(begin)).max(0.0);
    Some(TaskResult { ending, seconds, cpu_seconds, node: node.to_owned() })
}

/// Seconds from `1m2.5s`.
fn minutes(text: &str) -> f64 {
    let parts = text.trim_end_matches('s').split_once('m');
    let parts = parts.and_then(|(m, s)| Some((m.parse::<f64>().ok()?, s.parse::<f64>().ok()?)));
    parts.map_or(0.0, |(minutes, seconds)| minutes * 60.0 + seconds)
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let name = entry.map_err(Error::io(folder))?.file_name();
        names.extend(name.into_string());
    }
    Ok(names)
}

/// Writes a file in one piece.
fn write(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("tmp");
    fs::write(&temporary, text).map_err(Error::io(&temporary))?;
    fs::rename(&temporary, path).map_err(Error::io(path))
}

fn strange(path: &Path, message: &str) -> Error {
    Error::Strange { what: path.display().to_string(), message: message.trim().to_owned() }
}

/// Twelve digits by chance: runs that share a cluster must not share ids.
fn new_id() -> io::Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes[2..])?;
    Ok(format!("{:012x}", u64::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(task: u32, attempt: u32) -> Ticket {
        Ticket { task, attempt, again: 0 }
    }

    #[test]
    fn an_attempt_is_claimed_once() -> Result<(), Box<dyn std::error::Error>> {
        let place = tempfile::tempdir()?;
        let folder = RunFolder::open(&place.path().join("run"))?;
        assert!(folder.claim(run(3, 1))?);
        assert!(!RunFolder::open(folder.path())?.claim(run(3, 1))?);
        assert!(folder.claim(run(3, 2))?);
        let mut claims = folder.claims()?;
        claims.sort();
        assert_eq!(claims, [run(3, 1), run(3, 2)]);
        Ok(())
    }

    #[test]
    fn a_comment_tells_the_wave_of_this_run_alone() -> Result<(), Box<dyn std::error::Error>> {
        let place = tempfile::tempdir()?;
        let folder = RunFolder::open(place.path())?;
        assert_eq!(RunFolder::open(place.path())?.id(), folder.id());
        let own = folder.tag(7);
        let table = [(own.as_str(), Some(7)), ("mdts:other:7", None), ("", None), ("mdts:", None)];
        for (comment, wave) in table {
            assert_eq!(folder.wave_of(comment), wave, "{comment}");
        }
        assert_eq!(folder.wave_of(&format!("site=x {own}")), Some(7));
        Ok(())
    }

    #[test]
    fn a_program_that_may_submit_is_noticed() -> Result<(), Box<dyn std::error::Error>> {
        let place = tempfile::tempdir()?;
        let folder = RunFolder::open(place.path())?;
        fs::create_dir_all(folder.wave_folder(0))?;
        assert!(!folder.is_being_submitted(0));
        let file = File::create(folder.spool(0))?;
        file.lock()?;
        let mut program = std::process::Command::new("sleep").arg("600").stdin(file).spawn()?;
        assert!(folder.is_being_submitted(0));
        program.kill()?;
        program.wait()?;
        assert!(!folder.is_being_submitted(0));
        Ok(())
    }

    #[test]
    fn results_are_read() {
        let table = [
            ("exit 0 10.5 12.75 fast1 0 0m0.1s 0m0.2s 1m2.5s 0m0.5s", Some((Ending::Exit(0), 2.25, 63.0))),
            ("exit 143 10 9 fast1", Some((Ending::Exit(143), 0.0, 0.0))),
            ("input 2 10.N 11.N n", Some((Ending::Input(2), 1.0, 0.0))),
            ("exit 0 1", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(read_result(text).map(|r| (r.ending, r.seconds, r.cpu_seconds)), expected, "{text}");
        }
    }
}
