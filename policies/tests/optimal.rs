//! Standard task graphs with proven optima: identical processors, no communication, one task at a time.

mod common;

use common::{data, instance, plan};
use mdts_core::{Cluster, SlotModel, lower_bounds};
use mdts_dag::{DataModel, format};

/// Planners that are good at this, with the largest mean ratio to the optimum that is put up with.
const POLICIES: [(&str, f64); 4] = [("heft", 1.01), ("dls", 1.01), ("etf", 1.01), ("max-min", 1.06)];

#[test]
fn list_policies_come_near_the_optimum_and_never_below() {
    let Some(stg) = data("stg", "list_policies_come_near_the_optimum_and_never_below") else { return };
    let table = std::fs::read_to_string(stg.join("optimal_makespans.csv")).unwrap();
    let mut sums = [0.0; POLICIES.len()];
    let mut proven = 0;
    let mut last = (String::new(), None);
    for line in table.lines().skip(1) {
        let [file, processors, lower, upper, status] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        if last.0 != file {
            last = (file.to_owned(), Some(format::read_path(stg.join(file)).unwrap()));
        }
        let Some(job) = &last.1 else { continue };
        let cluster = Cluster::identical(processors.parse().unwrap(), SlotModel::Exclusive).unwrap();
        let instance = instance(job, cluster, DataModel::Edges);
        let (lower, upper): (f64, f64) = (lower.parse().unwrap(), upper.parse().unwrap());
        let bound = lower_bounds(&instance).best();
        assert!(bound <= upper + 1e-6, "{line}: the lower bound is {bound}");
        let makespans = POLICIES.map(|(policy, _)| plan(policy, &instance).makespan());
        for makespan in makespans {
            assert!(makespan >= lower.max(bound) - 1e-6, "{line}: {makespan} is below the bound");
        }
        if status == "proven" {
            proven += 1;
            for (sum, makespan) in sums.iter_mut().zip(makespans) {
                *sum += makespan / upper;
            }
        }
    }
    assert!(proven > 500, "{proven} proven rows");
    for ((policy, most), sum) in POLICIES.iter().zip(sums) {
        let mean = sum / f64::from(proven);
        println!("{policy}: {mean:.5} of the optimum on average over {proven} rows");
        assert!(mean <= *most, "{policy}: {mean}");
    }
}
