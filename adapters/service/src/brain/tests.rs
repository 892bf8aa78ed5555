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

    /// A job of this text, all asked for.
    fn submit_text(&mut self, now: f64, text: &str, lease_seconds: f64) -> Result<u32, Problem> {
        let text = text.as_bytes().to_vec();
        let new = NewJob { name: "job".into(), share: 1.0, lease_seconds, text, ..NewJob::default() };
        let Outcome::Submitted(job) = self.tell(now, Change::Submitted(new))? else {
            return Err(Problem::internal("no job"));
        };
        let (_, wanted) = self.brain.wanted(job, &Place { tasks: None, ahead: true })?;
        self.tell(now, Change::asked(job, &wanted))?;
        Ok(job.get())
    }

    fn report(&mut self, now: f64, job: u32, task: u32, attempt: u32, what: What) -> Result<(), Problem> {
        let report = Report { task, attempt, what, seconds: None, reason: None };
        self.tell(now, Change::Events { job, events: vec![report] }).map(drop)
    }

    /// Registers one node.
    fn register(&mut self, now: f64, name: &str, spec: &NodeSpec) -> Result<(), Problem> {
        self.tell(now, Change::nodes([(&name.to_owned(), spec)])).map(drop)
    }

    fn remove(&mut self, now: f64, name: &str) -> Result<(), Problem> {
        let node = self.brain.node(name)?;
        self.tell(now, Change::node_gone(node, true)).map(drop)
    }

    /// What a service knows that has read all records.
    fn replayed(&self, policy: &str) -> Result<Brain, Problem> {
        let mut again = brain(policy)?;
        for (now, change, decided) in &self.past {
            again.repeat(*now, change, decided.clone())?;
        }
        Ok(again)
    }

    /// What a service knows that has read a snapshot.
    fn restored(&self, policy: &str) -> Result<Brain, Problem> {
        let told = |error: postcard::Error| Problem::internal(error.to_string());
        let rest = postcard::to_stdvec(&self.brain.image()).map_err(told)?;
        let mut again = brain(policy)?;
        let image = postcard::from_bytes(&rest).map_err(told)?;
        again.restore(&engine(&self.brain), image).map_err(Problem::internal)?;
        Ok(again)
    }
}

/// The engine's state.
fn engine(brain: &Brain) -> Vec<u8> {
    let mut bytes = Vec::new();
    brain.write_engine(&mut bytes).expect("plain data");
    bytes
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
        let again = story.replayed("round-robin")?; // is not asked
        assert_eq!(engine(&again), engine(&story.brain), "{policy}");
        assert_eq!(again.job_views(), story.brain.job_views());
        assert_eq!(again.node_views(), story.brain.node_views());
        assert_eq!(again.task_views(1.into(), 0)?, story.brain.task_views(1.into(), 0)?);
        assert_eq!(again.grants(1.into(), 0)?, story.brain.grants(1.into(), 0)?);
    }
    Ok(())
}

#[test]
fn a_snapshot_stands_for_the_past() -> Result<(), Problem> {
    let mut story = eventful("eft")?;
    let mut again = story.restored("eft")?;
    assert_eq!(again.job_views(), story.brain.job_views());
    assert_eq!(again.node_views(), story.brain.node_views());
    for brain in [&mut again, &mut story.brain] {
        brain.apply(7.0, &Change::Cancelled(1))?;
        assert_eq!(brain.job_view(1.into())?.state, JobState::Cancelled);
    }
    assert_eq!(engine(&again), engine(&story.brain));
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

#[test]
fn a_job_that_lost_its_nodes_once_loses_them_again_after_a_restart() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    let job = story.submit_text(0.0, "tasks: [{name: a, work: 5}]", 1.0)?;
    story.tell(2.0, Change::Lapsed(job))?;
    story.tell(2.5, Change::Asked(vec![(job, vec![0])]))?;
    assert_eq!(story.brain.latest_grant(job.into())?, 3, "it runs again");
    for mut again in [story.replayed("eft")?, story.restored("eft")?] {
        again.apply(3.0, &Change::Opened)?;
        assert_eq!(again.job_view(job.into())?.state, JobState::Open);
        again.set_now(10.0);
        assert!(matches!(again.due().as_slice(), [Change::Lapsed(0)]), "{:?}", again.due());
    }
    Ok(())
}

/// Jobs that name nodes, open and ended, while these nodes go and come back as others.
fn changing_nodes() -> Result<Story, Problem> {
    let mut story = Story::new("eft", &[1.0, 1.0])?;
    let done = story.submit_text(0.0, "tasks: [{name: a, times: {m0: 1, m1: 2}}]", 0.0)?;
    story.report(1.0, done, 0, 1, What::Finished)?;
    story.submit_text(1.0, "tasks: [{name: b, times: {m0: 1, m1: 2}}, {name: c, times: {m1: 2}}]", 0.0)?;
    story.remove(2.0, "m1")?;
    story.register(3.0, "m2", &NodeSpec::default())?;
    story.register(4.0, "m0", &NodeSpec { speed: 3.0, ..NodeSpec::default() })?;
    Ok(story)
}

#[test]
fn a_snapshot_can_be_read_whatever_has_become_of_the_nodes() -> Result<(), Problem> {
    let mut story = changing_nodes()?;
    let mut again = story.restored("eft")?;
    story.brain.take_decided();
    for brain in [&mut again, &mut story.brain] {
        let spec = NodeSpec { speed: 2.0, ..NodeSpec::default() };
        brain.apply(5.0, &Change::nodes([(&"m1".to_owned(), &spec)]))?;
    }
    for job in [0, 1] {
        assert_eq!(again.job_view(job.into())?, story.brain.job_view(job.into())?);
        assert_eq!(again.grants(job.into(), 0)?, story.brain.grants(job.into(), 0)?);
    }
    assert_eq!(engine(&again), engine(&story.brain));
    let grants = again.grants(1.into(), 0)?.grants;
    assert!(grants.iter().any(|grant| grant.task == "c" && grant.start && grant.node == "m1"), "{grants:?}");
    Ok(())
}

#[test]
fn what_was_told_of_nodes_stays_true() -> Result<(), Problem> {
    let story = changing_nodes()?;
    let first = &story.brain.grants(0.into(), 0)?.grants[0];
    assert_eq!((first.node.as_str(), first.start), ("m0", true));
    let mut story = Story::new("eft", &[1.0])?;
    let job = story.submit_text(0.0, "tasks: [{name: a, work: 1}]", 0.0)?;
    story.report(1.0, job, 0, 1, What::Finished)?;
    story.remove(2.0, "m0")?;
    story.register(3.0, "new", &NodeSpec::default())?;
    assert_eq!(story.brain.grants(job.into(), 0)?.grants[0].node, "m0");
    assert_eq!(story.brain.task_views(job.into(), 0)?.tasks[0].node.as_deref(), Some("m0"));
    let numbers = story.brain.nodes.len();
    story.tell(4.0, Change::Forgotten(vec![job]))?;
    story.register(5.0, "newer", &NodeSpec::default())?;
    assert_eq!(story.brain.nodes.len(), numbers, "nothing tells of m0 any more");
    Ok(())
}

#[test]
fn lost_nodes_are_forgotten_in_time() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    story.register(0.0, "short", &NodeSpec { lease_seconds: Some(1.0), ..NodeSpec::default() })?;
    for (now, left) in [(2.0, 2), (50.0, 2), (102.0, 1)] {
        story.brain.set_now(now);
        for change in story.brain.due() {
            story.tell(now, change)?;
        }
        assert_eq!(story.brain.node_views().len(), left, "after {now} s");
    }
    Ok(())
}

#[test]
fn a_start_that_is_told_twice_counts_once() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    let job = story.submit_text(0.0, "tasks: [{name: a, work: 1}]", 0.0)?;
    story.report(1.0, job, 0, 1, What::Started)?;
    story.report(4.0, job, 0, 1, What::Started)?;
    story.report(5.0, job, 0, 1, What::Finished)?;
    assert_eq!(story.brain.explain(job.into(), 0.into())?.seconds, Some(4.0));
    Ok(())
}

#[test]
fn what_ended_before_a_restart_can_be_asked_about_after_it() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    let job = story.submit_text(0.0, "tasks: [{name: a, work: 1}]", 0.0)?;
    story.report(1.0, job, 0, 1, What::Finished)?;
    let mut again = story.replayed("eft")?;
    again.apply(1000.0, &Change::Opened)?;
    again.set_now(1001.0);
    assert!(again.due().is_empty(), "{:?}", again.due());
    again.set_now(1101.0);
    assert!(matches!(again.due().as_slice(), [Change::Forgotten(_)]));
    Ok(())
}

#[test]
fn jobs_that_have_ended_hold_no_old_cluster() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    let job = story.submit_text(0.0, "tasks: [{name: a, work: 1}]", 0.0)?;
    let old = story.brain.cluster.as_ref().map(std::sync::Arc::downgrade);
    story.register(1.0, "new", &NodeSpec::default())?;
    story.report(2.0, job, 0, 1, What::Finished)?;
    let new = story.brain.cluster.as_ref().map(std::sync::Arc::downgrade);
    story.register(3.0, "newer", &NodeSpec::default())?;
    for cluster in [old, new] {
        assert!(cluster.is_some_and(|cluster| cluster.upgrade().is_none()), "nobody needs it");
    }
    assert_eq!(story.brain.job_view(job.into())?.state, JobState::Succeeded);
    let more = r#"{"tasks": [{"name": "more", "work": 1, "after": ["a"]}]}"#;
    let change = story.brain.extension(job.into(), more.to_owned())?;
    story.tell(4.0, change)?;
    story.tell(4.0, Change::Asked(vec![(job, vec![1])]))?;
    assert_eq!(story.brain.latest_grant(job.into())?, 2, "it goes on");
    Ok(())
}

#[test]
fn run_times_of_added_tasks_are_predicted() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    let job = story.submit_text(0.0, "tasks: [{name: al_1}]", 0.0)?;
    let report = Report { task: 0, attempt: 1, what: What::Finished, seconds: Some(40.0), reason: None };
    story.tell(1.0, Change::Events { job, events: vec![report] })?;
    let job = story.submit_text(2.0, "tasks: [{name: b, work: 1}]", 0.0)?;
    let more = r#"{"tasks": [{"name": "al_2"}]}"#;
    let change = story.brain.extension(job.into(), more.to_owned())?;
    story.tell(3.0, change)?;
    story.tell(3.0, Change::Asked(vec![(job, vec![1])]))?;
    let expected = story.brain.task_views(job.into(), 0)?.tasks[1].expected_seconds;
    assert!(expected.is_some_and(|seconds| (seconds - 40.0).abs() < 4.0), "{expected:?}");
    Ok(())
}

#[test]
fn interruptions_of_a_task_come_to_an_end() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    let job = story.submit_text(0.0, "tasks: [{name: a, work: 1}]", 0.0)?;
    for attempt in 1..=1000 {
        story.report(f64::from(attempt), job, 0, attempt, What::Interrupted)?;
    }
    assert_eq!(story.brain.job_view(job.into())?.state, JobState::Failed);
    Ok(())
}

#[test]
fn all_of_a_long_queue_can_be_asked_about() -> Result<(), Problem> {
    let mut story = Story::new("eft", &[1.0])?;
    let job = story.submit(0.0, "a", 1.0, 300, 1.0)?;
    let why = |at: usize| -> Result<_, Problem> {
        Ok(story.brain.task_views(job.into(), 0)?.tasks[at].why.clone().unwrap_or_default())
    };
    let mut answers: Vec<String> = (0..300).map(why).collect::<Result<_, _>>()?;
    answers.sort_unstable();
    assert!(answers.iter().any(|why| why.contains("behind 99 tasks")));
    assert_eq!(answers.iter().filter(|why| why.contains("behind many tasks")).count(), 199);
    Ok(())
}
