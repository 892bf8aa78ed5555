//! Stories in virtual time.

use std::collections::BinaryHeap;

use mdts_core::{Link, Network, SlotModel};
use mdts_dag::DataModel;

use super::{Brain, Change, Decided, NewJob, Outcome, Report, Terms};
use crate::api::{JobState, NodeSpec, Place, Problem, What};

fn terms() -> Terms {
    Terms {
        slots: SlotModel::Exclusive,
        data: DataModel::Edges,
        network: Network::uniform(Link::INSTANT),
        node_lease: 0.0,
        job_lease: 0.0,
        keep_seconds: 100.0,
        keep_tasks: 1000,
        most_bytes: 1 << 30,
    }
}

/// A brain whose changes are kept.
struct Story {
    brain: Brain,
    past: Vec<(f64, Change, Vec<Decided>)>,
}

impl Story {
    fn new(policy: &str, speeds: &[f64]) -> Result<Self, Problem> {
        let mut story = Self { brain: brain(policy)?, past: Vec::new() };
        let spec = |speed: &f64| NodeSpec { speed: *speed, ..NodeSpec::default() };
        let nodes: Vec<(String, NodeSpec)> =
            speeds.iter().enumerate().map(|(i, speed)| (format!("m{i}"), spec(speed))).collect();
        story.tell(0.0, Change::nodes(nodes.iter().map(|(name, spec)| (name, spec))))?;
        Ok(story)
    }

    fn tell(&mut self, now: f64, change: Change) -> Result<Outcome, Problem> {
        let outcome = self.brain.apply(now, &change)?;
        self.past.push((now, change, self.brain.take_decided()));
        Ok(outcome)
    }

    /// A job of equal independent tasks, all asked for.
    fn submit(
        &mut self,
        now: f64,
        client: &str,
        share: f64,
        tasks: usize,
        work: f64,
    ) -> Result<u32, Problem> {
        let list: Vec<String> = (0..tasks).map(|i| format!("{{name: t{i}, work: {work}}}")).collect();
        let text = format!("tasks: [{}]", list.join(", ")).into_bytes();
        let new =
            NewJob { name: client.into(), client: Some(client.into()), share, text, ..NewJob::default() };
        let Outcome::Submitted(job) = self.tell(now, Change::Submitted(new))? else {
            return Err(Problem::internal("no job"));
        };
        let (_, wanted) = self.brain.wanted(job, &Place::default())?;
        self.tell(now, Change::asked(job, &wanted))?;
        Ok(job.get())
    }
}

fn brain(policy: &str) -> Result<Brain, Problem> {
    let policy = mdts_policies::find(policy).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Brain::new(terms(), policy.placer(0)))
}

/// An attempt that runs; the heap gives the one that ends first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    microseconds_left: std::cmp::Reverse<u64>,
    job: u32,
    task: u32,
    attempt: u32,
}

/// Runs two jobs until one of them has had all its tasks started; returns the node seconds that each got by then.
fn shared_fairly(policy: &str, shares: [f64; 2]) -> Result<[f64; 2], Problem> {
    let mut story = Story::new(policy, &[1.0, 1.0, 2.0, 4.0])?;
    let (many, few) = (400, 200);
    let jobs = [story.submit(0.0, "a", shares[0], many, 2.0)?, story.submit(0.0, "b", shares[1], few, 5.0)?];
    let (mut seen, mut got, mut heap) = ([0_usize; 2], [0.0; 2], BinaryHeap::new());
    let mut now = 0_u64;
    loop {
        for (i, job) in jobs.iter().enumerate() {
            let grants = story.brain.grants((*job).into(), seen[i] as u64)?;
            seen[i] = grants.after as usize;
            for grant in &grants.grants {
                let speed = [1.0, 1.0, 2.0, 4.0][grant.node[1..].parse::<usize>().unwrap_or(0)];
                let seconds = [2.0, 5.0][i] / speed;
                got[i] += seconds;
                let task = story.brain.task((*job).into(), &grant.task)?.get();
                let end = now + (seconds * 1e6) as u64;
                heap.push(Running {
                    microseconds_left: std::cmp::Reverse(end),
                    job: *job,
                    task,
                    attempt: grant.attempt,
                });
            }
        }
        if seen[0] == many || seen[1] == few {
            return Ok(got);
        }
        let Some(ends) = heap.pop() else { return Err(Problem::internal("nothing runs")) };
        now = ends.microseconds_left.0;
        let report = Report {
            task: ends.task,
            attempt: ends.attempt,
            what: What::Finished,
            seconds: None,
            reason: None,
        };
        story.tell(now as f64 / 1e6, Change::Events { job: ends.job, events: vec![report] })?;
    }
}

#[test]
fn two_clients_share_unequal_nodes_fairly() -> Result<(), Problem> {
    for policy in ["eft", "mdts", "heft"] {
        for (shares, expected) in [([1.0, 1.0], 1.0), ([3.0, 1.0], 3.0)] {
            let [a, b] = shared_fairly(policy, shares)?;
            let ratio = a / b / expected;
            assert!((0.85..1.18).contains(&ratio), "{policy} {shares:?}: {a} and {b} node seconds");
        }
    }
    Ok(())
}

#[test]
fn higher_priority_comes_first() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    let low = story.submit(0.0, "a", 1.0, 3, 1.0)?;
    let text = b"tasks: [{name: urgent, work: 1}]".to_vec();
    let new = NewJob { name: "b".into(), priority: 5, share: 1.0, text, ..NewJob::default() };
    story.tell(0.5, Change::Submitted(new))?;
    story.tell(0.5, Change::Asked(vec![(1, vec![0])]))?;
    let report = Report { task: 0, attempt: 1, what: What::Finished, seconds: None, reason: None };
    story.tell(1.0, Change::Events { job: low, events: vec![report] })?;
    assert_eq!(story.brain.grants(1.into(), 0)?.grants.len(), 1, "it overtakes what waited");
    assert_eq!(story.brain.grants(low.into(), 0)?.grants.len(), 1);
    Ok(())
}

/// A story with everything in it.
fn eventful(policy: &str) -> Result<Story, Problem> {
    let mut story = Story::new(policy, &[1.0, 2.0, 3.0])?;
    let first = story.submit(0.0, "a", 1.0, 6, 1.0)?;
    let report = |task, what| Report { task, attempt: 1, what, seconds: Some(0.5), reason: Some("x".into()) };
    let granted = story.brain.grants(first.into(), 0)?.grants;
    let ids: Vec<u32> = granted
        .iter()
        .map(|g| story.brain.task(first.into(), &g.task).map(mdts_dag::TaskId::get))
        .collect::<Result<_, _>>()?;
    story.tell(
        1.0,
        Change::Events {
            job: first,
            events: vec![report(ids[0], What::Finished), report(ids[1], What::Failed)],
        },
    )?;
    story.submit(1.5, "b", 2.0, 5, 2.0)?;
    story.tell(2.0, Change::NodeGone { node: 1, removed: false })?;
    story.tell(2.5, Change::NodeDrained(2))?;
    let grown = [
        ("m1".to_owned(), NodeSpec::default()),
        ("new".to_owned(), NodeSpec { speed: 5.0, ..NodeSpec::default() }),
    ];
    story.tell(3.0, Change::nodes(grown.iter().map(|(name, spec)| (name, spec))))?;
    let tasks = r#"{"tasks": [{"name": "more", "work": 1, "after": ["t0"]}]}"#.to_owned();
    story.tell(3.5, Change::Extended { job: 1, tasks, predicted: Vec::new(), parsed: None })?;
    story.tell(4.0, Change::Lapsed(1))?;
    story.tell(4.5, Change::Asked(vec![(1, vec![0, 1, 5])]))?;
    story.tell(5.0, Change::NodeUndrained(2))?;
    story.tell(5.5, Change::Cancelled(0))?;
    story.tell(6.0, Change::Forgotten(vec![0]))?;
    story.tell(6.5, Change::Opened)?;
    Ok(story)
}

#[test]
fn what_is_repeated_comes_to_the_same() -> Result<(), Problem> {
    for policy in ["eft", "mdts", "heft", "random"] {
        let story = eventful(policy)?;
        let mut again = brain("round-robin")?; // is not asked
        for (now, change, decided) in story.past {
            again.repeat(now, &change, decided)?;
        }
        assert_eq!(again.image().map(|i| i.0), story.brain.image().map(|i| i.0), "{policy}");
        assert_eq!(again.job_views(), story.brain.job_views());
        assert_eq!(again.grants(1.into(), 0)?, story.brain.grants(1.into(), 0)?);
    }
    Ok(())
}

#[test]
fn a_snapshot_stands_for_the_past() -> Result<(), Problem> {
    let mut story = eventful("eft")?;
    let (engine, rest) = story.brain.image().map_err(Problem::internal)?;
    let mut again = brain("eft")?;
    again.restore(&engine, &rest).map_err(Problem::internal)?;
    assert_eq!(again.job_views(), story.brain.job_views());
    assert_eq!(again.node_views(), story.brain.node_views());
    for brain in [&mut again, &mut story.brain] {
        brain.apply(7.0, &Change::Cancelled(1))?;
        assert_eq!(brain.job_view(1.into())?.state, JobState::Cancelled);
    }
    assert_eq!(again.image().map(|i| i.0), story.brain.image().map(|i| i.0));
    Ok(())
}

#[test]
fn jobs_that_ended_long_ago_are_forgotten() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    for at in 0..3 {
        let job = story.submit(f64::from(at), "a", 1.0, 1, 1.0)?;
        let report = Report { task: 0, attempt: 1, what: What::Finished, seconds: None, reason: None };
        story.tell(f64::from(at), Change::Events { job, events: vec![report] })?;
    }
    story.brain.set_now(101.5);
    let due = story.brain.due();
    assert!(matches!(due.as_slice(), [Change::Forgotten(jobs)] if jobs == &[0, 1]), "{due:?}");
    Ok(())
}
