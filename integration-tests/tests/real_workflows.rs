//! Every policy on every real workflow of moderate size, under all four models.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mdts_core::{Cluster, Instance, Rng, SlotModel, lower_bounds};
use mdts_dag::{DataModel, format};
use mdts_integration_tests::data_folder;
use mdts_policies::policies;
use rand::SeedableRng;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Larger graphs are left to the benchmarks.
const MOST_TASKS: usize = 320;
/// The search takes longer than the others.
const MOST_TASKS_OF_SEARCH: usize = 60;

const CLUSTER: &str = r#"
[network]
bandwidth = "100MB"
[[node]]
name = "fast"
count = 3
speed = 2.0
cores = 4
[[node]]
name = "slow"
count = 5
speed = 0.75
cores = 2
"#;

#[test]
fn every_policy_plans_every_workflow() -> Outcome {
    let Some(folder) = data_folder() else {
        eprintln!("every_policy_plans_every_workflow: skipped: no data");
        return Ok(());
    };
    let mut files = Vec::new();
    collect(&folder.join("wfinstances"), &mut files)?;
    collect(&folder.join("pegasus_dax"), &mut files)?;
    files.sort();
    let mut planned = 0;
    for file in files {
        let graph = Arc::new(format::read_path(&file)?.freeze());
        if graph.len() > MOST_TASKS {
            continue;
        }
        for slots in [SlotModel::Exclusive, SlotModel::Resources] {
            let cluster = Arc::new(Cluster::from_text(CLUSTER, "toml")?.with_slots(slots));
            for data in [DataModel::Edges, DataModel::Files] {
                let instance = Instance::new(graph.clone(), cluster.clone(), data)?;
                let bound = lower_bounds(&instance).best();
                let is_suitable =
                    |name| !["search", "mdts"].contains(&name) || graph.len() <= MOST_TASKS_OF_SEARCH;
                for policy in policies().iter().filter(|p| is_suitable(p.name)) {
                    let plan = policy.planner().plan(&instance, &mut Rng::seed_from_u64(1))?;
                    let context = || format!("{} on {} ({slots:?}, {data:?})", policy.name, file.display());
                    plan.verify(&instance).map_err(|e| format!("{}: {e}", context()))?;
                    assert!(plan.makespan() >= bound * (1.0 - 1e-9), "{}", context());
                    planned += 1;
                }
            }
        }
    }
    assert!(planned >= 30 * 4 * policies().len(), "only {planned} plans were made");
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if [".json", ".json.gz", ".xml", ".xml.gz"].iter().any(|e| path.to_string_lossy().ends_with(e))
        {
            files.push(path);
        }
    }
    Ok(())
}
