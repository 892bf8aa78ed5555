//! Looks at the cluster again and again, shows the brain what there is, and leads jobs that wait.
//!
//! One look is four calls of Slurm's programs, whatever the number of jobs. When Slurm does not answer, the last view grows old, the
//! brain lets everything pass, and the looks become rarer until Slurm answers again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mdts_core::{Planner, Rng};

use super::Desk;
use super::durations::Durations;
use super::planning::{Situation, Steps, undone};
use super::survey::{Look, Speeds};
use crate::queue::{Standings, graph};
use crate::{Change, Error, Result, Selection, Slurm};

/// The longest pause while Slurm does not answer.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A look takes at most this part of the time: after a slow one there is a longer pause.
const SHARE: u32 = 5;
/// Changes of one round; Slurm takes each under its locks.
const MOST_CHANGES: usize = 200;
/// How long taking back the changes may keep the sidecar from ending.
const FAREWELL: Duration = Duration::from_secs(10);

/// How the cluster is watched.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// Between two looks.
    pub interval: Duration,
    /// Whether jobs that wait are led; else the watch only looks.
    pub leads: bool,
    /// How far priorities are lowered; 0 leaves them alone.
    pub nice_range: u32,
    /// Speeds of nodes.
    pub speeds: Speeds,
}

/// The watch.
#[derive(Debug)]
pub struct Watch {
    slurm: Arc<dyn Slurm>,
    desk: Arc<Desk>,
    planner: Arc<dyn Planner>,
    durations: Arc<Mutex<Durations>>,
    rng: Rng,
    options: WatchOptions,
    /// Slurm does not let this user change others' jobs.
    is_forbidden: bool,
}

impl Watch {
    /// A watch over a cluster for a desk.
    pub fn new(
        slurm: Arc<dyn Slurm>,
        desk: Arc<Desk>,
        planner: Arc<dyn Planner>,
        durations: Durations,
        rng: Rng,
        options: WatchOptions,
    ) -> Self {
        let durations = Arc::new(Mutex::new(durations));
        Self { slurm, desk, planner, durations, rng, options, is_forbidden: false }
    }

    /// Watches until `stop` is done, and then takes back what waiting jobs were changed.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut pause = self.options.interval;
        loop {
            let begun = tokio::time::Instant::now();
            let round = tokio::select! {
                () = &mut stop => break,
                round = self.round() => round,
            };
            pause = match round {
                Ok(()) => self.options.interval.max(begun.elapsed() * (SHARE - 1)),
                Err(error) => {
                    tracing::warn!(%error, "Slurm was not seen; submissions pass unchanged once the last view is old");
                    (pause * 2).clamp(self.options.interval, LONGEST_PAUSE)
                }
            };
            tokio::select! {
                () = &mut stop => break,
                () = tokio::time::sleep(pause) => {}
            }
        }
        if self.options.leads && !self.is_forbidden {
            _ = tokio::time::timeout(FAREWELL, self.take_back()).await;
        }
    }

    /// One look, one plan, and what follows from it.
    ///
    /// # Errors
    /// Those of [`Slurm`].
    pub async fn round(&mut self) -> Result<()> {
        let began = self.desk.now();
        let look = look(&*self.slurm).await?;
        let (options, planner, durations) =
            (self.options.clone(), self.planner.clone(), self.durations.clone());
        let (leads, mut rng) = (self.options.leads && !self.is_forbidden, self.rng.clone());
        // Plans of large queues take longer than an answer may.
        let planned = tokio::task::spawn_blocking(move || {
            let planned = plan(&look, &options, leads, &*planner, &durations, &mut rng);
            planned.map(|(view, standings, steps)| (view, standings, steps, rng))
        });
        let strange = |error: tokio::task::JoinError| Error::Strange {
            what: "planning".to_owned(),
            message: error.to_string(),
        };
        let (view, standings, mut steps, rng) = planned.await.map_err(strange)??;
        self.rng = rng;
        self.desk.see(view, standings, began);
        steps.changes.truncate(MOST_CHANGES);
        self.carry_out(&steps.changes).await
    }

    async fn carry_out(&mut self, changes: &[Change]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let refused = self.slurm.update(changes).await?;
        let is_right = |why: &String| why.contains("ermission denied") || why.contains("not permitted");
        if refused.len() == changes.len() && refused.iter().all(|(_, why)| is_right(why)) {
            tracing::error!(
                "Slurm does not let this user change jobs: run the sidecar as SlurmUser or as an operator; jobs that wait are left alone"
            );
            self.is_forbidden = true;
        }
        // Jobs start or end between the look and the change.
        for (at, why) in &refused {
            tracing::debug!(?changes, at, why, "a job is left as it is");
        }
        tracing::info!(
            changed = changes.len() - refused.len(),
            refused = refused.len(),
            "jobs that wait were led"
        );
        Ok(())
    }

    async fn take_back(&mut self) -> Result<()> {
        let changes = undone(&self.slurm.jobs(&Selection::All).await?);
        self.carry_out(&changes).await
    }
}

/// Looks at everything.
///
/// # Errors
/// Those of [`Slurm`].
pub async fn look(slurm: &dyn Slurm) -> Result<Look> {
    let all = Selection::All;
    let (nodes, partitions, jobs, config) =
        tokio::join!(slurm.nodes(), slurm.partitions(), slurm.jobs(&all), slurm.config());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Ok(Look { nodes: nodes?, partitions: partitions?, jobs: jobs?, config: config?, now })
}

type Planned = (crate::brain::View, Standings, Steps);

fn plan(
    look: &Look,
    options: &WatchOptions,
    leads: bool,
    planner: &dyn Planner,
    durations: &Mutex<Durations>,
    rng: &mut Rng,
) -> Result<Planned> {
    let mut view = look.view(&options.speeds);
    let mut durations = durations.lock().unwrap_or_else(PoisonError::into_inner);
    durations.learn(&look.jobs, &view);
    let queued = graph(&look.jobs, look.now, |job| durations.expect(job, &view))?;
    let Some(queued) = queued else { return Ok((view, Standings::default(), Steps::default())) };
    let standings = Standings::new(&queued, &look.jobs);
    if !leads {
        return Ok((view, standings, Steps::default()));
    }
    let situation = Situation {
        look,
        view: &view,
        queued: &queued,
        standings: &standings,
        nice_range: options.nice_range,
    };
    let steps = situation.steps(planner, rng).unwrap_or_else(|error| {
        tracing::warn!(%error, "the queue cannot be planned; jobs that wait are left alone");
        Steps::default()
    });
    view.running.extend(steps.planned.iter().cloned());
    Ok((view, standings, steps))
}
