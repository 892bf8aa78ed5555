//! How urgent the jobs of a queue are: upward ranks in the workflows that their dependencies make. O(jobs + dependencies).

use std::collections::BTreeMap;

use mdts_dag::{DataModel, TaskId, analysis};

use super::{Queued, named_jobs};
use crate::JobRecord;
use crate::brain::Standing;

/// Where one job stands; of an array, its most urgent element.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// From its start to the end of its workflow, in seconds.
    up: f64,
    /// From now to its end at the earliest.
    end: f64,
    /// The longest way through its workflow.
    longest: f64,
    /// It has others to wait for or that wait for it.
    is_in_workflow: bool,
}

/// Where all jobs stand that have not ended.
#[derive(Debug, Clone, Default)]
pub struct Standings {
    places: BTreeMap<u32, Place>,
}

impl Standings {
    /// Ranks the jobs of a queue; `jobs` are those that its graph was made of.
    pub fn new(queued: &Queued, jobs: &[JobRecord]) -> Self {
        let flat = queued.graph.freeze();
        let weight = |task: TaskId| flat.work(task);
        let up = analysis::upward_rank(&flat, DataModel::Edges, weight, |_| 0.0);
        let down = analysis::downward_rank(&flat, DataModel::Edges, weight, |_| 0.0);
        let mut groups: Vec<usize> = (0..flat.len()).collect();
        for (parent, child, _) in queued.graph.dependencies() {
            let (a, b) = (root(&mut groups, parent.index()), root(&mut groups, child.index()));
            groups[a.max(b)] = a.min(b);
        }
        let (mut longest, mut sizes) = (vec![0.0_f64; flat.len()], vec![0_u32; flat.len()]);
        for task in flat.tasks() {
            let group = root(&mut groups, task.index());
            longest[group] = longest[group].max(up[task.index()] + down[task.index()]);
            sizes[group] += 1;
        }
        let mut places = BTreeMap::<u32, Place>::new();
        for task in flat.tasks() {
            let (i, group) = (task.index(), root(&mut groups, task.index()));
            let place = places.entry(jobs[queued.jobs[i]].id.job).or_default();
            place.up = place.up.max(up[i]);
            place.end = place.end.max(down[i] + flat.work(task));
            place.longest = longest[group];
            place.is_in_workflow |= sizes[group] > 1;
        }
        Self { places }
    }

    /// Where a job of the queue stands. None if it is unknown or in no workflow.
    pub fn of(&self, job: u32) -> Option<Standing> {
        let place = self.places.get(&job).filter(|place| place.is_in_workflow)?;
        Some(Standing { rank: Some((place.up, place.longest)), seconds: None })
    }

    /// Where a job will stand that waits for others and for which nothing waits yet.
    pub fn of_new(&self, dependency: &str, seconds: Option<f64>) -> Standing {
        let parents = named_jobs(dependency).into_iter().filter_map(|job| self.places.get(&job));
        let Some(own) = seconds else { return Standing::default() };
        let longest = parents.map(|parent| parent.longest.max(parent.end + own)).reduce(f64::max);
        Standing { rank: longest.map(|longest| (own, longest)), seconds: None }
    }
}

/// The first of a task's group; makes the way there shorter.
fn root(groups: &mut [usize], mut at: usize) -> usize {
    while groups[at] != at {
        groups[at] = groups[groups[at]];
        at = groups[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::graph;
    use crate::{JobId, JobState};

    /// Jobs of given number, minutes and dependency, all waiting.
    fn queue(rows: &[(u32, u64, &str)]) -> Vec<JobRecord> {
        let job = |(number, minutes, dependency): &(u32, u64, &str)| JobRecord {
            id: JobId::whole(*number),
            name: "a".into(),
            state: JobState::Pending,
            dependency: (*dependency).into(),
            limit_seconds: Some(minutes * 60),
            ..crate::queue::graph_tests::record()
        };
        rows.iter().map(job).collect()
    }

    #[test]
    fn ranks_follow_dependencies() {
        // 1 (10) --> 2 (20) --> 4 (5)      9 alone
        //       '--> 3 (1)  ----^
        let jobs = queue(&[
            (1, 10, ""),
            (2, 20, "afterok:1(unfulfilled)"),
            (3, 1, "afterok:1"),
            (4, 5, "afterok:2:3,afterany:77"),
            (9, 1, ""),
        ]);
        let queued = graph(&jobs, 0, |_| None).unwrap().unwrap();
        let standings = Standings::new(&queued, &jobs);
        let rank = |job| standings.of(job).and_then(|s| s.rank).map(|(rank, all)| (rank / 60.0, all / 60.0));
        assert_eq!(rank(1), Some((35.0, 35.0)));
        assert_eq!(rank(2), Some((25.0, 35.0)));
        assert_eq!(rank(3), Some((6.0, 35.0)));
        assert_eq!(rank(4), Some((5.0, 35.0)));
        assert_eq!((rank(9), rank(77)), (None, None));
        let new = |dependency, seconds| standings.of_new(dependency, seconds).rank;
        assert_eq!(new("afterok:3", Some(60.0)), Some((60.0, 35.0 * 60.0)));
        assert_eq!(new("afterok:4", Some(600.0)), Some((600.0, 45.0 * 60.0)));
        assert_eq!(new("afterok:77", Some(600.0)), None);
        assert_eq!(new("afterok:4", None), None);
    }
}
