//! A folder of batch scripts as a job graph.
//!
//! Every file of the folder that begins with `#!` and has a `#SBATCH` line is a task, or as many as its `--array` has. It is called
//! as its `--job-name` says, or as its file without the extension. `--dependency=afterok:NAME` (also `after`, `afterany`, `afternotok`,
//! `aftercorr`, several with `:` and `,`) names another script by its job name, file or file without extension; numbers are jobs that are
//! in Slurm already and say nothing here. `aftercorr` between two arrays of one size joins elements of one place. The time limit
//! is the run time, as nothing else is known. Tasks run by the script's own interpreter, elements with `SLURM_ARRAY_TASK_ID`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mdts_dag::text::nearest;
use mdts_dag::{JobGraph, Task, TaskId};

use super::indices::indices;
use crate::brain::{Memory, Request, demand};
use crate::filter::{Script, Sources, read_request};
use crate::{Error, Result};

/// Larger files are no batch scripts.
const LARGEST: u64 = 16 << 20;
/// No folder has more scripts.
const MOST: usize = 100_000;

/// One script, and the tasks that it became.
struct Found {
    path: PathBuf,
    request: Request,
    elements: Vec<u32>,
    interpreter: Vec<String>,
    tasks: Vec<TaskId>,
}

/// Reads a folder of batch scripts.
///
/// # Errors
/// [`Error::Io`]; [`Error::Usage`] that names the script and what is wrong in it: a directive that sbatch would refuse, a dependency on
/// a script that is not there, a circle; or if there is no script.
pub fn read_scripts(folder: &Path) -> Result<JobGraph> {
    let mut found = scripts(folder)?;
    if found.is_empty() {
        return Err(Error::Usage(format!(
            "{}: no file here begins with #! and has an #SBATCH line",
            folder.display()
        )));
    }
    let name = folder.file_name().map_or_else(|| "scripts".into(), |name| name.to_string_lossy());
    let mut builder = JobGraph::builder(name);
    for script in &mut found {
        for (name, task) in script.as_tasks() {
            let id = builder.task(task).map_err(|error| script.wrong(&format!("task '{name}': {error}")))?;
            script.tasks.push(id);
        }
    }
    let names = names(&found);
    for script in &found {
        for (kind, parent) in script.parents() {
            let Some(&at) = names.get(parent.as_str()) else { return Err(script.unknown(&parent, &names)) };
            let parents = &found[at].tasks;
            if kind == "aftercorr" && parents.len() == script.tasks.len() {
                script
                    .tasks
                    .iter()
                    .zip(parents)
                    .for_each(|(child, parent)| builder.depend(*child, *parent, 0.0));
            } else {
                let pairs =
                    script.tasks.iter().flat_map(|child| parents.iter().map(move |parent| (child, parent)));
                pairs.for_each(|(child, parent)| builder.depend(*child, *parent, 0.0));
            }
        }
    }
    builder.build().map_err(|error| Error::Usage(format!("{}: {error}", folder.display())))
}

fn scripts(folder: &Path) -> Result<Vec<Found>> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> =
        entries.map_err(Error::io(folder))?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let mut bytes = Vec::new();
        let read = fs::File::open(&path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
        read.map_err(Error::io(&path))?;
        let Ok(script) = Script::scan(&bytes) else { continue };
        if script.directives.is_empty() {
            continue;
        }
        if found.len() == MOST {
            return Err(Error::Usage(format!("{}: more than {MOST} scripts", folder.display())));
        }
        let wrong = |what: &dyn std::fmt::Display| Error::Usage(format!("{}: {what}", path.display()));
        let request = read_request(&script, &Sources::default()).map_err(|obstacle| wrong(&obstacle))?;
        let elements = match request.array.as_deref() {
            None => Vec::new(),
            Some(text) => indices(text).ok_or_else(|| wrong(&format!("--array={text} cannot be read")))?,
        };
        let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        let first = String::from_utf8_lossy(first.strip_prefix(b"#!").unwrap_or_default());
        let interpreter = first.split_whitespace().map(str::to_owned).collect();
        found.push(Found { path, request, elements, interpreter, tasks: Vec::new() });
    }
    Ok(found)
}

/// Every name by which a script can be named; a job name comes before a file's.
fn names(found: &[Found]) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    let files = |of: fn(&Path) -> Option<&std::ffi::OsStr>| {
        found.iter().enumerate().filter_map(move |(at, f)| Some((of(&f.path)?.to_str()?, at)))
    };
    names.extend(files(Path::file_name));
    names.extend(files(Path::file_stem));
    names.extend(found.iter().enumerate().filter_map(|(at, f)| Some((f.request.name.as_deref()?, at))));
    names
}

impl Found {
    fn name(&self) -> String {
        let stem =
            || self.path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        self.request.name.clone().unwrap_or_else(stem)
    }

    fn as_tasks(&self) -> Vec<(String, Task)> {
        let name = self.name();
        if self.elements.is_empty() {
            return vec![(name.clone(), self.task(&name, None))];
        }
        let of = |element: &u32| {
            let element_name = format!("{name}_{element}");
            let task = self.task(&element_name, Some(*element)).kind(name.as_str());
            (element_name, task)
        };
        self.elements.iter().map(of).collect()
    }

    fn task(&self, name: &str, element: Option<u32>) -> Task {
        let nodes = self.request.nodes.map_or(1, |(least, _)| least.max(1));
        let needs = demand(&self.request, nodes, Memory::PerNode(1));
        let command = self.interpreter.iter().cloned().chain([self.path.to_string_lossy().into_owned()]);
        let task = Task::new(name).command(command).with_demand(|demand| {
            demand.cores = needs.cpus.min(1 << 20) as f64;
            demand.memory =
                needs.memory.filter(|memory| *memory > 1).unwrap_or(0).saturating_mul(1 << 20).min(1 << 59);
            demand.gpus = needs.gres.get("gpu").copied().unwrap_or(0).min(1 << 20) as f64;
            demand.gang = u32::try_from(nodes).unwrap_or(u32::MAX);
        });
        let task = match element {
            Some(element) => task
                .with_execution(|run| run.env.push(("SLURM_ARRAY_TASK_ID".to_owned(), element.to_string()))),
            None => task,
        };
        match self.request.minutes {
            Some(minutes) => task.seconds(minutes as f64 * 60.0),
            None => task,
        }
    }

    /// What it waits for: kind and name.
    fn parents(&self) -> Vec<(String, String)> {
        let dependency = self.request.dependency.as_deref().unwrap_or_default();
        let conditions = dependency.split([',', '?']).filter_map(|condition| condition.split_once(':'));
        let named = conditions
            .flat_map(|(kind, names)| names.split(':').map(move |name| (kind.to_owned(), name.to_owned())));
        let is_number = |name: &str| name.chars().all(|c| c.is_ascii_digit() || c == '_' || c == '+');
        named.filter(|(_, name)| !is_number(name)).collect()
    }

    fn wrong(&self, what: &str) -> Error {
        Error::Usage(format!("{}: {what}", self.path.display()))
    }

    fn unknown(&self, parent: &str, names: &BTreeMap<&str, usize>) -> Error {
        let hint = nearest(parent, names.keys().copied())
            .map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
        self.wrong(&format!(
            "it depends on '{parent}', which is no job name and no script of this folder{hint}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn scripts_become_tasks() {
        let folder = folder(&[
            ("1-prepare.sh", "#!/bin/sh\n#SBATCH -J prepare -t 10 -c 2 --mem=1G\nls\n"),
            (
                "2-work.sh",
                "#!/bin/bash -e\n#SBATCH --array=1-3 -t 1:00:00\n#SBATCH -d afterok:prepare:77\nls\n",
            ),
            ("3-check.sh", "#!/bin/sh\n#SBATCH --array=1-3 -d aftercorr:2-work --gres=gpu:1\nls\n"),
            ("4-end.sh", "#!/bin/sh\n#SBATCH -N2 -n4 -d afterany:3-check.sh,afterok:prepare\nls\n"),
            ("notes.txt", "no script"),
            ("plain.sh", "#!/bin/sh\nls\n"),
        ]);
        let job = read_scripts(folder.path()).unwrap();
        let names: Vec<&str> = job.tasks().map(|task| &*task.name).collect();
        assert_eq!(
            names,
            ["prepare", "2-work_1", "2-work_2", "2-work_3", "3-check_1", "3-check_2", "3-check_3", "4-end"]
        );
        // 3 to the array, 3 from element to element, 3 + 1 to the end.
        assert_eq!(job.dependency_count(), 10);
        let task = |name: &str| job.task(job.find(name).unwrap());
        assert_eq!(task("prepare").work, mdts_dag::Work::Seconds(600.0));
        let demand = task("prepare").demand.as_deref().unwrap();
        assert_eq!((demand.cores, demand.memory, demand.gang), (2.0, 1 << 30, 1));
        assert_eq!(task("4-end").demand.as_deref().unwrap().gang, 2);
        let run = task("2-work_2").run.as_deref().unwrap();
        assert_eq!((run.command[0].as_str(), run.env[0].1.as_str()), ("/bin/bash", "2"));
    }

    #[test]
    fn what_is_wrong_is_told_with_the_script() {
        let told = |files: &[(&str, &str)]| read_scripts(folder(files).path()).unwrap_err().to_string();
        let unknown = told(&[
            ("a.sh", "#!/bin/sh\n#SBATCH -J align\n"),
            ("b.sh", "#!/bin/sh\n#SBATCH -d afterok:aling\n"),
        ]);
        assert!(
            unknown.contains("b.sh: it depends on 'aling'") && unknown.contains("did you mean 'align'"),
            "{unknown}"
        );
        let circle = told(&[
            ("a.sh", "#!/bin/sh\n#SBATCH -d afterok:b\n"),
            ("b.sh", "#!/bin/sh\n#SBATCH -d afterok:a\n"),
        ]);
        assert!(circle.contains("cycle"), "{circle}");
        assert!(told(&[("a.sh", "#!/bin/sh\n#SBATCH foo\n")]).contains("a.sh: line 2"));
        assert!(told(&[("a.sh", "#!/bin/sh\n#SBATCH --array=x\n")]).contains("--array=x"));
        assert!(
            told(&[("a.sh", "#!/bin/sh\n#SBATCH -J x\n"), ("b.sh", "#!/bin/sh\n#SBATCH -J x\n")])
                .contains("two tasks")
        );
        assert!(told(&[]).contains("no file here"));
    }
}
