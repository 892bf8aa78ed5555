//! `mdts logs --journal DIR TASK`: what a task has written.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mdts_core::engine::Phase;
use mdts_core::journal::{events_file, holder};
use mdts_dag::TaskId;
use mdts_local::{LogReader, log_files};

use crate::error::{Error, Result};
use crate::journal::{Shown, remedy};
use crate::output;
use crate::text::count;

/// Time between two looks at the files, and at least that between two at the journal.
const PAUSE: Duration = Duration::from_millis(100);

/// Arguments of `mdts logs`.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools)] // flags
pub(crate) struct Logs {
    /// Folder of the run
    #[arg(long, value_name = "DIR")]
    journal: PathBuf,
    /// Whose output
    #[arg(value_name = "TASK")]
    task: String,
    /// Of which attempt, 1 for the first [default: the last one]
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Standard output alone, as it is
    #[arg(long, conflicts_with = "err")]
    out: bool,
    /// Standard error alone, as it is
    #[arg(long)]
    err: bool,
    /// Go on until the attempt has ended
    #[arg(short, long)]
    follow: bool,
}

/// One file that is printed.
#[derive(Debug)]
struct Stream {
    what: &'static str,
    path: PathBuf,
    /// None until it is there.
    file: Option<LogReader>,
    /// Whether something of it was printed.
    is_begun: bool,
}

impl Logs {
    pub(super) fn carry_out(&self) -> Result<()> {
        let shown = Shown::read(&self.journal)?;
        let task = shown.task(&self.task)?;
        let attempt = self.attempt(&shown, task)?;
        let mut streams = self.streams(&shown, task, attempt);
        let mut printer = Printer { shows_headers: streams.len() > 1, last: None };
        if !self.follow {
            let mut found = false;
            for (i, stream) in streams.iter_mut().enumerate() {
                found |= printer.print(i, stream, true)?;
            }
            if !found {
                self.tell_nothing(&shown);
            }
            return Ok(());
        }
        let mut watch = Watch::new(&self.journal, task, attempt);
        loop {
            // The end is looked for first, so that nothing is missed that was written before it.
            let ended = watch.has_ended()?;
            for (i, stream) in streams.iter_mut().enumerate() {
                printer.print(i, stream, ended.is_some())?;
            }
            match ended {
                Some(End::Ended) => {
                    if streams.iter().all(|stream| stream.file.is_none()) {
                        self.tell_nothing(&shown);
                    }
                    return Ok(());
                }
                Some(End::Abandoned) => {
                    let said = format!("its run was stopped or killed; {}\n", remedy(&self.journal));
                    output::complain(&said);
                    return Ok(());
                }
                None => std::thread::sleep(PAUSE),
            }
        }
    }

    fn attempt(&self, shown: &Shown, task: TaskId) -> Result<u32> {
        let name = shown.name(task);
        let second = shown.standing.second_attempt(task);
        let numbers = shown.standing.attempt(task).into_iter().chain(second).map(|attempt| attempt.number);
        let last = numbers.max().unwrap_or(0);
        if last == 0 {
            return Err(Error::Usage(format!(
                "'{name}' was not started; mdts status --journal {} '{name}' tells why",
                self.journal.display()
            )));
        }
        match self.attempt {
            None => Ok(last),
            Some(number) if (1..=last).contains(&number) => Ok(number),
            Some(number) => Err(Error::Usage(format!(
                "'{name}' has no attempt {number}; there {} {}",
                if last == 1 { "is" } else { "are" },
                count(last as usize, "attempt")
            ))),
        }
    }

    fn streams(&self, shown: &Shown, task: TaskId, attempt: u32) -> Vec<Stream> {
        let files = log_files(&shown.kept.logs, &shown.kept.job.graph, task, attempt);
        let both = [("standard output", files.out, self.err), ("standard error", files.err, self.out)];
        let wanted = both.into_iter().filter(|(.., is_left_out)| !is_left_out);
        wanted.map(|(what, path, _)| Stream { what, path, file: None, is_begun: false }).collect()
    }

    fn tell_nothing(&self, shown: &Shown) {
        let (task, logs) = (&self.task, shown.kept.logs.display());
        output::complain(&if shown.kept.emulate.is_some() {
            format!("'{task}' was emulated, which writes nothing\n")
        } else {
            format!("'{task}' has written nothing, or that was removed from {logs}\n")
        });
    }
}

/// Prints files, each under a header if there are several.
struct Printer {
    shows_headers: bool,
    last: Option<usize>,
}

impl Printer {
    /// Prints what is new in a file; whether it is there. `is_last` shows the header even if nothing is in it.
    fn print(&mut self, number: usize, stream: &mut Stream, is_last: bool) -> Result<bool> {
        let failed = |source| Error::Input { path: stream.path.clone(), source };
        if stream.file.is_none() {
            stream.file = match LogReader::open(&stream.path) {
                Ok(file) => Some(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(failed(error)),
            };
        }
        let Some(file) = &mut stream.file else { return Ok(false) };
        let (mut out, mut chunk) = (io::stdout().lock(), vec![0; 1 << 16]);
        loop {
            let read = match file.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(failed)?,
            };
            let has_news = read > 0 || is_last && !stream.is_begun;
            if self.shows_headers && self.last != Some(number) && has_news {
                let line = format!("==> {}: {} <==\n", stream.what, stream.path.display());
                out.write_all(line.as_bytes()).map_err(Error::Stdout)?;
                self.last = Some(number);
            }
            if read == 0 {
                break;
            }
            stream.is_begun = true;
            out.write_all(&chunk[..read]).map_err(Error::Stdout)?;
        }
        out.flush().map_err(Error::Stdout)?;
        Ok(true)
    }
}

/// How following ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Ended,
    /// Nobody is at the run who would tell of the end.
    Abandoned,
}

/// Watches for the end of an attempt.
struct Watch<'a> {
    folder: &'a Path,
    task: TaskId,
    attempt: u32,
    /// The journal at the last look: its file and length.
    seen: Option<(u64, u64)>,
    look_at: Instant,
}

impl<'a> Watch<'a> {
    fn new(folder: &'a Path, task: TaskId, attempt: u32) -> Self {
        Self { folder, task, attempt, seen: None, look_at: Instant::now() }
    }

    /// The journal is read only when it has grown, and so seldom that this costs a tenth of the time at most.
    fn has_ended(&mut self) -> Result<Option<End>> {
        let begin = Instant::now();
        if begin < self.look_at {
            return Ok(None);
        }
        let is_held = holder(self.folder)?.is_some();
        let path = events_file(self.folder);
        let found = fs::metadata(&path).map_err(|source| Error::Input { path, source })?;
        let now = Some((found.ino(), found.len()));
        let mut has_ended = false;
        if now != self.seen {
            let standing = Shown::read(self.folder)?.standing;
            let latest = standing.attempt(self.task).map_or(0, |attempt| attempt.number);
            has_ended = latest > self.attempt || standing.phase(self.task) != Phase::Running;
            self.seen = now;
        }
        self.look_at = begin + PAUSE.max(begin.elapsed() * 10);
        Ok(match (has_ended, is_held) {
            (true, _) => Some(End::Ended),
            (false, false) => Some(End::Abandoned),
            (false, true) => None,
        })
    }
}
