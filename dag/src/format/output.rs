//! From a job graph to a stream or a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Format, dot, own, stg, wfformat};
use crate::{Error, JobGraph, Result, whole};

/// Writes a job graph to a stream.
///
/// `WfFormat` and the own formats keep everything; DOT keeps bytes of dependencies but not which files they are in;
/// STG keeps times and dependencies only.
///
/// # Errors
/// [`Error::Io`]; [`Error::UnknownFormat`] for DAX, which is only read; [`Error::Parse`] for a graph that the
/// format cannot hold.
pub fn write(job: &JobGraph, format: Format, out: impl Write) -> Result<()> {
    write_to(job, format, out, Path::new("output"))
}

/// Writes a job graph to a file, in the format of its extension ([`Format::for_writing`]), packed if that ends
/// with `.gz`. The file appears whole or not at all.
///
/// # Errors
/// As for [`write`](fn@write), naming the file.
pub fn write_path(job: &JobGraph, path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let format = Format::for_writing(path)?;
    let io_error = |source| Error::Io { path: path.into(), source };
    // Devices and pipes cannot be replaced, only written to.
    if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let file = OpenOptions::new().write(true).open(path).map_err(io_error)?;
        return write_packed(job, format, &file, path);
    }
    whole::write(path, |file| write_packed(job, format, file, path).map_err(Failure::Format)).map_err(
        |failure| match failure {
            Failure::Format(error) => error,
            Failure::System(error) => io_error(error),
        },
    )
}

/// Why a file was not written.
enum Failure {
    Format(Error),
    System(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn write_packed(job: &JobGraph, format: Format, file: &File, path: &Path) -> Result<()> {
    let io_error = |source| Error::Io { path: path.into(), source };
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz")) {
        let mut encoder = GzEncoder::new(file, Compression::default());
        write_to(job, format, &mut encoder, path)?;
        encoder.finish().map(drop).map_err(io_error)
    } else {
        write_to(job, format, file, path)
    }
}

fn write_to(job: &JobGraph, format: Format, out: impl Write, path: &Path) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let written = match format {
        Format::WfFormat => wfformat::write(job, &mut out),
        Format::Dot => dot::write(job, &mut out),
        Format::Stg => stg::write(job, &stg::times(job).map_err(|e| e.in_file(path))?, &mut out),
        Format::Yaml => own::write_yaml(job, &mut out),
        Format::Json => own::write_json(job, &mut out),
        Format::Toml => own::write_toml(job, &mut out),
        Format::Dax => {
            let message = format!(
                "{}: DAX files are only read; write WfFormat (.json), DOT (.dot), STG (.stg) or the own format \
                 (.yaml, .toml)",
                path.display()
            );
            return Err(Error::UnknownFormat { message });
        }
    };
    written.and_then(|()| out.flush()).map_err(|source| Error::Io { path: path.into(), source })
}
