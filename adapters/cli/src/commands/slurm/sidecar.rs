//! `mdts serve --slurm`: the sidecar of slurmctld.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mdts_core::Planner;
use mdts_dag::generate::seeded;
use mdts_policies::predict::Predictor;
use mdts_slurm::sidecar::{Desk, Door, Durations, Server, Watch, WatchOptions};
use mdts_slurm::{Commands, CommandsOptions};
use tokio::sync::watch;

use super::common::{self, SOCKET, SteerFlags};
use crate::error::{Error, Result};
use crate::output;
use crate::settings::Settings;

/// How long a call of Slurm's programs may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Flags of `mdts serve` that speak of Slurm.
#[derive(Debug, clap::Args)]
pub(crate) struct SidecarFlags {
    /// Be the sidecar of a Slurm cluster: answer submit plugins on a Unix socket of mode 0660, and lead jobs that wait
    /// [socket by default: /run/mdts/slurm.sock]
    #[arg(long, conflicts_with_all = ["listen", "journal", "demo", "otlp"])]
    slurm: bool,
    /// Group of the sidecar's socket, by name or number; whoever is in it may ask
    #[arg(long, value_name = "GROUP", requires = "slurm")]
    group: Option<String>,
    /// Mode of the sidecar's socket; 0666 if users' own commands are to ask (`cli_filter`, mdts slurm filter)
    #[arg(long, value_name = "OCTAL", default_value = "0660", value_parser = octal, requires = "slurm")]
    mode: u32,
    /// Seconds between two looks at the cluster
    #[arg(long, value_name = "SECS", default_value_t = 2.0, value_parser = seconds, requires = "slurm")]
    interval: f64,
    /// Predict run times of jobs from this history, too, see mdts predict; else only from those that Slurm remembers
    #[arg(long, value_name = "FILE", requires = "slurm")]
    history: Option<PathBuf>,
    #[command(flatten)]
    steer: SteerFlags,
    /// Let hopeless requests pass
    #[arg(long, requires = "slurm")]
    no_refuse: bool,
    /// Answer submissions only, and leave jobs that wait alone
    #[arg(long, requires = "slurm")]
    no_lead: bool,
}

impl SidecarFlags {
    /// Whether the sidecar is asked for.
    pub(crate) fn are_given(&self) -> bool {
        self.slurm
    }

    /// `--history`.
    pub(crate) fn history(&self) -> Option<&Path> {
        self.history.as_deref()
    }

    /// Serves until a signal ends it.
    pub(crate) fn serve(
        &self,
        socket: Option<&Path>,
        planner: Box<dyn Planner>,
        settings: &Settings,
        quiet: bool,
    ) -> Result<()> {
        let path = socket.unwrap_or(Path::new(SOCKET)).to_owned();
        if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|source| Error::Output { path: folder.to_owned(), source })?;
        }
        let group = self.group.as_deref().map(group_number).transpose()?;
        let speeds = common::speeds(settings.cluster.as_deref())?;
        let predictor = match settings.history.as_deref() {
            Some(path) => {
                Predictor::load(path, settings.seed).map_err(|error| settings.blame("history", error))?
            }
            None => Predictor::new(settings.seed),
        };
        let options = WatchOptions {
            interval: Duration::from_secs_f64(self.interval),
            leads: !self.no_lead,
            nice_range: self.steer.nice_range(),
            speeds,
        };
        let runtime = common::runtime()?;
        let ended = runtime.block_on(async {
            let server =
                Server::bind(&Door { path: path.clone(), mode: self.mode, group }).map_err(Error::from)?;
            if !quiet {
                output::print(&format!("answering submissions of Slurm on {}\n", path.display()))?;
            }
            let desk = Arc::new(Desk::new(self.steer.settings(!self.no_refuse)));
            let slurm =
                Arc::new(Commands::new(CommandsOptions { limit: LIMIT, ..CommandsOptions::default() }));
            let watch = Watch::new(
                slurm,
                desk.clone(),
                Arc::from(planner),
                Durations::new(predictor),
                seeded(settings.seed),
                options,
            );
            let (stopping, stopped) = watch::channel(());
            let told = |mut stopped: watch::Receiver<()>| async move { _ = stopped.changed().await };
            let signal = super::super::serve::until_signal()?;
            let stop = async move {
                signal.await;
                drop(stopping);
            };
            tokio::join!(server.run(desk, told(stopped.clone())), watch.run(told(stopped)), stop);
            Ok(())
        });
        runtime.shutdown_background();
        ended
    }
}

fn octal(text: &str) -> std::result::Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && mode & 0o600 == 0o600);
    mode.ok_or_else(|| "expected a mode such as 0660".to_owned())
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.1..=30.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds from 0.1 to 30".to_owned())
}

/// The number of a group; names are looked up as the system does.
fn group_number(group: &str) -> Result<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let found = Command::new("getent").args(["group", group]).output();
    let entry = found.ok().and_then(|found| String::from_utf8(found.stdout).ok()).unwrap_or_default();
    let number = entry.split(':').nth(2).and_then(|number| number.trim().parse().ok());
    number
        .ok_or_else(|| Error::Usage(format!("--group: there is no group '{group}'; getent group lists them")))
}
