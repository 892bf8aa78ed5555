//! Makespans of another implementation (anrg-saga 2.0.2) on real workflows, with the same machines and cost model.
//!
//! Ours lie within 1 % of the file's, except in the rows of [`EXPLAINED`], for these reasons:
//! - that implementation iterates over Python sets, so the order of tasks in MCT and of equal sufferages, and the
//!   choice between equal machines, change with `PYTHONHASHSEED`. Over 24 seeds the makespan of MCT on srasearch
//!   runs from 871 to 1215 s, that of Sufferage from 868 to 1086 s; the file holds one of them.
//! - its downward rank adds the run time of the task itself instead of its parent's. `CPoP` by the definition in
//!   the paper (equation 6 of Topcuoglu et al.) finds other critical paths.
//! - its mean link counts each machine's link to itself, of infinite speed. That alone moves no row by 1 %.
//!
//! The makespans in [`EXPLAINED`] are those of that implementation with its sets replaced by lists in the order of
//! the file (tasks topological, machines m0 to m7), its downward rank by the paper's, and its mean link by that
//! between different machines: ours are equal, as they are then in every other row of these six policies and of
//! OLB, MET and `FastestNode`.

mod common;

use std::collections::BTreeMap;

use common::benchmarks::Machines;
use common::{data, plan};
use mdts_core::Instance;

/// The file's name of every policy, and ours.
const POLICIES: [(&str, &str); 6] = [
    ("saga-2.0.2/Heft", "heft"),
    ("saga-2.0.2/Cpop", "cpop"),
    ("saga-2.0.2/MCT", "mct"),
    ("saga-2.0.2/MinMin", "min-min"),
    ("saga-2.0.2/MaxMin", "max-min"),
    ("saga-2.0.2/Sufferage", "sufferage"),
];

/// Rows that differ by more than 1 %, with the makespan when order and downward rank are set as described above.
#[allow(clippy::unreadable_literal)] // makespans as computed
const EXPLAINED: [(&str, &str, f64); 22] = [
    ("cpop", "nextflow/rnaseq-dirt02-001.json.gz", 418.727),
    ("cpop", "pegasus/1000genome/1000genome-chameleon-2ch-100k-001.json", 332.347533),
    ("cpop", "pegasus/cycles/cycles-chameleon-1l-1c-9p-001.json", 117.3334328),
    ("cpop", "pegasus/epigenomics/epigenomics-chameleon-hep-4seq-50k-001.json.gz", 1496.052846),
    ("cpop", "pegasus/montage/montage-chameleon-2mass-005d-001.json", 39.83375139),
    ("cpop", "pegasus/montage/montage-chameleon-2mass-015d-001.json.gz", 175.3586248),
    ("cpop", "pegasus/montage/montage-chameleon-dss-125d-001.json.gz", 5580.418534),
    ("mct", "makeflow/blast/blast-chameleon-small-001.json", 43.29293806),
    ("mct", "nextflow/rnaseq-dirt02-001.json.gz", 451.6159579),
    ("mct", "pegasus/1000genome/1000genome-chameleon-2ch-100k-001.json", 341.176917),
    ("mct", "pegasus/1000genome/1000genome-chameleon-6ch-100k-001.json", 1180.0425),
    ("mct", "pegasus/epigenomics/epigenomics-chameleon-hep-1seq-100k-001.json", 92.31031822),
    ("mct", "pegasus/montage/montage-chameleon-2mass-015d-001.json.gz", 93.41432088),
    ("mct", "pegasus/seismology/seismology-chameleon-100p-001.json", 8.076),
    ("mct", "pegasus/soykb/soykb-chameleon-10fastq-10ch-001.json", 2298.669167),
    ("mct", "pegasus/srasearch/srasearch-chameleon-10a-001.json", 1084.299503),
    ("sufferage", "makeflow/bwa/bwa-chameleon-small-001.json", 73.2244332),
    ("sufferage", "nextflow/rnaseq-dirt02-001.json.gz", 416.3503723),
    ("sufferage", "pegasus/1000genome/1000genome-chameleon-6ch-100k-001.json", 1217.856949),
    ("sufferage", "pegasus/cycles/cycles-chameleon-1l-1c-9p-001.json", 155.0002732),
    ("sufferage", "pegasus/epigenomics/epigenomics-chameleon-hep-1seq-100k-001.json", 97.57384204),
    ("sufferage", "pegasus/srasearch/srasearch-chameleon-10a-001.json", 996.5001701),
];

#[test]
fn makespans_agree_with_another_implementation() {
    let Some(data) = data("", "makespans_agree_with_another_implementation") else { return };
    let machines = Machines::read(&data);
    let table = std::fs::read_to_string(data.join("reference/makespans_q8.csv")).unwrap();
    let mut instances: BTreeMap<&str, Instance> = BTreeMap::new();
    let mut checked = 0;
    for line in table.lines().skip(1) {
        let [name, _, _, peer, expected, ..] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let Some((_, policy)) = POLICIES.iter().find(|(of_file, _)| *of_file == peer) else { continue };
        let instance = instances.entry(name).or_insert_with(|| machines.instance(&data, name));
        let explained = EXPLAINED.iter().find(|(p, n, _)| p == policy && *n == name);
        let (expected, tolerance) = match explained {
            Some((.., makespan)) => (*makespan, 1e-8),
            None => (expected.parse().unwrap(), 0.01),
        };
        let makespan = plan(policy, instance).makespan();
        let deviation = (makespan / expected - 1.0).abs();
        assert!(deviation <= tolerance, "{policy} on {name}: {makespan} s, expected {expected} s");
        checked += 1;
    }
    assert!(checked > 90, "{checked} rows");
}
