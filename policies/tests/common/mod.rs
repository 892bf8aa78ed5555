//! What several tests need: the data folder and checks of schedules.
#![allow(dead_code)] // not every test needs all of it

pub(crate) mod benchmarks;
pub(crate) mod random;

use std::path::PathBuf;
use std::sync::Arc;

use mdts_core::{Cluster, Instance, Rng, Schedule};
use mdts_dag::{DataModel, JobGraph};
use mdts_policies::find;
use rand::SeedableRng;

/// A file or folder of the data folder; `None`, and a line that says so, if there is no data folder.
pub(crate) fn data(path: &str, test: &str) -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data");
    let root = match std::env::var_os("MDTS_DATA") {
        Some(root) => {
            assert!(PathBuf::from(&root).is_dir(), "MDTS_DATA is {}, which is no folder", root.display());
            PathBuf::from(root)
        }
        None => PathBuf::from(default),
    };
    if !root.is_dir() {
        eprintln!("{test}: skipped: no data");
        return None;
    }
    Some(root.join(path))
}

/// A graph on a cluster.
pub(crate) fn instance(job: &JobGraph, cluster: Cluster, data: DataModel) -> Instance {
    Instance::new(job.freeze().into(), Arc::new(cluster), data).expect("every task fits some node")
}

/// The verified schedule of a policy, in the role of a planner.
pub(crate) fn plan(policy: &str, instance: &Instance) -> Schedule {
    let planner = find(policy).expect("a known policy").planner();
    let schedule = planner.plan(instance, &mut Rng::seed_from_u64(1)).expect("a plan");
    if let Err(violation) = schedule.verify(instance) {
        panic!("{policy}: {violation}");
    }
    schedule
}
