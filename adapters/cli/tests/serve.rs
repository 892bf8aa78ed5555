//! `mdts serve` as a process: killed at random moments under load, nothing that it answered is lost.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::Method;
use mdts_service::Error;
use mdts_service::api::{
    Events, EventsAnswer, Extension, Grant, Job, JobState, Jobs, NodeSpec, Nodes, Place, PlacementState,
    Registration, TaskEvent, What,
};
use mdts_service::client::{Client, Submission};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Kills, and bytes of records after which a snapshot takes their place.
const STORIES: [(usize, &str); 2] = [(100, "64MiB"), (100, "2KiB")];
const CLIENTS: usize = 4;
/// Between two jobs of a client: fewer jobs than the service remembers, however fast the machine is.
const PACE: Duration = Duration::from_millis(15);
/// Nothing in this test waits longer.
const DEADLINE: Duration = Duration::from_mins(1);

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The service; killed when dropped.
struct Service(Child);

impl Service {
    fn start(folder: &Path, snapshot_after: &str) -> Outcome<Self> {
        let child = Command::new(env!("CARGO_BIN_EXE_mdts"))
            .args(["serve", "--quiet", "--socket", "s", "--journal", "state", "--node-lease", "0"])
            .args(["--snapshot-after", snapshot_after])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    /// A line of what the system says of its memory, in MiB.
    fn memory(&self, name: &str) -> Outcome<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
    }

    fn kill(&mut self) -> Outcome {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill().ok(); // it may be gone already
    }
}

/// A reproducible stream of numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What clients were told.
#[derive(Default)]
struct Told {
    /// Job, task, attempt: node.
    placed: HashMap<(String, String, u32), String>,
    jobs: Vec<String>,
    finished: usize,
}

/// Asks until the service is there again; what it refuses is an error.
async fn insist<T, F: Future<Output = Result<T, Error>>>(mut ask: impl FnMut() -> F) -> Outcome<T> {
    let begin = Instant::now();
    loop {
        match ask().await {
            Err(Error::Client { .. }) if begin.elapsed() < DEADLINE => {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            told => return Ok(told?),
        }
    }
}

/// Runs jobs until told to stop; every request may break off at any moment and is then sent again.
async fn work(client: &Client, number: usize, told: &Mutex<Told>, stop: &AtomicBool) -> Outcome {
    let tasks: Vec<String> = (0..8).map(|i| format!("{{name: t{i}, work: 1}}")).collect();
    let after: Vec<String> = (0..8).map(|i| format!("t{i}")).collect();
    let graph =
        format!("tasks: [{}, {{name: end, work: 1, after: [{}]}}]", tasks.join(", "), after.join(", "));
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(PACE).await;
        round += 1;
        let how = Submission { key: Some(format!("{number}-{round}")), ..Submission::default() };
        let job = insist(|| client.submit(graph.clone(), &how)).await?.id;
        told.lock().expect("no panic").jobs.push(job.clone());
        let mut after = 0;
        loop {
            let placed = insist(|| client.place(&job, &PLACE)).await?;
            let starts = placed.placements.iter().filter(|p| p.state == PlacementState::Start);
            for placement in starts {
                let (Some(attempt), Some(node)) = (placement.attempt, placement.node.clone()) else {
                    return Err("a grant without node".into());
                };
                remember(told, &job, &placement.task, attempt, &node)?;
            }
            let grants = insist(|| client.grants(&job, after, 0.2)).await?;
            after = grants.after;
            let begun: Vec<&Grant> = grants.grants.iter().filter(|grant| grant.start).collect();
            for grant in &begun {
                remember(told, &job, &grant.task, grant.attempt, &grant.node)?;
            }
            let events: Vec<TaskEvent> = begun.iter().map(|g| TaskEvent::new(g, What::Finished)).collect();
            if !events.is_empty() {
                let heard = insist(|| client.events(&job, events.clone())).await?;
                if let Some(refused) = heard.results.iter().find(|heard| !heard.accepted) {
                    return Err(format!("{job}: {refused:?}").into());
                }
                told.lock().expect("no panic").finished += events.len();
            }
            if grants.ended {
                break;
            }
        }
    }
    Ok(())
}

const PLACE: Place = Place { tasks: None, ahead: true };

/// An attempt is on one node, whenever one asks.
fn remember(told: &Mutex<Told>, job: &str, task: &str, attempt: u32, node: &str) -> Outcome {
    let key = (job.to_owned(), task.to_owned(), attempt);
    match told.lock().expect("no panic").placed.insert(key, node.to_owned()) {
        Some(before) if before != node => {
            Err(format!("{job} {task}: attempt {attempt} was on {before} and is on {node}").into())
        }
        _ => Ok(()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_was_answered_is_lost_when_the_service_is_killed() -> Outcome {
    let [(kills, snapshot_after), _] = STORIES;
    story(kills, snapshot_after).await
}

/// Snapshots are made at every look after leases, so that some kills meet one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_service_is_killed_while_it_makes_snapshots() -> Outcome {
    let [_, (kills, snapshot_after)] = STORIES;
    story(kills, snapshot_after).await
}

async fn story(kills: usize, snapshot_after: &str) -> Outcome {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("s");
    let mut service = Service::start(folder.path(), snapshot_after)?;
    let nodes =
        (0..4).map(|i| (format!("m{i}"), NodeSpec { speed: f64::from(i + 1), ..NodeSpec::default() }));
    let nodes = Registration { nodes: nodes.collect() };
    let client = Client::unix(&socket);
    insist(|| client.register_all(&nodes)).await?;

    let (told, stop) = (Arc::new(Mutex::new(Told::default())), Arc::new(AtomicBool::new(false)));
    let workers: Vec<_> = (0..CLIENTS)
        .map(|i| {
            let (client, told, stop) = (Client::unix(&socket), told.clone(), stop.clone());
            tokio::spawn(async move { work(&client, i, &told, &stop).await })
        })
        .collect();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..kills {
        insist(|| client.nodes()).await?;
        tokio::time::sleep(Duration::from_millis(if snapshot_after == "2KiB" {
            150 + dice.below(150)
        } else {
            dice.below(60)
        }))
        .await;
        service.kill()?;
        service = Service::start(folder.path(), snapshot_after)?;
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        tokio::time::timeout(DEADLINE, worker).await???;
    }

    let told = std::mem::take(&mut *told.lock().expect("no panic"));
    assert!(told.jobs.len() >= CLIENTS, "there was load");
    let mut grants: HashMap<(String, String, u32), String> = HashMap::new();
    for job in &told.jobs {
        let view = client.job(job).await?;
        assert_eq!((view.state, view.done, view.granted), (JobState::Succeeded, 9, 9), "{job}");
        for grant in client.grants(job, 0, 0.0).await?.grants {
            assert!(grant.start && grant.attempt == 1, "no task was granted twice: {grant:?}");
            let twice = grants.insert((job.clone(), grant.task, grant.attempt), grant.node);
            assert_eq!(twice, None, "{job}");
        }
    }
    assert_eq!(told.placed, grants, "every answered placement is known, and none that was not heard of");
    assert_eq!(told.finished, 9 * told.jobs.len());
    let (status, text) = client.exchange(&Method::GET, "/metrics", bytes::Bytes::new(), None).await?;
    let text = String::from_utf8_lossy(&text);
    let counts =
        [("jobs", told.jobs.len()), ("grants", told.finished), ("finished", told.finished), ("revoked", 0)];
    for (name, count) in counts {
        assert!(
            status == 200 && text.contains(&format!("\nmdts_{name}_total {count}\n")),
            "{name} {count}: {text}"
        );
    }
    println!("{kills} kills: {} jobs, {} tasks", told.jobs.len(), told.finished);
    Ok(())
}

/// What clients were told whose tasks fail and whose nodes come and go.
#[derive(Default)]
struct Eventful {
    jobs: Vec<String>,
    /// Job, task, attempt: node.
    granted: HashMap<(String, String, u32), String>,
    failed: HashSet<(String, String, u32)>,
    finished: HashSet<(String, String, u32)>,
}

/// As [`work`], but one attempt in four fails, and jobs grow by a task when they have begun.
async fn eventful_work(client: &Client, number: u64, told: &Mutex<Eventful>, stop: &AtomicBool) -> Outcome {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d ^ (number << 32));
    let tasks: Vec<String> = (0..6).map(|i| format!("{{name: t{i}, work: 1, retries: 99}}")).collect();
    let graph = format!("tasks: [{}]", tasks.join(", "));
    let more = serde_json::json!({"name": "more", "work": 1, "after": ["t0", "t1"], "retries": 99});
    let more = Extension { tasks: vec![more], files: serde_json::Map::new() };
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(PACE).await;
        round += 1;
        let key = format!("eventful-{number}-{round}");
        let how = Submission { key: Some(key.clone()), ..Submission::default() };
        let job = insist(|| client.submit(graph.clone(), &how)).await?.id;
        told.lock().expect("no panic").jobs.push(job.clone());
        insist(|| client.place(&job, &PLACE)).await?;
        let (path, extend) = (format!("/v1/jobs/{job}/extend"), format!("{key}-extend"));
        insist(|| client.send::<Job>(Method::POST, &path, Some(&more), Some(&extend))).await?;
        let (mut after, mut reports) = (0, 0);
        loop {
            insist(|| client.place(&job, &PLACE)).await?;
            let grants = insist(|| client.grants(&job, after, 0.2)).await?;
            after = grants.after;
            let begun: Vec<&Grant> = grants.grants.iter().filter(|grant| grant.start).collect();
            let what = |dice: &mut Dice| if dice.below(4) == 0 { What::Failed } else { What::Finished };
            let events: Vec<TaskEvent> = begun.iter().map(|g| TaskEvent::new(g, what(&mut dice))).collect();
            let attempt = |event: &TaskEvent| (job.clone(), event.task.clone(), event.attempt);
            for (grant, event) in begun.iter().zip(&events) {
                told.lock().expect("no panic").granted.insert(attempt(event), grant.node.clone());
            }
            if !events.is_empty() {
                reports += 1;
                let (path, key) = (format!("/v1/jobs/{job}/events"), format!("{key}-{reports}"));
                let body = Events { events };
                let heard: EventsAnswer =
                    insist(|| client.send(Method::POST, &path, Some(&body), Some(&key))).await?;
                // An attempt may have lost its node meanwhile.
                let accepted = body.events.iter().zip(&heard.results).filter(|(_, heard)| heard.accepted);
                let mut told = told.lock().expect("no panic");
                for (event, _) in accepted {
                    let told =
                        if event.event == What::Failed { &mut told.failed } else { &mut told.finished };
                    told.insert(attempt(event));
                }
            }
            if grants.ended {
                break;
            }
        }
    }
    Ok(())
}

/// A node that is there now and then.
async fn come_and_go(client: &Client, stop: &AtomicBool) -> Outcome {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let spec = NodeSpec { speed: 4.0, ..NodeSpec::default() };
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(PACE).await;
        insist(|| client.register("m3", &spec)).await?;
        tokio::time::sleep(Duration::from_millis(20 + dice.below(60))).await;
        let removed =
            insist(|| client.send::<Nodes>(Method::DELETE, "/v1/nodes/m3", None::<&()>, None)).await;
        // One that was answered by nobody may have been removed all the same.
        removed
            .map(drop)
            .or_else(|error| if error.to_string().contains("m3") { Ok(()) } else { Err(error) })?;
    }
    insist(|| client.register("m3", &spec)).await.map(drop)
}

/// No attempt begins before the one before it has lost its node or was told to have failed.
async fn check_attempts(client: &Client, told: &Eventful, job: &str) -> Outcome<[usize; 2]> {
    let (mut counts, mut latest) = ([0; 2], HashMap::<String, (u32, bool)>::new());
    for grant in client.grants(job, 0, 0.0).await?.grants {
        let attempt = (job.to_owned(), grant.task.clone(), grant.attempt);
        counts[usize::from(!grant.start)] += 1;
        let before = latest.insert(grant.task.clone(), (grant.attempt, grant.start));
        if !grant.start {
            assert_eq!(before, Some((grant.attempt, true)), "{grant:?} ran");
            continue;
        }
        if let Some(node) = told.granted.get(&attempt) {
            assert_eq!(node, &grant.node, "{job} {grant:?}");
        }
        let (number, runs) = before.unwrap_or_default();
        assert_eq!(number + 1, grant.attempt, "{job} {grant:?}");
        let failed = told.failed.contains(&(job.to_owned(), grant.task.clone(), number));
        assert!(!runs || failed, "{job} {grant:?} while attempt {number} ran");
    }
    for (task, (attempt, runs)) in latest {
        let end = (job.to_owned(), task, attempt);
        assert!(runs && told.finished.contains(&end), "{end:?} is the one that finished");
    }
    Ok(counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_lost_nodes_and_growing_jobs_add_up_whenever_the_service_is_killed() -> Outcome {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("s");
    let mut service = Service::start(folder.path(), "16KiB")?;
    let client = Client::unix(&socket);
    for (name, speed) in [("m0", 1.0), ("m1", 2.0), ("m2", 3.0)] {
        let spec = NodeSpec { speed, ..NodeSpec::default() };
        insist(|| client.register(name, &spec)).await?;
    }
    let (told, stop) = (Arc::new(Mutex::new(Eventful::default())), Arc::new(AtomicBool::new(false)));
    let mut running = tokio::task::JoinSet::new();
    for number in 0..3 {
        let (client, told, stop) = (Client::unix(&socket), told.clone(), stop.clone());
        running.spawn(async move { eventful_work(&client, number, &told, &stop).await });
    }
    let (of_nodes, stops) = (Client::unix(&socket), stop.clone());
    running.spawn(async move { come_and_go(&of_nodes, &stops).await });
    let mut dice = Dice(0x853c_49e6_748f_ea9b);
    for _ in 0..100 {
        insist(|| client.nodes()).await?;
        tokio::time::sleep(Duration::from_millis(dice.below(120))).await;
        service.kill()?;
        service = Service::start(folder.path(), "16KiB")?;
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tokio::time::timeout(DEADLINE, running.join_next()).await? {
        ended??;
    }

    let told = std::mem::take(&mut *told.lock().expect("no panic"));
    let mut counts = [0; 2];
    for job in &told.jobs {
        let view = client.job(job).await?;
        assert_eq!((view.state, view.done, view.tasks), (JobState::Succeeded, 7, 7), "{job}");
        let [starts, revoked] = check_attempts(&client, &told, job).await?;
        assert_eq!(view.granted, starts as u64, "{job}");
        counts = [counts[0] + starts, counts[1] + revoked];
    }
    let finished = told.finished.len();
    assert_eq!(finished, 7 * told.jobs.len());
    assert!(told.failed.len() > 10 && counts[1] > 0, "{} failed, {counts:?}", told.failed.len());
    let (_, text) = client.exchange(&Method::GET, "/metrics", bytes::Bytes::new(), None).await?;
    let text = String::from_utf8_lossy(&text);
    let sums = [
        ("jobs", told.jobs.len()),
        ("tasks", finished),
        ("grants", counts[0]),
        ("revoked", counts[1]),
        ("finished", finished),
        ("failed", told.failed.len()),
    ];
    for (name, count) in sums {
        assert!(text.contains(&format!("\nmdts_{name}_total {count}\n")), "{name} {count}: {text}");
    }
    let [starts, revoked] = counts;
    println!(
        "100 kills: {} jobs, {starts} attempts, {revoked} lost their nodes, {} failed",
        told.jobs.len(),
        told.failed.len()
    );
    Ok(())
}

/// The most memory that a process has had, in MiB.
fn peak_memory(process: u32) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}

/// Texts that stand for far more than they hold, bodies without an end and answers that repeat themselves, from many clients at a
/// time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_requests_take_bounded_memory() -> Outcome {
    const CLIENTS: usize = 8;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("s");
    let mut service = Service::start(folder.path(), "64MiB")?;
    let client = Client::unix(&socket);
    let spec = NodeSpec::default();
    insist(|| client.register("m", &spec)).await?;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(b"tasks: [{name: a}]\n")?;
    let blanks = vec![b' '; 1 << 20];
    for _ in 0..1000 {
        packed.write_all(&blanks)?;
    }
    let many = |letter: &str| (0..3000).map(|i| format!("{letter}{i}")).collect::<Vec<_>>().join(" ");
    let page = r#"{"method": "GET", "path": "/v1/jobs/j0/tasks"}"#;
    let tasks = |begin: &str, one: &str, end: &str| {
        let mut text = begin.to_owned();
        while text.len() < 32 << 20 {
            text.push_str(one);
        }
        (text + end).into_bytes()
    };
    let requests: [(&str, Vec<u8>, &[u16]); 10] = [
        ("/v1/jobs", tasks(r#"{"tasks": [{}"#, ",{}", "]}"), &[413]),
        ("/v1/jobs", tasks(r#"{"tasks": [{"name": "a", "after": ["a""#, r#", "after""#, "]}]}"), &[422]),
        ("/v1/jobs", tasks("tasks:\n", "- {}\n", ""), &[413]),
        ("/v1/jobs/j0/extend", tasks(r#"{"tasks": [0"#, ",0", "]}"), &[413]),
        ("/v1/jobs", packed.finish()?, &[413, 422]),
        (
            "/v1/jobs",
            format!("digraph {{ {{ {} }} -> {{ {} }} }}", many("a"), many("b")).into_bytes(),
            &[413],
        ),
        ("/v1/jobs", vec![b'['; 32 << 20], &[413]),
        ("/v1/jobs", vec![b'x'; 65 << 20], &[413]),
        ("/v1/nodes", vec![b'{'; 1 << 20], &[400]),
        ("/v1/batch", format!("{{\"calls\": [{}]}}", vec![page; 1000].join(", ")).into_bytes(), &[200]),
    ];
    let graph: Vec<String> =
        (0..1000).map(|i| format!("{{name: {}{i}, work: 1}}", "t".repeat(900))).collect();
    client.submit(format!("tasks: [{}]", graph.join(", ")), &Submission::default()).await?;
    for (path, body, expected) in requests {
        let mut clients = tokio::task::JoinSet::new();
        let body = bytes::Bytes::from(body);
        let (length, mut answered) = (body.len(), 0);
        for _ in 0..CLIENTS {
            let (client, body) = (Client::unix(&socket), body.clone());
            clients.spawn(async move { client.exchange(&Method::POST, path, body, None).await });
        }
        while let Some(answer) = tokio::time::timeout(DEADLINE, clients.join_next()).await? {
            match answer? {
                Ok((503, _)) => {}
                Ok((status, _)) => {
                    assert!(expected.contains(&status), "{path}: {status}");
                    answered += 1;
                }
                // What is too large, or too much at a time, is not read to its end.
                Err(error) => assert!(length > 1 << 20, "{path}: {error}"),
            }
        }
        assert!(answered > 0 || length > 64 << 20, "{path}");
        println!("{path} {expected:?} {answered} times: {} MiB", peak_memory(service.0.id())?);
    }
    assert!(peak_memory(service.0.id())? < 1500);
    assert_eq!(client.nodes().await?.nodes.len(), 1, "it still answers");
    assert_eq!(service.0.try_wait()?, None);
    Ok(())
}

/// When nothing can be recorded any more, what was answered is all that there is.
#[tokio::test]
async fn a_service_that_cannot_record_stops_and_has_lost_nothing() -> Outcome {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("s");
    // A file of more than 32 KiB cannot be written; the signal that would end the process is passed over.
    let limited =
        "trap '' XFSZ; ulimit -f 64; exec \"$0\" serve --quiet --socket s --journal state --node-lease 0";
    let child = Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_mdts")])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut service = Service(child);
    let client = Client::unix(&socket);
    let spec = NodeSpec::default();
    insist(|| client.register("m", &spec)).await?;
    let mut answered = Vec::new();
    let refused = loop {
        let graph = format!("tasks: [{{name: t, work: 1, command: [\"{}\"]}}]", "x".repeat(1000));
        match client.submit(graph, &Submission::default()).await {
            Ok(job) => answered.push(job.id),
            Err(error) => break error,
        }
    };
    assert!(answered.len() > 5, "{refused}");
    assert!(matches!(&refused, Error::Refused(problem) if problem.status == 503), "{refused}");
    assert_eq!(service.0.wait()?.code(), Some(1));
    let _service = Service::start(folder.path(), "64MiB")?;
    let jobs: Jobs = insist(|| client.send(Method::GET, "/v1/jobs", None::<&()>, None)).await?;
    let mut known: Vec<String> = jobs.jobs.into_iter().map(|job| job.id).collect();
    known.reverse();
    assert_eq!(known, answered);
    Ok(())
}

#[tokio::test]
async fn a_demo_is_something_to_look_at() -> Outcome {
    let folder = tempfile::tempdir()?;
    let child = Command::new(env!("CARGO_BIN_EXE_mdts"))
        .args(["serve", "--demo", "--quiet"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .spawn()?;
    let _service = Service(child);
    let client = Client::unix(folder.path().join(".mdts/service.sock"));
    let begin = Instant::now();
    loop {
        let jobs: Jobs = insist(|| client.send(Method::GET, "/v1/jobs", None::<&()>, None)).await?;
        if let Some(job) = jobs.jobs.iter().find(|job| job.done > 0) {
            assert!(job.tasks > 1, "{job:?}");
            break;
        }
        assert!(begin.elapsed() < DEADLINE, "{jobs:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(client.nodes().await?.nodes.len() > 1);
    Ok(())
}

#[test]
fn policies_that_keep_everybody_waiting_are_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let output = Command::new(env!("CARGO_BIN_EXE_mdts"))
        .args(["serve", "--socket", "s", "--policy", "search"])
        .current_dir(folder.path())
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("'search'") && told.contains("heft"), "{told}");
    assert!(!folder.path().join("s").exists());
    Ok(())
}

#[tokio::test]
async fn ten_thousand_connections() -> Outcome {
    const MOST: u64 = 10_000;
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files)?;
    // Where fewer files may be open, as many as go, and the service takes fewer as well.
    let files = files.maximum.unwrap_or(u64::MAX);
    let most = MOST.min(files.saturating_sub(200));
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(most == MOST || !is_ci, "ulimit -Hn allows {most} connections");
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("s");
    let service = Service::start(folder.path(), "64MiB")?;
    let client = Client::unix(&socket);
    insist(|| client.nodes()).await?;
    let memory = || service.memory("VmRSS:");
    let before = memory()?;
    let path = socket.clone();
    let streams = tokio::task::spawn_blocking(move || {
        (0..most).map(|_| std::os::unix::net::UnixStream::connect(&path)).collect::<Result<Vec<_>, _>>()
    });
    let mut streams = tokio::time::timeout(DEADLINE, streams).await???;
    let answers = |stream: &mut std::os::unix::net::UnixStream| -> Outcome<bool> {
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut answer = [0; 15];
        stream.read_exact(&mut answer)?;
        Ok(&answer == b"HTTP/1.1 200 OK")
    };
    // One connection is that of `client`; the last ones of the others may have to wait for room.
    let last = streams.len() - 100;
    for at in (0..=last).step_by((last / 100).max(1)) {
        assert!(answers(&mut streams[at])?, "connection {at}");
    }
    let taken = memory()?.saturating_sub(before);
    println!("{most} connections take {taken} MiB");
    assert!(taken < 400, "{taken} MiB");
    insist(|| client.nodes()).await?;
    drop(streams);
    let begin = Instant::now();
    assert!(answers(&mut std::os::unix::net::UnixStream::connect(&socket)?)?);
    assert!(begin.elapsed() < DEADLINE);
    Ok(())
}

#[tokio::test]
async fn batches_that_stand_for_more() -> Outcome {
    let folder = tempfile::tempdir()?;
    let service = Service::start(folder.path(), "64MiB")?;
    let client = Client::unix(folder.path().join("s"));
    insist(|| client.nodes()).await?;
    let begin = r#"{"calls": [{"method": "POST", "path": "/v1/jobs", "body": [[0]"#;
    let text = format!("{begin}{}]}}]}}", ",[0]".repeat(12 << 20));
    let (status, _) = client.exchange(&Method::POST, "/v1/batch", text.into(), None).await?;
    assert_eq!(status, 200);
    let most = service.memory("VmHWM:")?;
    assert!(most < 500, "a batch of 48 MiB takes {most} MiB");
    Ok(())
}
