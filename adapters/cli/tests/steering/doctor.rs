//! `mdts slurm doctor`.

use mdts_integration_tests::slurm::SlurmCluster;
use serde_json::Value;

use crate::{folder, mdts, mdts_on};

fn findings(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn level<'a>(report: &'a Value, subject: &str) -> &'a str {
    let all = report["findings"].as_array().unwrap();
    all.iter().find(|finding| finding["subject"] == subject).unwrap()["level"].as_str().unwrap()
}

#[test]
fn a_machine_without_slurm_is_told_what_is_missing() {
    let folder = folder();
    let mut command = mdts(folder.path());
    let output = command.env("PATH", folder.path()).args(["slurm", "doctor", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report = findings(&output);
    assert_eq!((level(&report, "programs"), level(&report, "controller")), ("broken", "broken"));
    let all = report["findings"].as_array().unwrap();
    assert!(
        all.iter()
            .filter(|f| f["level"] == "broken")
            .all(|f| f["remedy"].as_str().is_some_and(|r| !r.is_empty()))
    );
}

#[test]
fn a_real_cluster_is_judged() {
    let folder = folder();
    let filter = concat!(env!("CARGO_MANIFEST_DIR"), "/../slurm/lua/cli_filter.lua");
    let flags = ["--line", "MinJobAge=20", "--line", "CliFilterPlugins=lua", "--file", filter];
    let Some(cluster) = SlurmCluster::start("doctor", &flags) else { return };
    let output = mdts_on(&cluster, folder.path()).args(["slurm", "doctor", "--json"]).output().unwrap();
    let report = findings(&output);
    for (subject, expected) in
        [("programs", "good"), ("controller", "good"), ("rights", "good"), ("memory-of-jobs", "warning")]
    {
        assert_eq!(level(&report, subject), expected, "{report}");
    }
    // A filter is there without what it needs.
    assert_eq!((level(&report, "cli-filter"), output.status.code()), ("broken", Some(1)));
}
