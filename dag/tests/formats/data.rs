//! Real files: every one reads, with the number of tasks and edges that its index gives.

use std::fs;
use std::path::{Path, PathBuf};

use mdts_dag::{JobGraph, Work, format};

/// The folder with test data, unless it is absent.
fn data(test: &str) -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("MDTS_DATA") {
        let folder = PathBuf::from(folder);
        assert!(folder.is_dir(), "MDTS_DATA is {}, which is not a folder", folder.display());
        return Some(folder);
    }
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    if !folder.is_dir() {
        eprintln!("{test}: skipped: no data");
        return None;
    }
    Some(folder)
}

fn read(path: &Path) -> JobGraph {
    format::read_path(path).unwrap_or_else(|e| panic!("{e}"))
}

fn files_under(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_under(&path, endings, found);
        } else if endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)) {
            found.push(path);
        }
    }
}

#[test]
fn every_file_of_the_index_has_its_counts() {
    let Some(data) = data("every_file_of_the_index_has_its_counts") else { return };
    let index = fs::read_to_string(data.join("INDEX.tsv")).unwrap();
    let mut files = 0;
    for line in index.lines().skip(1) {
        let [file, _, tasks, edges] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let job = read(&data.join(file));
        assert_eq!(
            (job.len().to_string(), job.dependency_count().to_string()),
            (tasks.into(), edges.into()),
            "{file}"
        );
        files += 1;
    }
    assert!(files > 200, "{files}");
}

#[test]
fn every_file_of_every_format_reads() {
    let Some(data) = data("every_file_of_every_format_reads") else { return };
    let folders = [
        ("wfinstances", &[".json", ".json.gz"][..], 36),
        ("wfcommons_generated", &[".json.gz"], 2),
        ("pegasus_dax", &[".xml", ".xml.gz"], 14),
        ("stg", &[".stg", ".stg.gz"], 200),
        ("dslab/dags", &[".dot"], 12),
    ];
    for (folder, endings, expected) in folders {
        let mut files = Vec::new();
        files_under(&data.join(folder), endings, &mut files);
        assert!(files.len() >= expected, "{folder}: {}", files.len());
        for file in files {
            let job = read(&file);
            assert!(job.tasks().all(|task| task.work != Work::Unknown), "{}", file.display());
        }
    }
}

#[test]
fn generated_workflows_have_their_tasks() {
    let Some(data) = data("generated_workflows_have_their_tasks") else { return };
    let folder = data.join("wfcommons_generated");
    for (file, tasks, edges) in
        [("gen-montage-12000.json.gz", 11_986, 38_980), ("gen-epigenomics-10000.json.gz", 9_995, 14_044)]
    {
        let job = read(&folder.join(file));
        assert_eq!((job.len(), job.dependency_count()), (tasks, edges));
    }
    let job = read(&folder.join("gen-montage-12000.json.gz"));
    let task = job.task(job.find("mDiffFit_00000101").unwrap());
    assert_eq!((&*task.kind, &task.work), ("mDiffFit", &Work::Seconds(46.525)));
    assert_eq!(task.run.as_ref().unwrap().command, ["mDiffFit"]);
}

#[test]
fn heft_paper_has_its_edges() {
    let Some(data) = data("heft_paper_has_its_edges") else { return };
    let job = read(&data.join("pegasus_dax/HEFT_paper.xml"));
    assert_eq!(job.name(), "test");
    let bytes = |parent: u32, child: u32| {
        let (parent, child) = (format!("ID{parent:05}"), format!("ID{child:05}"));
        let edge = |(p, c, _): &(_, _, _)| *job.task(*p).name == *parent && *job.task(*c).name == *child;
        job.dependencies().find(edge).map(|(_, _, data)| data.bytes)
    };
    // The paper's communication times, times 125.
    for (parent, child, time) in
        [(1, 2, 18.0), (1, 3, 12.0), (1, 6, 14.0), (2, 8, 19.0), (4, 8, 27.0), (9, 10, 13.0)]
    {
        assert_eq!(bytes(parent, child), Some(time * 125.0), "{parent} -> {child}");
    }
    assert_eq!(bytes(2, 3), None);
    let first = job.task(job.find("ID00001").unwrap());
    assert_eq!((&*first.kind, &first.work), ("heft_task", &Work::Seconds(14.0)));
}

#[test]
fn daggen_sizes_are_operations_and_bytes() {
    let Some(data) = data("daggen_sizes_are_operations_and_bytes") else { return };
    let job = read(&data.join("dslab/dags/daggen-100-0.25-0.9-0.3-2.dot"));
    let task = job.task(job.find("task_1").unwrap());
    assert_eq!(task.work, Work::Seconds(579.8421));
    assert!(job.dependencies().any(|(_, _, data)| data.bytes > 1e6));
}

#[test]
fn stg_dummies_are_dropped() {
    let Some(data) = data("stg_dummies_are_dropped") else { return };
    let job = read(&data.join("stg/50/rand0000.stg"));
    assert_eq!((job.len(), job.dependency_count()), (50, 96)); // the file's own count without dummies
    assert_eq!(job.name(), "rand0000");
    assert!(job.find("0").is_none() && job.find("51").is_none());
    assert_eq!(job.task(job.find("1").unwrap()).work, Work::Seconds(9.0));
}
