use super::*;
use crate::brain::Memory;

/// fast 16 CPUs, speed 2, 2 GPUs; mid 8, speed 1; slow 4, speed 0.5; big 4 in a partition of its own with much memory.
fn view() -> View {
    let node = |name: &str, cpus, memory, speed, weight, features: &[&str]| Node {
        name: name.into(),
        cpus,
        memory,
        speed,
        weight,
        features: features.iter().map(|f| (*f).to_owned()).collect(),
        is_usable: true,
        ..Node::default()
    };
    let mut nodes = vec![
        node("fast", 16, 64_000, 2.0, 10, &["x86", "quick"]),
        node("mid", 8, 32_000, 1.0, 20, &["x86"]),
        node("slow", 4, 8_000, 0.5, 30, &["x86", "old"]),
        node("big", 4, 256_000, 1.0, 40, &["x86", "huge"]),
    ];
    nodes[0].gres = spell::gres("gpu:tesla:2").unwrap();
    let partition = |name: &str, nodes: Vec<usize>| Partition {
        name: name.into(),
        is_default: name == "main",
        is_up: true,
        is_open: true,
        most_minutes: Some(6000),
        nodes,
        ..Partition::default()
    };
    View {
        nodes,
        partitions: vec![partition("main", vec![0, 1, 2]), partition("large", vec![3])],
        default_memory: Memory::PerCpu(100),
        ..View::default()
    }
}

fn brain_of(view: View, settings: Settings) -> Brain {
    let mut brain = Brain::new(settings);
    brain.refresh(view, 0.0);
    brain
}

fn brain() -> Brain {
    brain_of(view(), Settings::default())
}

fn cpus(cpus: u64) -> Request {
    Request { cpus_per_task: Some(cpus), minutes: Some(60), ..Request::default() }
}

fn node(brain: &mut Brain, request: &Request) -> Result<Option<String>, String> {
    match brain.decide(request, &Standing::default(), 1.0) {
        Verdict::Go(decision) => Ok(decision.nodelist),
        Verdict::Hopeless(message) => Err(message),
    }
}

fn goes_to(brain: &mut Brain, request: &Request) -> String {
    node(brain, request).unwrap().unwrap_or_default()
}

#[test]
fn jobs_go_where_they_finish_first_as_long_as_there_is_room() {
    let mut brain = brain();
    let placed: Vec<String> = (0..8).map(|_| goes_to(&mut brain, &cpus(4))).collect();
    assert_eq!(placed, ["fast", "fast", "fast", "fast", "mid", "mid", "slow", ""]);
}

#[test]
fn promises_last_until_the_queue_shows_them() {
    let mut brain = brain();
    for _ in 0..4 {
        assert_eq!(goes_to(&mut brain, &cpus(4)), "fast");
    }
    brain.refresh(view(), 2.0); // gathered just now: the jobs may not be in the queue yet
    assert_ne!(goes_to(&mut brain, &cpus(4)), "fast");
    brain.refresh(view(), 100.0);
    assert_eq!(
        brain.decide(&cpus(4), &Standing::default(), 101.0),
        brain.decide(&cpus(4), &Standing::default(), 101.0)
    );
}

#[test]
fn what_runs_is_in_the_way() {
    let mut busy = view();
    busy.running = vec![Running { nodes: vec![0], cpus: 14, memory: 1, seconds: 1e5, ..Running::default() }];
    let mut brain = brain_of(busy, Settings::default());
    assert_eq!(goes_to(&mut brain, &cpus(4)), "mid");
    assert_eq!(goes_to(&mut brain, &cpus(2)), "fast");
    let mut unknown = view();
    unknown.nodes[0].cpus_held = 16;
    assert_eq!(goes_to(&mut brain_of(unknown, Settings::default()), &cpus(1)), "mid");
}

#[test]
fn what_users_fix_is_left_alone() {
    let table: [Request; 10] = [
        Request { waits: true, ..cpus(1) },
        Request { dependency: Some("afterok:1".into()), ..cpus(1) },
        Request { nodelist: Some("slow".into()), ..cpus(1) },
        Request { reservation: Some("r".into()), ..cpus(1) },
        Request { prefer: Some("old".into()), ..cpus(1) },
        Request { array: Some("1".into()), ..cpus(1) },
        Request { component: true, ..cpus(1) },
        Request { opaque: true, ..cpus(1000) },
        Request { features: Some("[a|b]".into()), ..cpus(1) },
        Request { comment: Some("mdts:0a:task".into()), ..cpus(1) },
    ];
    for request in table {
        let verdict = brain().decide(&request, &Standing::default(), 0.0);
        assert!(
            matches!(&verdict, Verdict::Go(d) if d.is_none() && !d.note.is_empty()),
            "{request:?} {verdict:?}"
        );
    }
    assert_eq!(goes_to(&mut brain(), &Request { features: Some("old".into()), ..cpus(1) }), "slow");
    assert_eq!(goes_to(&mut brain(), &Request { exclude: Some("fas[t],fast".into()), ..cpus(1) }), "");
    assert_eq!(goes_to(&mut brain(), &Request { exclude: Some("fast".into()), ..cpus(1) }), "mid");
    assert_eq!(
        goes_to(&mut brain(), &Request { nodes: Some((2, 2)), tasks: Some(2), ..cpus(1) }),
        "fast,mid"
    );
    assert_eq!(goes_to(&mut brain(), &Request { exclusive: true, ..cpus(1) }), "fast");
}

#[test]
fn hopeless_requests_are_told_what_would_help() {
    let gres = |text| spell::gres(text).unwrap();
    let main = |request: Request| Request { partition: Some("main".into()), ..request };
    let table: [(Request, &str); 9] = [
        (cpus(99), "no node in partition main has 99 CPUs; the largest, fast, has 16; ask for fewer"),
        (
            main(Request { memory: Memory::PerNode(100_000), ..cpus(1) }),
            "100000 MiB of memory; the largest, fast",
        ),
        (
            main(Request { gres: gres("gpu:3"), ..cpus(1) }),
            "3 of the generic resource gpu; fast has the most, 2",
        ),
        (
            main(Request { gres: gres("fpga:1"), ..cpus(1) }),
            "no node in partition main has the generic resource fpga",
        ),
        (
            main(Request { features: Some("arm".into()), ..cpus(1) }),
            "features arm; there are old, quick, x86",
        ),
        (main(Request { nodes: Some((9, 9)), ..cpus(1) }), "9 nodes are asked for, and there are 3"),
        (Request { minutes: Some(9000), ..cpus(1) }, "9000 minutes, and partition main allows 6000"),
        (Request { tasks: Some(40), ..cpus(1) }, "40 tasks of 1 CPUs are asked for, and 28 fit"),
        (
            main(Request { gres: gres("gpu:1"), features: Some("old".into()), ..cpus(1) }),
            "no node in partition main has the generic resource gpu",
        ),
    ];
    for (request, expected) in table {
        let message = node(&mut brain(), &request).unwrap_err();
        assert!(message.contains(expected), "{message}");
        let lenient = Settings { refuses: false, ..Settings::default() };
        assert_eq!(node(&mut brain_of(view(), lenient), &request), Ok(None));
    }
}

#[test]
fn nodes_that_are_down_are_hope_but_no_place() {
    let mut down = view();
    down.nodes[0].is_usable = false;
    assert_eq!(node(&mut brain_of(down.clone(), Settings::default()), &cpus(16)), Ok(None));
    assert_eq!(node(&mut brain_of(down, Settings::default()), &cpus(1)), Ok(Some("mid".into())));
}

#[test]
fn another_partition_is_offered_if_the_default_has_no_such_node() {
    let request = Request { memory: Memory::PerNode(100_000), ..cpus(1) };
    let Verdict::Go(decision) = brain().decide(&request, &Standing::default(), 0.0) else {
        panic!("hopeless")
    };
    assert_eq!(decision.partition.as_deref(), Some("large"));
    assert_eq!(decision.nodelist.as_deref(), Some("big"));
}

#[test]
fn priority_follows_the_rank_unless_it_is_fixed() {
    let standing = Standing { rank: Some((25.0, 100.0)), seconds: None };
    let nice = |request: &Request| match brain().decide(request, &standing, 0.0) {
        Verdict::Go(decision) => decision.nice,
        Verdict::Hopeless(_) => None,
    };
    assert_eq!(nice(&cpus(1)), Some(75));
    assert_eq!(nice(&Request { has_priority: true, ..cpus(1) }), None);
}

#[test]
fn a_feature_leads_softly() {
    let soft = Settings { steering: Steering::Prefer, ..Settings::default() };
    let Verdict::Go(decision) = brain_of(view(), soft).decide(&cpus(1), &Standing::default(), 0.0) else {
        panic!("hopeless")
    };
    assert_eq!((decision.prefer.as_deref(), decision.nodelist), (Some("quick"), None));
    let mut equal = view();
    equal.nodes.iter_mut().for_each(|n| n.speed = 1.0);
    let Verdict::Go(decision) = brain_of(equal, soft).decide(&cpus(1), &Standing::default(), 0.0) else {
        panic!("hopeless")
    };
    assert!(decision.is_none());
}

#[test]
fn an_old_view_decides_nothing() {
    let Verdict::Go(decision) = brain().decide(&cpus(99), &Standing::default(), 1e4) else {
        panic!("refused")
    };
    assert!(decision.is_none());
    let Verdict::Go(decision) = Brain::new(Settings::default()).decide(&cpus(99), &Standing::default(), 0.0)
    else {
        panic!("refused")
    };
    assert!(decision.is_none());
}
