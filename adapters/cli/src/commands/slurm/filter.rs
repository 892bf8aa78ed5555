//! `mdts slurm filter < job.sh > job2.sh`: fail-open, whatever happens.
//!
//! The script on standard output is that on standard input with lines added behind the first one, or the same bytes. It is never
//! refused, unless `--strict` asks for that.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use mdts_slurm::ask::ask;
use mdts_slurm::brain::{Decision, Request, Verdict};
use mdts_slurm::filter::{Sources, filter};
use mdts_slurm::queue::{Standings, graph};
use mdts_slurm::sidecar::{Desk, Speeds, look};
use mdts_slurm::{Commands, CommandsOptions};

use super::common::{self, SOCKET, SteerFlags};
use crate::error::{Error, Result, one_line};
use crate::output;

/// How long the sidecar may take: nobody but the user waits here.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long Slurm may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Arguments of `mdts slurm filter`.
#[derive(Debug, clap::Args)]
pub(super) struct Filter {
    /// Socket of the sidecar; where there is none, Slurm itself is asked what there is [default: /run/mdts/slurm.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Cluster file with the speeds of nodes, for when no sidecar is asked
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    #[command(flatten)]
    steer: SteerFlags,
    /// Print nothing and end with 1 if the job can never run; without this the script passes and Slurm has the last word
    #[arg(long)]
    strict: bool,
    /// Options that sbatch will get beside those in the script: they come first
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    options: Vec<String>,
}

impl Filter {
    pub(super) fn carry_out(&self, quiet: bool) -> Result<ExitCode> {
        let mut script = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut script);
        // Half a script must not be submitted.
        read.map_err(|source| Error::Input { path: "standard input".into(), source })?;
        let sources = Sources { command_line: self.options.clone(), variables: variables() };
        let text = match filter(&script, &sources, |request| self.decide(request)) {
            Ok(Ok((text, note))) => {
                tell(quiet || note.is_empty(), &note);
                text
            }
            Ok(Err(message)) if self.strict => {
                return Err(Error::Failed(format!("the job can never run: {message}")));
            }
            Ok(Err(message)) => {
                tell(false, &format!("the job can never run: {message}"));
                script
            }
            Err(obstacle) => {
                tell(quiet, &format!("the script stays as it is: {obstacle}"));
                script
            }
        };
        let mut out = io::stdout().lock();
        out.write_all(&text).and_then(|()| out.flush()).map_err(Error::Stdout)?;
        Ok(ExitCode::SUCCESS)
    }

    fn decide(&self, request: &Request) -> Verdict {
        let socket = self.socket.as_deref().unwrap_or(Path::new(SOCKET));
        let asked = ask(socket, &request.to_wire(), PATIENCE).map_err(|error| error.to_string());
        let answer = asked.and_then(|answer| Verdict::from_wire(&answer).map_err(|error| error.to_string()));
        match answer {
            Ok(verdict) => verdict,
            Err(error) if self.socket.is_some() => Verdict::Go(Decision::none(format!(
                "the sidecar at {} does not answer: {error}",
                socket.display()
            ))),
            Err(_) => self
                .decide_alone(request)
                .unwrap_or_else(|error| Verdict::Go(Decision::none(error.to_string()))),
        }
    }

    /// Looks at the cluster itself: slower, and without knowing what others have been promised.
    fn decide_alone(&self, request: &Request) -> Result<Verdict> {
        let speeds: Speeds = common::speeds(self.cluster.as_deref())?;
        let runtime = common::runtime()?;
        let verdict = runtime.block_on(async {
            let slurm = Commands::new(CommandsOptions { limit: LIMIT, ..CommandsOptions::default() });
            let desk = Desk::new(self.steer.settings(true));
            let began = desk.now();
            let seen = look(&slurm).await?;
            let queued = graph(&seen.jobs, seen.now, |_| None)?;
            let standings = queued.map(|queued| Standings::new(&queued, &seen.jobs)).unwrap_or_default();
            desk.see(seen.view(&speeds), standings, began);
            let user = rustix::process::getuid().as_raw();
            Ok::<_, mdts_slurm::Error>(desk.decide(&Request { user: Some(user), ..request.clone() }).await)
        });
        // A file system that hangs must not keep the script.
        runtime.shutdown_background();
        verdict.map_err(|error| Error::Failed(error.to_string()))
    }
}

fn variables() -> Vec<(String, String)> {
    let all = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    all.filter(|(name, _)| name.starts_with("SBATCH_")).collect()
}

fn tell(quiet: bool, message: &str) {
    if !quiet {
        output::complain(&format!("mdts slurm filter: {}\n", one_line(message)));
    }
}
