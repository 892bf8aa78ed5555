//! Mixed load for a long time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mdts_service::Error;
use mdts_service::api::{Extension, Grant, NodeSpec, Place, TaskEvent, What};
use mdts_service::client::{Client, Submission};

use super::Outcome;

const CLIENTS: u64 = 4;
/// Tasks of a job, before it is extended.
const TASKS: usize = 60;

/// Seconds of the calls since the last line.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<f64>>>);

impl Times {
    async fn of<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let begin = Instant::now();
        let answer = call.await?;
        self.list().push(begin.elapsed().as_secs_f64());
        Ok(answer)
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn line(&self, minute: u64) {
        let mut times = std::mem::take(&mut *self.list());
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times.get((times.len().saturating_sub(1) as f64 * part) as usize).copied();
        let ms = |part| at(part).unwrap_or(0.0) * 1e3;
        let count = times.len();
        println!("{minute} {count} {:.3} {:.3} {:.3} {:.3}", ms(0.5), ms(0.9), ms(0.99), ms(1.0));
    }
}

/// A reproducible stream of numbers.
struct Dice(u64);

impl Dice {
    fn one_in(&mut self, sides: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.is_multiple_of(sides)
    }
}

pub(super) async fn run(socket: &str, seconds: usize) -> Outcome {
    let (times, end) = (Times::default(), Instant::now() + Duration::from_secs(seconds as u64));
    let client = Client::unix(socket);
    for (name, speed) in [("m0", 1.0), ("m1", 1.0), ("m2", 2.0), ("m3", 4.0)] {
        let spec = NodeSpec { speed, lease_seconds: Some(0.0), ..NodeSpec::default() };
        client.register(name, &spec).await?;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let (client, times) = (Client::unix(socket).named(format!("client {number}")), times.clone());
        tasks.spawn(async move {
            let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ number);
            while Instant::now() < end {
                job(&client, &times, &mut dice).await?;
            }
            Ok::<_, Error>(())
        });
    }
    let (client, of_nodes) = (Client::unix(socket), times.clone());
    tasks.spawn(async move { nodes(&client, &of_nodes, end).await });
    let mut minutes = tokio::time::interval(Duration::from_mins(1));
    minutes.tick().await;
    let mut minute = 0;
    loop {
        tokio::select! {
            _ = minutes.tick() => {
                minute += 1;
                times.line(minute);
            }
            done = tasks.join_next() => match done {
                None => return Ok(()),
                Some(done) => done??,
            },
        }
    }
}

/// Nodes come, drain, go and change.
async fn nodes(client: &Client, times: &Times, end: Instant) -> Result<(), Error> {
    for round in 0_u32.. {
        if Instant::now() >= end {
            break;
        }
        let name = format!("extra{}", round % 8);
        let speed = f64::from(1 + round % 3);
        let spec = NodeSpec { speed, lease_seconds: Some(1.0), ..NodeSpec::default() };
        times.of(client.register(&name, &spec)).await?;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    Ok(())
}

/// A job in which something may go wrong.
async fn job(client: &Client, times: &Times, dice: &mut Dice) -> Result<(), Error> {
    let task = |i: usize| {
        let after = if i < 10 { String::new() } else { format!(r#", "after": ["t{}"]"#, i - 10) };
        format!(r#"{{"name": "t{i}", "kind": "k{}", "retries": 3{after}}}"#, i % 5)
    };
    let list: Vec<String> = (0..TASKS).map(task).collect();
    let graph = format!(r#"{{"tasks": [{}]}}"#, list.join(", "));
    let how = Submission { lease_seconds: Some(2.0), ..Submission::default() };
    let job = times.of(client.submit(graph, &how)).await?.id;
    times.of(client.place(&job, &AHEAD)).await?;
    if dice.one_in(50) {
        tokio::time::sleep(Duration::from_millis(2500)).await; // its lease is over by then
        times.of(client.cancel(&job)).await?;
        return Ok(());
    }
    if dice.one_in(5) {
        let tasks = vec![serde_json::json!({"name": "more", "after": ["t59"]})];
        times.of(client.extend(&job, &Extension { tasks, files: serde_json::Map::new() })).await?;
    }
    let mut after = 0;
    loop {
        let grants = client.grants(&job, after, 1.0).await?;
        after = grants.after;
        if grants.ended {
            break;
        }
        let events: Vec<TaskEvent> =
            grants.grants.iter().filter(|grant| grant.start).map(|grant| event(grant, dice)).collect();
        if !events.is_empty() {
            times.of(client.events(&job, events)).await?;
        }
        times.of(client.place(&job, &AHEAD)).await?;
        times.of(client.task(&job, "t0")).await?;
        if dice.one_in(200) {
            times.of(client.cancel(&job)).await?;
        }
    }
    Ok(())
}

const AHEAD: Place = Place { tasks: None, ahead: true };

fn event(grant: &Grant, dice: &mut Dice) -> TaskEvent {
    let what = match () {
        () if dice.one_in(30) => What::Failed,
        () if dice.one_in(30) => What::Interrupted,
        () => What::Finished,
    };
    let seconds = (what == What::Finished).then_some(0.5);
    TaskEvent { seconds, ..TaskEvent::new(grant, what) }
}
