//! What is needed to start the process of an attempt, wherever its parent is.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mdts_core::engine::TaskRun;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The variable that tells processes of one attempt from others, as `JOB.TASK.ATTEMPT` in numbers.
pub(crate) const MARK: &str = "MDTS_RUN";

/// The variable by which programs know the GPUs that are theirs.
pub(crate) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Variables with their values.
pub(crate) type Environment = Vec<(OsString, OsString)>;

/// A process to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) run: TaskRun,
    #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
    pub(crate) program: PathBuf,
    /// What the program is told it is called, and its arguments.
    pub(crate) arguments: Vec<String>,
    #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
    pub(crate) directory: PathBuf,
    pub(crate) variables: Vec<(String, String)>,
    /// Where its output goes.
    #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
    pub(crate) out: PathBuf,
    #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
    pub(crate) err: PathBuf,
    pub(crate) needs: Needs,
}

/// What an attempt gets and what it may take.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Needs {
    /// Most bytes kept of each stream of output; `None`: all.
    pub(crate) output: Option<u64>,
    /// Most bytes of memory; `None`: any number.
    pub(crate) memory: Option<u64>,
    /// The control group that holds those of attempts; `None`: memory is watched by looking at processes.
    pub(crate) cgroups: Option<OsString>,
    /// Thousandths of processors to be bound to; `None`: it may run on all.
    pub(crate) processors: Option<u32>,
    /// GPUs to be given by index.
    pub(crate) gpus: Option<Gpus>,
}

/// GPUs wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gpus {
    /// Those of the node: the first, and how many.
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Thousandths wanted.
    pub(crate) wanted: u32,
}

/// A process that is about to be started.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    pub(crate) launch: &'a Launch,
    /// For its output and its complaints.
    pub(crate) files: [File; 2],
    /// The value of [`VISIBLE`], if it is to have one.
    pub(crate) gpus: Option<String>,
}

impl Start<'_> {
    /// It as a command with the environment of this process.
    pub(crate) fn command(self) -> Command {
        let Launch { program, arguments, directory, variables, .. } = self.launch;
        let mut command = Command::new(program);
        if let Some((name, arguments)) = arguments.split_first() {
            command.arg0(name).args(arguments);
        }
        let [out, err] = self.files;
        command
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .envs(self.gpus.map(|gpus| (VISIBLE, gpus)))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0);
        command
    }
}

/// A path need not be UTF-8.
fn write_path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().serialize(to)
}

fn read_path<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    OsString::deserialize(from).map(PathBuf::from)
}

/// An attempt as the text in [`MARK`].
pub(crate) fn mark(run: TaskRun) -> String {
    format!("{}.{}.{}", run.job.get(), run.task.get(), run.attempt)
}
