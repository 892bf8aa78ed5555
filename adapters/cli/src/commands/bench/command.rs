//! The arguments, the usual cases, and a process for each.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mdts_dag::format;
use mdts_dag::generate::{Generator, from_text, seeded};
use serde::{Deserialize, Serialize};

use super::planning::{self, Plan, PlanRow};
use super::reading::{self, ReadRow};
use super::show;
use crate::error::{Error, Result};
use crate::output;
use crate::policy;
use crate::progress;

/// The workflow whose reading is measured if no file is named.
const READ: &str = "montage:bands=3,images=800,overlaps_per_image=3";

/// Arguments of `mdts bench`.
///
/// Measures planning on generated graphs of 1,000 to 1,000,000 tasks, and the reading of a `WfFormat` file, plain and
/// packed. --graph and --file choose other cases. Times are medians; each case has a process of its own, so that its
/// peak memory is its own.
#[allow(clippy::doc_markdown)] // the texts are for the terminal
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  mdts bench --quick\n  \
                        mdts bench --graph layered:tasks=1e5,max_parents=3 --policies heft,peft --nodes 64\n  \
                        mdts bench --graph independent:tasks=1e5 --nodes 64 --cores 16 --demands 1,2,4\n  \
                        mdts bench --file workflow.json.gz --json")]
pub(crate) struct Bench {
    /// Policies to measure
    #[arg(long, value_name = "A,B,..", value_delimiter = ',', default_value = "heft")]
    policies: Vec<String>,
    /// Graphs to plan instead of the usual ones: as for convert --generate, or a file; may be repeated
    #[arg(long = "graph", value_name = "SPEC")]
    graphs: Vec<String>,
    /// Numbers of nodes [default: 8,32,64,128]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nodes: Vec<u32>,
    /// Nodes have this many cores and run tasks side by side (with --graph)
    #[arg(long, value_name = "N", requires = "graphs", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cores: Option<u32>,
    /// Cores that the tasks want, in turn
    #[arg(long, value_name = "N,..", value_delimiter = ',', requires = "cores", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    demands: Vec<u32>,
    /// File to read, plain or packed, instead of a generated one
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Few cases: some 7 seconds of processor time
    #[arg(long)]
    quick: bool,
    /// Measure in this process rather than in one per case; peak memory is then that of all cases
    #[arg(long)]
    here: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// All that was measured.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Report {
    plans: Vec<PlanRow>,
    reading: Vec<ReadRow>,
}

/// What is measured in one process.
#[derive(Debug)]
enum Case {
    Plan(Plan),
    Read(PathBuf),
}

impl Bench {
    pub(in crate::commands) fn carry_out(&self, quiet: bool) -> Result<()> {
        let mut folder = None;
        let cases = self.cases(&mut folder)?;
        let progress = progress::steps(cases.len() as u64, quiet);
        let mut report = Report::default();
        for case in &cases {
            progress.set_message(case.label());
            report.add(if self.here { measure(case) } else { measure_apart(case) }?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        planning::compare_sizes(&mut report.plans);
        match (self.json, quiet) {
            (true, _) => output::print_json(&report),
            (false, true) => Ok(()),
            (false, false) => output::print(&show::tables(&report.plans, &report.reading)),
        }
    }

    /// What to measure; a file that must be written for it goes into a new `folder`.
    fn cases(&self, folder: &mut Option<Folder>) -> Result<Vec<Case>> {
        let is_usual = self.graphs.is_empty() && self.file.is_none();
        let plans = if is_usual { self.usual_plans() } else { self.chosen_plans() };
        for plan in &plans {
            plan.check()?;
        }
        let mut cases: Vec<Case> = plans.into_iter().map(Case::Plan).collect();
        if let Some(file) = &self.file {
            cases.push(Case::Read(file.clone()));
        } else if is_usual {
            let folder = folder.insert(Folder::create()?);
            cases.extend(folder.write_workflows()?.map(Case::Read));
        }
        Ok(cases)
    }

    fn chosen_plans(&self) -> Vec<Plan> {
        let graphs = self.graphs.iter();
        graphs.flat_map(|graph| self.plans(graph, &[8, 32, 64, 128], self.cores, &self.demands)).collect()
    }

    /// Layered and independent graphs on exclusive nodes, and on shared nodes with equal and unequal demands.
    fn usual_plans(&self) -> Vec<Plan> {
        let (sizes, nodes): (&[_], &[_]) = if self.quick {
            (&["1e3", "1e4", "1e5"], &[8, 64])
        } else {
            (&["1e3", "1e4", "1e5", "1e6"], &[8, 32, 64, 128])
        };
        let layered = |size: &str| format!("layered:tasks={size},max_parents=3");
        let independent = |size: &str| format!("independent:tasks={size}");
        let mut plans = Vec::new();
        for size in sizes {
            plans.extend(self.plans(&layered(size), nodes, None, &[]));
        }
        plans.extend(self.plans(&independent("1e5"), &nodes[nodes.len() / 2..], None, &[]));
        plans.extend(self.plans(&independent("1e5"), &[64], Some(16), &[]));
        let sizes = &sizes[..3];
        for size in sizes {
            plans.extend(self.plans(&independent(size), &[1], Some(4), &[1, 2]));
        }
        for size in sizes {
            plans.extend(self.plans(&layered(size), &[64], Some(16), &[1, 2, 4, 8]));
        }
        plans
    }

    /// A graph with every policy on every number of nodes.
    fn plans(&self, graph: &str, nodes: &[u32], cores: Option<u32>, demands: &[u32]) -> Vec<Plan> {
        let nodes = if self.nodes.is_empty() { nodes } else { &self.nodes };
        let plan = |policy: &String, nodes: &u32| Plan {
            graph: graph.into(),
            policy: policy.clone(),
            nodes: *nodes,
            cores,
            demands: demands.into(),
        };
        self.policies.iter().flat_map(|policy| nodes.iter().map(move |n| plan(policy, n))).collect()
    }
}

impl Report {
    fn add(&mut self, other: Self) {
        self.plans.extend(other.plans);
        self.reading.extend(other.reading);
    }
}

impl Plan {
    /// Refuses what the case's own process would have to refuse.
    fn check(&self) -> Result<()> {
        policy::find(&self.policy)?;
        if !Path::new(&self.graph).exists() {
            self.graph.parse::<Generator>()?;
        }
        Ok(())
    }
}

impl Case {
    fn label(&self) -> String {
        match self {
            Self::Plan(plan) => format!("{} x {} by {}", plan.graph, plan.nodes, plan.policy),
            Self::Read(file) => file.display().to_string(),
        }
    }

    /// The arguments that measure this case and no other.
    fn pass_to(&self, command: &mut Command) {
        match self {
            Self::Plan(plan) => {
                command.args(["--graph", &plan.graph, "--policies", &plan.policy]);
                command.args(["--nodes", &plan.nodes.to_string()]);
                if let Some(cores) = plan.cores {
                    command.args(["--cores", &cores.to_string()]);
                }
                if !plan.demands.is_empty() {
                    let demands: Vec<String> = plan.demands.iter().map(u32::to_string).collect();
                    command.args(["--demands", &demands.join(",")]);
                }
            }
            Self::Read(file) => {
                command.args([OsStr::new("--file"), file.as_os_str()]);
            }
        }
    }
}

fn measure(case: &Case) -> Result<Report> {
    let mut report = Report::default();
    match case {
        Case::Plan(plan) => report.plans.push(plan.measure()?),
        Case::Read(file) => report.reading.push(reading::measure(file)?),
    }
    Ok(report)
}

/// Measures in a process of its own. For plans, glibc gives arrays back there as soon as they are dropped, so that what
/// building the graph leaves behind does not hide what planning needs. Readers keep the usual setting: with the other
/// they would fetch new pages for every array that grows.
fn measure_apart(case: &Case) -> Result<Report> {
    let failed = |source| Error::System { what: "a process to measure in", source };
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    if matches!(case, Case::Plan(_)) {
        command.env("MALLOC_MMAP_THRESHOLD_", "65536");
    }
    command.stdin(Stdio::null());
    command.args(["--quiet", "bench", "--here", "--json"]);
    case.pass_to(&mut command);
    let done = command.output().map_err(failed)?;
    if !done.status.success() {
        let told = String::from_utf8_lossy(&done.stderr);
        let told = told.trim().trim_start_matches("error: ");
        return Err(match done.status.code() {
            Some(2) => Error::Usage(told.into()),
            _ => failed(io::Error::other(format!("{}: {}: {told}", case.label(), done.status))),
        });
    }
    serde_json::from_slice(&done.stdout).map_err(|e| failed(e.into()))
}

/// A new folder for files to read, which goes with this value.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn create() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("mdts-bench-{}", std::process::id()));
        fs::create_dir(&path).map_err(|source| Error::Output { path: path.clone(), source })?;
        Ok(Self(path))
    }

    /// The same workflow plain and packed.
    fn write_workflows(&self) -> Result<[PathBuf; 2]> {
        let job = from_text(READ, &mut seeded(0))?;
        let files = ["montage.json", "montage.json.gz"].map(|name| self.0.join(name));
        for file in &files {
            format::write_path(&job, file)?;
        }
        Ok(files)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok(); // the system clears its temporary folder some day
    }
}
