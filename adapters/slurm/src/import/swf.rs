//! Logs of clusters in the Standard Workload Format (<https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>): comments after `;`,
//! then 18 numbers per job, -1 for what is not known. O(jobs).

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use mdts_dag::{JobGraph, Task};

use crate::{Error, Result};

/// Longer lines are none of this format.
const LONGEST_LINE: u64 = 64 << 10;
/// Longer logs are not read.
const MOST_JOBS: usize = 10_000_000;

/// A job of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// When it was submitted, in seconds since the first one.
    pub seconds: f64,
    /// Its number in the log.
    pub number: i64,
    /// What it did.
    pub task: Task,
    /// The number of the job that it waited for.
    pub after: Option<i64>,
}

/// A log.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name: that of the file.
    pub name: String,
    /// Its jobs by time of submission.
    pub jobs: Vec<Arrival>,
    /// Processors of the machine, if the head says so, else of the largest job.
    pub processors: u32,
    /// Jobs that never ran, or of which time or processors are not known.
    pub left_out: usize,
}

/// Reads a log, packed by gzip or not.
///
/// # Errors
/// [`Error::Io`]; [`Error::Usage`] with the line that is not of this format, or if no job ran.
pub fn read_swf(path: &Path) -> Result<Workload> {
    let io = || Error::io(path);
    let mut file = BufReader::new(File::open(path).map_err(io())?);
    let is_packed = file.fill_buf().map_err(io())?.starts_with(&[0x1f, 0x8b]);
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let name = name.trim_end_matches(".gz").trim_end_matches(".swf").to_owned();
    let input: Box<dyn Read> = if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    read(BufReader::new(input), name).map_err(|error| match error {
        Fault::Io(source) => Error::Io { path: path.to_owned(), source },
        Fault::Line(line, message) => Error::Usage(format!("{}: line {line}: {message}", path.display())),
    })
}

enum Fault {
    Io(std::io::Error),
    Line(usize, String),
}

fn read(mut input: impl BufRead, name: String) -> Result<Workload, Fault> {
    let mut workload = Workload { name, jobs: Vec::new(), processors: 0, left_out: 0 };
    let (mut bytes, mut number) = (Vec::new(), 0);
    loop {
        bytes.clear();
        number += 1;
        let length = input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes).map_err(Fault::Io)?;
        if length == 0 {
            break;
        }
        let line = std::str::from_utf8(&bytes).map_err(|_| Fault::Line(number, "it is not UTF-8".to_owned()));
        let line = if bytes.first() == Some(&b';') { String::from_utf8_lossy(&bytes) } else { line?.into() };
        let line = line.trim();
        if let Some(comment) = line.strip_prefix(';') {
            let told = comment.trim().strip_prefix("MaxProcs:").and_then(|rest| rest.trim().parse().ok());
            workload.processors = told.unwrap_or(workload.processors);
        } else if !line.is_empty() {
            match job(line).map_err(|message| Fault::Line(number, message))? {
                Some(job) => workload.jobs.push(job),
                None => workload.left_out += 1,
            }
            if workload.jobs.len() > MOST_JOBS {
                return Err(Fault::Line(number, format!("more than {MOST_JOBS} jobs")));
            }
        }
    }
    if workload.jobs.is_empty() {
        return Err(Fault::Line(number, "the log ends, and no job of it ran".to_owned()));
    }
    workload.jobs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.number.cmp(&b.number)));
    let first = workload.jobs[0].seconds;
    workload.jobs.iter_mut().for_each(|job| job.seconds -= first);
    let largest =
        workload.jobs.iter().map(|job| job.task.demand.as_ref().map_or(1.0, |d| d.cores) as u32).max();
    workload.processors = workload.processors.max(largest.unwrap_or(1));
    Ok(workload)
}

/// None if the job never ran, or nobody knows for how long or on what.
fn job(line: &str) -> Result<Option<Arrival>, String> {
    let wrong = || format!("expected 18 numbers, found '{}'", line.chars().take(60).collect::<String>());
    let numbers: Vec<f64> =
        line.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    if numbers.len() != 18 || !numbers.iter().all(|number| number.abs() < 1e15) {
        return Err(wrong());
    }
    let known = |field: usize| Some(numbers[field - 1]).filter(|number| *number > 0.0);
    let (Some(seconds), Some(processors)) = (known(4), known(5).or(known(8))) else { return Ok(None) };
    let number = numbers[0] as i64;
    let kind = match (known(14), known(12)) {
        (Some(program), _) => format!("program{program}"),
        (None, Some(user)) => format!("user{user}"),
        (None, None) => "job".to_owned(),
    };
    // Kibibytes for each processor.
    let memory = known(10).or(known(7)).map_or(0.0, |each| each * processors * 1024.0);
    let task = Task::new(format!("job{number}")).kind(kind).seconds(seconds).with_demand(|demand| {
        demand.cores = processors.min(1e6);
        demand.memory = memory.min(1e17) as u64;
    });
    Ok(Some(Arrival { seconds: numbers[1].max(0.0), number, task, after: known(17).map(|job| job as i64) }))
}

impl Workload {
    /// All jobs as one graph, whose only dependencies are those that the log tells; times of submission are left out.
    ///
    /// # Errors
    /// [`Error::Usage`] if two jobs have one number, or wait for each other.
    pub fn graph(&self) -> Result<JobGraph> {
        let wrong = |error: mdts_dag::Error| Error::Usage(format!("{}: {error}", self.name));
        let mut builder = JobGraph::builder(self.name.as_str());
        for job in &self.jobs {
            builder.task(job.task.clone()).map_err(wrong)?;
        }
        for (job, id) in self.jobs.iter().zip(0_u32..) {
            if let Some(parent) = job.after.and_then(|after| builder.find(&format!("job{after}"))) {
                builder.depend(id.into(), parent, 0.0);
            }
        }
        builder.build().map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Workload, String> {
        read(text.as_bytes(), "log".into()).map_err(|fault| match fault {
            Fault::Io(error) => error.to_string(),
            Fault::Line(line, message) => format!("{line}: {message}"),
        })
    }

    #[test]
    fn jobs_are_read() {
        let text = "; MaxProcs: 128\n;\u{1} comment\n\
                    1 100 5 60 4 -1 10 8 90 20 1 7 1 3 1 -1 -1 -1\n\
                    3 120 5 30 -1 -1 -1 2 90 -1 1 7 1 -1 1 -1 1 10\n\
                    2 110 5 -1 4 -1 -1 4 90 -1 5 7 1 3 1 -1 -1 -1\n";
        let log = parse(text).unwrap();
        assert_eq!((log.jobs.len(), log.left_out, log.processors), (2, 1, 128));
        assert_eq!((log.jobs[0].seconds, log.jobs[1].seconds, log.jobs[1].after), (0.0, 20.0, Some(1)));
        assert_eq!((&*log.jobs[0].task.kind, &*log.jobs[1].task.kind), ("program3", "user7"));
        let demand = log.jobs[0].task.demand.as_deref().unwrap();
        assert_eq!((demand.cores, demand.memory), (4.0, 4 * 20 * 1024));
        assert_eq!(log.graph().unwrap().dependency_count(), 1);
    }

    #[test]
    fn what_is_no_log_is_told_with_its_line() {
        for (text, expected) in [
            ("1 2 3", "1: expected 18"),
            ("", "no job of it ran"),
            (";x\n1 2 x 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8", "2: expected"),
            ("1 2 3 inf 5 6 7 8 9 0 1 2 3 4 5 6 7 8", "expected 18"),
        ] {
            let told = parse(text).unwrap_err();
            assert!(told.contains(expected), "{told}");
        }
        assert!(parse(&"1 ".repeat(100_000)).is_err());
        assert!(read(&b"\xff\n"[..], String::new()).is_err());
    }
}
