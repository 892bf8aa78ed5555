//! The search against the best makespans known, on a sample of public benchmarks and with few iterations.

mod common;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::benchmarks::{Row, psplib, q8, stg};
use common::data;
use mdts_core::Rng;
use mdts_policies::search::{Budget, Search};
use rand::SeedableRng;

/// Makespan over the best one known of every row. Schedules are right, not below a bound, and optimal if they say so.
fn ratios(rows: &[Row], iterations: u64) -> Vec<f64> {
    let search = Search { budget: Budget::Iterations(iterations), threads: 2 };
    let ratio = |row: &Row| {
        let rng = &mut Rng::seed_from_u64(1);
        let found = search.improve(&row.instance, rng, &AtomicBool::new(false), &|| Duration::ZERO).unwrap();
        found.schedule.verify(&row.instance).unwrap();
        let makespan = found.schedule.makespan();
        // Some of the proofs rounded times to milliseconds.
        let tolerance = if makespan.fract() == 0.0 { 1e-9 } else { 1e-3 };
        assert!(makespan >= row.lower - tolerance, "{}: {makespan} is below the bound", row.name);
        assert!(found.lower_bound <= row.best + tolerance, "{}: bound {}", row.name, found.lower_bound);
        assert!(
            !found.optimal || makespan <= row.best + tolerance,
            "{}: {makespan} is not optimal",
            row.name
        );
        println!("{}: {makespan}, known {}, {} iterations", row.name, row.best, found.iterations);
        makespan / row.best
    };
    rows.iter().map(ratio).collect()
}

fn mean(ratios: &[f64]) -> f64 {
    ratios.iter().sum::<f64>() / ratios.len() as f64
}

fn optimal_part(rows: &[Row], ratios: &[f64]) -> f64 {
    let proven: Vec<f64> = rows.iter().zip(ratios).filter(|(row, _)| row.proven).map(|(_, r)| *r).collect();
    proven.iter().filter(|r| **r <= 1.0 + 1e-9).count() as f64 / proven.len() as f64
}

#[test]
fn standard_task_graphs() {
    let Some(data) = data("", "standard_task_graphs") else { return };
    let rows = stg(&data, 7);
    let ratios = ratios(&rows, 200);
    assert!(rows.len() > 90 && optimal_part(&rows, &ratios) >= 0.95, "{}", optimal_part(&rows, &ratios));
    assert!(mean(&ratios) < 1.001, "{}", mean(&ratios));
}

#[test]
fn projects_with_several_resources() {
    let Some(data) = data("", "projects_with_several_resources") else { return };
    for (size, every, iterations, most) in
        [("j30", 2, 2000, 1.005), ("j60", 3, 1000, 1.02), ("j90", 3, 400, 1.04), ("j120", 1, 1500, 1.04)]
    {
        let rows = psplib(&data, size, every);
        let ratios = ratios(&rows, iterations);
        assert!(mean(&ratios) <= most, "{size}: {}", mean(&ratios));
        if size == "j30" {
            assert!(optimal_part(&rows, &ratios) >= 0.9, "{size}: {}", optimal_part(&rows, &ratios));
        }
    }
}

#[test]
fn workflows_on_unequal_machines() {
    let Some(data) = data("", "workflows_on_unequal_machines") else { return };
    // The largest take longer than a test may.
    let rows: Vec<Row> = q8(&data).into_iter().filter(|row| row.instance.tasks() <= 200).collect();
    let ratios = ratios(&rows, 60_000);
    assert!(rows.len() > 10 && mean(&ratios) < 0.995, "{}", mean(&ratios));
    assert!(ratios.iter().all(|r| *r < 1.05), "{ratios:?}");
}

#[test]
fn proven_optima_of_workflows_are_reached() {
    let Some(data) = data("", "proven_optima_of_workflows_are_reached") else { return };
    let rows: Vec<Row> = q8(&data).into_iter().filter(|row| row.proven).collect();
    let known = ["chain-5", "forkjoin-10", "epigenomics-chameleon-hep-1seq-100k", "srasearch-chameleon-10a"];
    for (part, optimum) in known.iter().zip([250.62, 236.8187, 90.603, 769.387]) {
        assert!(rows.iter().any(|row| row.name.contains(part) && row.best == optimum), "{part}");
    }
    assert_eq!(rows.len(), known.len());
    for (row, ratio) in rows.iter().zip(ratios(&rows, 600_000)) {
        assert!((ratio * row.best - row.best).abs() <= 1e-3, "{}: {}", row.name, ratio * row.best);
    }
}
