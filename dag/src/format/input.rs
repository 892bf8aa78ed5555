//! From a path, a stream or bytes to a job graph.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{Format, dax, dot, gzip, own, stg, wfformat};
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
    let file = File::open(path).map_err(|source| Error::Io { path: path.into(), source })?;
    read_file(file, None, path)
}

/// Reads a job graph from a stream, to its end. `name` stands for the file in errors and, without its
/// extension, for the job if the text names none; it also takes part in detecting a format that is not given.
///
/// # Errors
/// As for [`read_path`].
pub fn read_from(input: impl Read, format: impl Into<Option<Format>>, name: &str) -> Result<JobGraph> {
    read_file(input, format.into(), Path::new(name))
}

/// Reads a job graph from bytes, packed or not. See [`read_from`] for `name`; `None` detects the format.
///
/// # Errors
/// As for [`read_path`].
pub fn read(bytes: &[u8], format: impl Into<Option<Format>>, name: &str) -> Result<JobGraph> {
    read_bytes(bytes.into(), format.into(), Path::new(name))
}

fn read_file(input: impl Read, format: Option<Format>, path: &Path) -> Result<JobGraph> {
    let mut bytes = Vec::new();
    let read = input.take(LIMIT + 1).read_to_end(&mut bytes);
    read.map_err(|source| Error::Io { path: path.into(), source })?;
    read_bytes(bytes.into(), format, path)
}

fn read_bytes(mut bytes: Cow<[u8]>, format: Option<Format>, path: &Path) -> Result<JobGraph> {
    if gzip::is_gzip(&bytes) {
        bytes = gzip::unpack(&bytes, LIMIT).map_err(|e| e.in_file(path))?.into();
    }
    let format = match format {
        Some(format) => format,
        None => Format::detect(path, &bytes)?,
    };
    let text = text(&bytes, format).map_err(|e| e.in_file(path))?;
    let name = job_name(path);
    let job = match format {
        Format::WfFormat => wfformat::read(text, &name),
        Format::Dax => dax::read(text, &name),
        Format::Stg => stg::read(text, &name),
        Format::Dot => dot::read(text, &name),
        Format::Yaml => own::read_yaml(text, &name),
        Format::Json => own::read_json(text, &name),
        Format::Toml => own::read_toml(text, &name),
    };
    job.map_err(|e| e.in_file(path))
}

/// The bytes as text that is not empty, without a byte-order mark.
fn text(bytes: &[u8], format: Format) -> Result<&str> {
    let error = |place: String, message: String| Error::Parse { format: format.name(), place, message };
    if bytes.len() as u64 > LIMIT {
        return Err(error("size".into(), format!("the file is larger than the {LIMIT} bytes allowed")));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        let line = bytes[..at].split(|b| *b == b'\n').count();
        error(
            format!("byte {at} (line {line})"),
            "not UTF-8 text; convert the file to UTF-8, for example with iconv".into(),
        )
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_ascii().is_empty() {
        let message = format!("the file is empty; expected a job graph as {}", format.name());
        return Err(error("line 1".into(), message));
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
