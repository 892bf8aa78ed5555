//! Prints how near the search comes to the best makespans known of public benchmarks.
//!
//! `cargo run --release -p mdts-policies --example quality -- SET[:NAME] BUDGET [EVERY [SEED [THREADS]]]`. SET is stg, j30,
//! j60, j90, j120 or q8, NAME a part of the names of the instances that are wanted; BUDGET is in seconds (`1`) or in
//! iterations (`5000i`). The data folder is named by `MDTS_DATA`. With one thread instances run two at a time.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use common::benchmarks::{Row, psplib, q8, stg};
use common::data;
use mdts_core::Rng;
use mdts_policies::search::{Budget, Found, Search};
use rand::SeedableRng;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(set), Some(budget)) = (arguments.first(), arguments.get(1).and_then(|text| budget(text)))
    else {
        eprintln!("quality stg|j30|j60|j90|j120|q8[:NAME] SECONDS|ITERATIONSi [EVERY [SEED [THREADS]]]");
        return;
    };
    let number = |at: usize| arguments.get(at).and_then(|s| s.parse().ok()).unwrap_or(1);
    let (every, seed, threads) = (number(2), number(3) as u64, number(4));
    let Some(data) = data("", "quality") else { return };
    let (set, name) = set.split_once(':').unwrap_or((set, ""));
    let mut rows = rows(&data, set, every);
    rows.retain(|row| row.name.contains(name));
    let found = all(&rows, Search { budget, threads }, seed);
    table(&rows, &found);
}

fn budget(text: &str) -> Option<Budget> {
    match text.strip_suffix('i') {
        Some(count) => count.parse().ok().map(Budget::Iterations),
        None => text.parse().ok().map(Budget::Seconds),
    }
}

fn rows(data: &Path, set: &str, every: usize) -> Vec<Row> {
    match set {
        "stg" => stg(data, every),
        "q8" => q8(data),
        size => psplib(data, size, every),
    }
}

fn all(rows: &[Row], search: Search, seed: u64) -> Vec<(Found, f64)> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<Option<(Found, f64)>>> = Mutex::new(vec![None; rows.len()]);
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(i) else { break };
            let begin = Instant::now();
            let rng = &mut Rng::seed_from_u64(seed);
            let one = search
                .improve(&row.instance, rng, &AtomicBool::new(false), &move || begin.elapsed())
                .unwrap();
            one.schedule.verify(&row.instance).unwrap();
            found.lock().unwrap()[i] = Some((one, begin.elapsed().as_secs_f64()));
        }
    };
    std::thread::scope(|scope| {
        if search.threads == 1 {
            scope.spawn(work);
        }
        work();
    });
    found.into_inner().unwrap().into_iter().flatten().collect()
}

fn table(rows: &[Row], found: &[(Found, f64)]) {
    println!("| instance | tasks | known | list | search | bound | optimal | over known | s | iterations |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let (mut over, mut proven, mut equal, mut at_most, mut known, mut seconds) = (0.0, 0, 0, 0, 0, 0.0);
    for (row, (found, took)) in rows.iter().zip(found) {
        let makespan = found.schedule.makespan();
        let most = if row.best.is_nan() { found.lower_bound } else { row.best };
        // Some makespans of others are rounded to milliseconds.
        let missed = makespan > most + 1e-3;
        if missed || rows.len() < 100 {
            println!(
                "| {} | {} | {}{} | {:.3} | {makespan:.4} | {:.4} | {} | {:+.3} % | {took:.2} | {} |",
                row.name,
                row.instance.tasks(),
                row.best,
                if row.proven { "*" } else { "" },
                found.start_makespan,
                found.lower_bound,
                found.optimal,
                (makespan / most - 1.0) * 100.0,
                found.iterations
            );
        }
        assert!(makespan >= row.lower - 1e-3, "{}: {makespan} is below the bound", row.name);
        over += makespan / most - 1.0;
        known += 1;
        proven += i32::from(row.proven);
        equal += i32::from(row.proven && !missed);
        at_most += i32::from(!missed);
        seconds += took;
    }
    println!(
        "{known} rows: {:.4} % over the best known (or the bound) on average, {at_most} at or below it; {equal} of {proven} \
         proven optima; {:.3} s on average",
        over / f64::from(known) * 100.0,
        seconds / f64::from(known)
    );
}
