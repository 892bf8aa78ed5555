use mdts_dag::generate::seeded;
use mdts_policies::find;

use super::*;
use crate::queue::graph;
use crate::sidecar::Speeds;
use crate::{JobId, JobState, NodeRecord, PartitionRecord};

/// Two nodes of 4 CPUs, `quick` of speed 4 and `calm` of speed 1.
fn look(jobs: Vec<JobRecord>) -> Look {
    let node = |name: &str, feature: &str| NodeRecord {
        name: name.into(),
        state: "IDLE".into(),
        reason: String::new(),
        cpus: 4,
        memory_mib: 1000,
        features: vec![feature.into()],
        gres: Vec::new(),
        partitions: vec!["main".into()],
        weight: 1,
        cpus_held: 0,
    };
    let partition = PartitionRecord {
        name: "main".into(),
        is_default: true,
        is_up: true,
        limit_seconds: None,
        memory_per_cpu_mib: Some(10),
        memory_per_node_mib: None,
        default_seconds: None,
        most_nodes: None,
        is_open: true,
        is_exclusive: false,
    };
    let nodes = vec![node("quick", "speed_4"), node("calm", "speed_1")];
    Look { nodes, partitions: vec![partition], jobs, config: BTreeMap::new(), now: 1000 }
}

/// A waiting job of some minutes.
fn job(number: u32, minutes: u64, dependency: &str) -> JobRecord {
    JobRecord {
        partition: "main".into(),
        reason: if dependency.is_empty() { "Priority" } else { "Dependency" }.into(),
        cpus: 1,
        memory_mib: 10,
        limit_seconds: Some(minutes * 60),
        dependency: dependency.into(),
        ..JobRecord::empty(JobId::whole(number))
    }
}

/// What is changed, in words.
fn changes(jobs: Vec<JobRecord>) -> Vec<String> {
    let look = look(jobs);
    let view = look.view(&Speeds::default());
    let Some(queued) = graph(&look.jobs, look.now, |_| None).unwrap() else { return Vec::new() };
    let standings = Standings::new(&queued, &look.jobs);
    let situation =
        Situation { look: &look, view: &view, queued: &queued, standings: &standings, nice_range: 100 };
    let steps = situation.steps(&*find("heft").unwrap().planner(), &mut seeded(0)).unwrap();
    let show = |change: &Change| {
        let node = change.nodes.as_deref().map(|node| format!(" on {node}")).unwrap_or_default();
        let nice = change.nice.map(|nice| format!(" nice {nice}")).unwrap_or_default();
        let held = change.held.map(|held| format!(" held {held}")).unwrap_or_default();
        let mark = if change.admin_comment.is_some() { " marked" } else { "" };
        format!("{}{node}{nice}{held}{mark}", change.job.unwrap())
    };
    steps.changes.iter().map(show).collect()
}

#[test]
fn jobs_of_workflows_are_pinned_when_their_time_comes() {
    // 1 --> 2 --> 4      9 belongs to no workflow
    //  '--> 3
    let queue = || {
        vec![
            job(1, 10, ""),
            job(2, 20, "afterok:1"),
            job(3, 1, "afterok:1"),
            job(4, 5, "afterok:2"),
            job(9, 1, ""),
        ]
    };
    assert_eq!(
        changes(queue()),
        ["1 on quick marked", "2 nice 29 marked", "3 nice 97 marked", "4 nice 86 marked"]
    );
    let mut running = queue();
    running[0] =
        JobRecord { state: JobState::Running, nodes: "calm".into(), began: Some(900), ..running[0].clone() };
    // As little of the first is left, the second is on the critical path now.
    let found = changes(running);
    assert!(found[0].starts_with("2 on quick") && found[1].starts_with("3 on quick"), "{found:?}");
    assert!(found[2].starts_with("4 nice"), "{found:?}");
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let in_workflow = |change: fn(&mut JobRecord)| {
        let mut jobs = vec![job(1, 10, ""), job(2, 10, "afterok:1")];
        change(&mut jobs[0]);
        changes(jobs).iter().any(|change| change.starts_with("1 "))
    };
    assert!(in_workflow(|_| {}));
    let table: [fn(&mut JobRecord); 8] = [
        |job| job.required_nodes = "calm".into(),
        |job| job.reason = "JobHeldUser".into(),
        |job| job.reason = "JobHeldAdmin".into(),
        |job| job.admin_comment = "the site's own".into(),
        |job| job.comment = "mdts:0a1b:3".into(),
        |job| job.is_component = true,
        |job| job.node_count = 2,
        |job| job.features = "[speed_1|speed_4]".into(),
    ];
    for (i, change) in table.into_iter().enumerate() {
        assert!(!in_workflow(change), "{i}");
    }
    // A user's own nice value stays, the place does not have to.
    let mut own = job(2, 1, "afterok:1");
    own.nice = 5;
    assert_eq!(changes(vec![job(1, 10, ""), own])[..], ["1 on quick marked".to_owned()]);
}

#[test]
fn held_jobs_that_ask_are_placed_and_released() {
    let mut asks = job(1, 10, "");
    (asks.reason, asks.comment) = ("JobHeldUser".into(), "mdts:place".into());
    assert_eq!(changes(vec![asks]), ["1 on quick held false marked"]);
}

#[test]
fn pins_move_with_the_plan_and_are_taken_back() {
    let mut pinned = job(1, 10, "");
    (pinned.required_nodes, pinned.admin_comment) = ("calm".into(), MARK.into());
    assert_eq!(changes(vec![pinned.clone()]), ["1 on quick"]);
    pinned.required_nodes = "quick".into();
    assert!(changes(vec![pinned.clone()]).is_empty());
    let back = undone(&[pinned, job(2, 1, "")]);
    assert_eq!(back.len(), 1);
    assert_eq!(
        (back[0].nodes.as_deref(), back[0].nice, back[0].admin_comment.as_deref()),
        (Some(""), Some(0), Some(""))
    );
}
