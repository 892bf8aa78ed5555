//! `mdts convert IN OUT`: from one format to another, or from a generator to a file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use mdts_dag::{JobGraph, format, generate};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::input;
use crate::output::{self, OutputFile};
use crate::settings::{ModelFlags, OtherFlags, Settings};

/// Arguments of `mdts convert`.
#[allow(clippy::doc_markdown)] // the texts are for the terminal
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mdts convert montage.dax.gz montage.dot\n  \
                        mdts convert workflow.yaml - --to wfformat | jq .\n  \
                        mdts convert --generate layered:tasks=500,ccr=0.5 random.json --seed 7")]
pub(crate) struct Convert {
    /// The file to read (- for standard input), then the file to write; with --generate the latter only. The
    /// extension of OUT tells the format: .json (WfFormat), .yaml, .toml and .mdts.json (own), .dot, .stg, each
    /// also with .gz; - writes to standard output
    #[arg(value_names = ["IN", "OUT"], num_args = 1..=2, required = true)]
    files: Vec<PathBuf>,
    /// Format of standard output
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Format>,
    /// Generate the workflow instead of reading one: NAME or NAME:parameter=value,...
    #[arg(long, value_name = "SPEC", long_help = generators())]
    generate: Option<String>,
    /// Seed of the generator [default: 0]
    #[arg(long, value_name = "N", requires = "generate")]
    seed: Option<u64>,
    /// Print one JSON object about what was written
    #[arg(long)]
    json: bool,
}

/// Formats that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Wfformat,
    Yaml,
    Json,
    Toml,
    Dot,
    Stg,
}

impl From<Format> for format::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Wfformat => Self::WfFormat,
            Format::Yaml => Self::Yaml,
            Format::Json => Self::Json,
            Format::Toml => Self::Toml,
            Format::Dot => Self::Dot,
            Format::Stg => Self::Stg,
        }
    }
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    input: String,
    output: String,
    format: &'static str,
    name: &'a str,
    tasks: usize,
    edges: usize,
}

impl Convert {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        let (from, to) = self.ends()?;
        let to_stdout = to == Path::new("-");
        let format = match (to_stdout, self.to) {
            (true, Some(format)) if !self.json => format.into(),
            (true, Some(_)) => return usage("--json needs standard output for itself; name a file to write"),
            (true, None) => return usage("say the format of standard output with --to FORMAT"),
            (false, Some(_)) => {
                return usage("--to is for standard output; the extension of a file tells its format");
            }
            (false, None) => format::Format::for_writing(to)?,
        };
        if format == format::Format::Dax {
            return usage("Pegasus DAX is only read; write .json (WfFormat), .yaml, .toml, .dot or .stg");
        }
        if !to_stdout {
            drop(OutputFile::create(to)?); // before the work, so that a long one is not in vain
        }
        let (job, label) = self.job(from)?;
        if to_stdout {
            let mut text = Vec::new();
            format::write(&job, format, &mut text)?;
            return output::print_as_is(&String::from_utf8_lossy(&text));
        }
        format::write_path(&job, to)?;
        let report = Report {
            input: label,
            output: to.display().to_string(),
            format: format.name(),
            name: job.name(),
            tasks: job.len(),
            edges: job.dependency_count(),
        };
        if self.json {
            return output::print_json(&report);
        }
        let Report { output: file, format, tasks, edges, .. } = report;
        if quiet {
            Ok(())
        } else {
            output::print(&format!("wrote {file}: {format}, {tasks} tasks, {edges} edges\n"))
        }
    }

    /// What to read (none if it is generated) and what to write.
    fn ends(&self) -> Result<(Option<&Path>, &Path)> {
        match (self.files.as_slice(), &self.generate) {
            ([from, to], None) => Ok((Some(from), to)),
            ([to], Some(_)) => Ok((None, to)),
            ([_, _, ..], Some(_)) => usage("with --generate, name only the file to write"),
            _ => usage("name the file to read and the file to write: mdts convert IN OUT"),
        }
    }

    fn job(&self, from: Option<&Path>) -> Result<(std::sync::Arc<JobGraph>, String)> {
        if let Some(spec) = &self.generate {
            let flags = ModelFlags { seed: self.seed, ..ModelFlags::default() };
            let seed = Settings::load(&flags, OtherFlags::default())?.seed;
            let job = generate::from_text(spec, &mut generate::seeded(seed))?;
            return Ok((job.into(), format!("generator {spec}")));
        }
        let job = input::job(from)?;
        Ok((job.graph, job.label))
    }
}

fn usage<T>(message: &str) -> Result<T> {
    Err(Error::Usage(message.into()))
}

/// The generators with their parameters, for `--help`.
fn generators() -> String {
    let mut text =
        "Generate the workflow instead of reading one: NAME or NAME:parameter=value,...\n\n".to_owned();
    for generator in generate::Generator::all() {
        let parameters: Vec<String> =
            generator.parameters().into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        _ = writeln!(text, "{}: {} {}", generator.name(), generator.about(), parameters.join(","));
    }
    text
}
