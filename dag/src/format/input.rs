//! From a path, a stream or bytes to a job graph.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{Format, dax, dot, gzip, own, place, stg, wfformat};
use crate::{Error, JobGraph, Result};

/// The largest text that is read, packed or unpacked: 4 GiB.
const LIMIT: u64 = 4 << 30;

/// Reads the job graph in a file of any supported format.
///
/// ```no_run
/// let job = mdts_dag::format::read_path("montage.json.gz")?;
/// # Ok::<(), mdts_dag::Error>(())
/// ```
///
/// # Errors
/// [`Error::Io`], [`Error::UnknownFormat`], [`Error::Parse`] and those of
/// [`JobGraphBuilder::build`](crate::JobGraphBuilder::build), naming the file.
pub fn read_path(path: impl AsRef<Path>) -> Result<JobGraph> {
    let path = path.as_ref();
    let file = File::open(path).map_err(|source| io(source, path))?;
    read_file(file, None, path, LIMIT)
}

/// Reads a job graph from a stream, to its end. `name` stands for the file in errors and, without its
/// extension, for the job if the text names none; it also takes part in detecting a format that is not given.
///
/// # Errors
/// As for [`read_path`].
pub fn read_from(input: impl Read + Send, format: impl Into<Option<Format>>, name: &str) -> Result<JobGraph> {
    read_file(input, format.into(), Path::new(name), LIMIT)
}

/// Reads a job graph from bytes, packed or not. See [`read_from`] for `name`; `None` detects the format.
///
/// # Errors
/// As for [`read_path`].
pub fn read(bytes: &[u8], format: impl Into<Option<Format>>, name: &str) -> Result<JobGraph> {
    read_file(bytes, format.into(), Path::new(name), LIMIT)
}

/// The same for bytes from strangers: the text may have `limit` bytes, packed and unpacked; at most 4 GiB in any case. Texts in
/// the project's own format may have an object per 64 bytes of that and an item of a list per 12, and TOML an eighth of the bytes, so
/// that what they stand for is not much larger.
///
/// # Errors
/// As for [`read_path`]; a longer text is an [`Error::Parse`], one that holds more an [`Error::TooLarge`].
pub fn read_within(
    bytes: &[u8],
    format: impl Into<Option<Format>>,
    name: &str,
    limit: u64,
) -> Result<JobGraph> {
    read_file(bytes, format.into(), Path::new(name), limit.min(LIMIT))
}

/// Whether a text of the project's own format from a stranger holds no more than [`read_within`] takes.
///
/// # Errors
/// [`Error::TooLarge`].
pub fn check_within(text: &str, format: Format, limit: u64) -> Result<()> {
    own::check_size(text, format, limit)
}

/// Adds the tasks of a text to a graph: JSON in the project's own format, whose tasks may depend on those that are there, and
/// whose name, if it has one, says nothing. What is there stays as it is, see [`JobGraph::into_builder`].
///
/// ```
/// use mdts_dag::format::{self, Format};
/// let job = format::read(b"tasks: [{name: split, work: 2}]", Format::Yaml, "job")?;
/// let job = format::extend(job, r#"{"tasks": [{"name": "sort", "work": 1, "after": ["split"]}]}"#)?;
/// assert_eq!((job.len(), job.dependency_count()), (2, 1));
/// # Ok::<(), mdts_dag::Error>(())
/// ```
///
/// # Errors
/// [`Error::Parse`] and those of [`JobGraphBuilder::build`](crate::JobGraphBuilder::build).
pub fn extend(job: JobGraph, text: &str) -> Result<JobGraph> {
    own::extend_json(job, text)
}

/// `WfFormat`, the format of large files, is read in pieces; texts of other formats are held as a whole.
fn read_file(
    mut input: impl Read + Send,
    format: Option<Format>,
    path: &Path,
    limit: u64,
) -> Result<JobGraph> {
    let begin = beginning(&mut input).map_err(|source| io(source, path))?;
    let job = if gzip::is_gzip(&begin) {
        let packed = begin.chain(input).take(limit);
        read_packed(gzip::unpacking(packed, limit), format, path, limit)
    } else if is_wfformat(&begin, format, path) {
        let mut text = Limited { input: without_mark(&begin).chain(input), left: limit, limit };
        wfformat::read(&mut text, &job_name(path))
    } else {
        read_whole(begin, input.take(limit + 1), format, path, limit)
    };
    job.map_err(|e| named(e, path))
}

fn read_packed(
    mut text: impl Read + Send,
    format: Option<Format>,
    path: &Path,
    limit: u64,
) -> Result<JobGraph> {
    let begin = beginning(&mut text).map_err(place::unhidden)?;
    if is_wfformat(&begin, format, path) {
        gzip::read_behind(text, |rest| wfformat::read(&mut without_mark(&begin).chain(rest), &job_name(path)))
    } else {
        read_whole(begin, text, format, path, limit)
    }
}

fn read_whole(
    begin: Vec<u8>,
    mut rest: impl Read,
    format: Option<Format>,
    path: &Path,
    limit: u64,
) -> Result<JobGraph> {
    let mut bytes = begin;
    rest.read_to_end(&mut bytes).map_err(place::unhidden)?;
    read_text(&bytes, format, path, limit)
}

fn read_text(bytes: &[u8], format: Option<Format>, path: &Path, limit: u64) -> Result<JobGraph> {
    let format = match format {
        Some(format) => format,
        None => Format::detect(path, bytes)?,
    };
    let text = text(bytes, format, limit)?;
    if limit < LIMIT {
        own::check_size(text, format, limit)?;
    }
    let name = job_name(path);
    match format {
        Format::WfFormat => wfformat::read(&mut text.as_bytes(), &name),
        Format::Dax => dax::read(text, &name),
        Format::Stg => stg::read(text, &name),
        Format::Dot => dot::read(text, &name),
        Format::Yaml => own::read_yaml(text, &name),
        Format::Json => own::read_json(text, &name),
        Format::Toml => own::read_toml(text, &name),
    }
}

/// Bytes of a text that are looked at before the rest is read.
const PEEK: u64 = 1 << 16;

fn beginning(text: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    text.take(PEEK).read_to_end(&mut begin)?;
    Ok(begin)
}

/// Whether the beginning of a text tells that it is `WfFormat`, and more than blanks.
fn is_wfformat(begin: &[u8], format: Option<Format>, path: &Path) -> bool {
    let detected = format.or_else(|| Format::detect(path, begin).ok());
    detected == Some(Format::WfFormat) && !without_mark(begin).trim_ascii().is_empty()
}

/// The text behind its byte-order mark, if it has one.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// Fails when there is more than allowed.
struct Limited<R> {
    input: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(into)?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| std::io::Error::other(too_large(Format::WfFormat, self.limit)))?;
        Ok(read)
    }
}

fn too_large(format: Format, limit: u64) -> Error {
    place::error(format, "size", format_args!("the file is larger than the {limit} bytes allowed"))
}

fn io(source: std::io::Error, path: &Path) -> Error {
    Error::Io { path: path.into(), source }
}

/// The error with the file's name, which a reader of pieces does not know.
fn named(error: Error, path: &Path) -> Error {
    match error {
        Error::Io { source, .. } => io(source, path),
        other => other.in_file(path),
    }
}

/// The bytes as text that is not empty, without a byte-order mark.
fn text(bytes: &[u8], format: Format, limit: u64) -> Result<&str> {
    if bytes.len() as u64 > limit {
        return Err(too_large(format, limit));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        place::not_utf8(format, at, bytes[..at].split(|b| *b == b'\n').count())
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        let message = format_args!("the file is empty; expected a job graph as {}", format.name());
        return Err(place::error(format, "line 1", message));
    }
    Ok(text)
}

/// The file's name without its extensions.
fn job_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    if stem.is_empty() || stem == "-" { "job".into() } else { stem.into() }
}
