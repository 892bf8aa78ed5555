//! Predictions for whole jobs: unknown run times filled in, known ones learnt.

use mdts_core::Cluster;
use mdts_core::runner::{RunReport, TaskOutcome};
use mdts_dag::{JobGraph, Work};

use super::history::Place;
use super::{Features, Predictor, Result, Source};

/// A job whose run times are all known or predicted.
#[derive(Debug, Clone)]
pub struct Filled {
    /// The job.
    pub job: JobGraph,
    /// How many run times were predicted, by what they rest on: [`Source::Kind`], `Name`, `Looks`.
    pub predicted: [usize; 3],
}

impl Filled {
    /// How many run times were predicted.
    pub fn count(&self) -> usize {
        self.predicted.iter().sum()
    }
}

impl Predictor {
    /// The same job with predicted seconds, on a node of speed 1, for all tasks of unknown run time.
    ///
    /// ```
    /// use mdts_dag::{JobGraph, Task, Work};
    /// use mdts_policies::predict::Predictor;
    /// let mut seen = JobGraph::builder("seen");
    /// seen.task(Task::new("align_1").seconds(4.0))?;
    /// let mut predictor = Predictor::new(0);
    /// predictor.learn(&seen.build()?)?;
    /// let mut new = JobGraph::builder("new");
    /// let task = new.task(Task::new("align_7"))?;
    /// let filled = predictor.fill(&new.build()?)?;
    /// assert_eq!(filled.count(), 1);
    /// assert!(matches!(filled.job.task(task).work, Work::Seconds(s) if (s - 4.0).abs() < 1e-9));
    /// # Ok::<(), mdts_policies::predict::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`super::Error::Empty`] if there are such tasks and nothing was learnt.
    pub fn fill(&self, job: &JobGraph) -> Result<Filled> {
        let mut predicted = [0; 3];
        let mut work = Vec::with_capacity(job.len());
        for (task, features) in job.tasks().zip(Features::of_job(job)) {
            work.push(match &task.work {
                Work::Unknown => {
                    let prediction = self.predict(&task.kind, &features)?;
                    predicted[prediction.source as usize] += 1;
                    Work::Seconds(prediction.seconds)
                }
                known => known.clone(),
            });
        }
        Ok(Filled { job: job.with_work(work)?, predicted })
    }

    /// Learns the stated run times of a job as one run, those in seconds on a node of speed 1. Returns how many.
    ///
    /// # Errors
    /// None that a valid job can cause, but those of [`Predictor::observe`].
    pub fn learn(&mut self, job: &JobGraph) -> Result<usize> {
        self.begin_run();
        let mut learnt = 0;
        for (task, features) in job.tasks().zip(Features::of_job(job)) {
            if let Work::Seconds(seconds) = task.work {
                self.observe(&task.kind, features, seconds)?;
                learnt += 1;
            }
        }
        Ok(learnt)
    }

    /// Learns the run times of the tasks that succeeded in a run, on the nodes where they ran. Returns how many.
    ///
    /// # Errors
    /// Those of [`Predictor::observe`].
    pub fn learn_run(&mut self, job: &JobGraph, cluster: &Cluster, report: &RunReport) -> Result<usize> {
        self.begin_run();
        let mut learnt = 0;
        for ((task, features), ran) in job.tasks().zip(Features::of_job(job)).zip(&report.tasks) {
            if let (TaskOutcome::Succeeded, Some(node)) = (&ran.outcome, ran.node) {
                let node = cluster.node(node);
                let features = features.on(node, &task.kind);
                // What a task ran while no process was at the run is in what its own process told alone.
                let seconds = ran.usage.map_or(ran.finish - ran.start, |usage| usage.seconds);
                let expected = match &task.work {
                    Work::Seconds(seconds) => Some(seconds / features.speed),
                    Work::PerNode(times) => {
                        times.iter().find(|(name, _)| **name == *node.name).map(|(_, t)| *t)
                    }
                    Work::Unknown => None,
                };
                let place = expected.map(|expected| Place { node: node.name.as_str().into(), expected });
                self.observe_on(&task.kind, features, seconds.max(0.0), place)?;
                learnt += 1;
            }
        }
        Ok(learnt)
    }
}

const _: () = assert!(Source::Kind as usize == 0 && Source::Looks as usize == 2);
