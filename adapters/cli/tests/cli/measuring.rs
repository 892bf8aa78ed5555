//! `mdts bench`: what it tells, and what it refuses.

use serde_json::Value;

use crate::{Folder, assert_keys, diamond};

#[test]
fn planning_is_measured_for_every_policy_and_number_of_nodes() {
    let graphs = ["--graph", "layered:tasks=30", "--graph", "layered:tasks=300"];
    let args = [&["bench"], &graphs[..], &["--policies", "heft,etf", "--nodes", "2,3", "--json"]].concat();
    let report = Folder::new().json(&args);
    let rows = report["plans"].as_array().expect("a list");
    assert_eq!((rows.len(), &report["reading"]), (8, &Value::Array(Vec::new())));
    for row in rows {
        assert_keys(
            row,
            &["edges", "graph_seconds", "instance_seconds", "plan_bytes_per_task", "peak_memory_mib"],
        );
        assert_eq!(row["slots"], "exclusive");
        assert!(row["plan_seconds"].as_f64() > Some(0.0) && row["repeats"].as_u64() >= Some(3), "{row}");
        assert_eq!(row["of_a_tenth"].is_number(), row["tasks"] == 300, "{row}");
    }
    let nodes: Vec<_> = rows[..4].iter().map(|row| (row["policy"].as_str(), row["nodes"].as_u64())).collect();
    assert_eq!(
        nodes,
        [(Some("heft"), Some(2)), (Some("heft"), Some(3)), (Some("etf"), Some(2)), (Some("etf"), Some(3))]
    );
}

#[test]
fn files_are_planned_and_read() {
    let folder = diamond();
    assert_eq!(folder.mdts(&["convert", "diamond.yaml", "packed.json.gz"]).status, 0);
    let shared = ["--graph", "diamond.yaml", "--nodes", "1", "--cores", "2", "--demands", "1,2"];
    let report = folder.json(&[&["bench", "--json", "--file", "packed.json.gz"], &shared[..]].concat());
    let (plan, reading) = (&report["plans"][0], &report["reading"][0]);
    assert_eq!((&plan["tasks"], &plan["slots"]), (&4.into(), &"resources".into()));
    assert_eq!((&reading["tasks"], &reading["edges"]), (&4.into(), &4.into()));
    let speed = |key: &str| reading[key].as_f64().expect("a number");
    assert!(speed("inflate_megabytes_per_second") > speed("megabytes_per_second"), "{reading}");
    assert!(speed("packed_bytes") > 0.0);
    assert_eq!(folder.files(), ["diamond.yaml", "packed.json.gz", "pair.toml"]);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let table: [(&[&str], &str); 6] = [
        (&["--policies", "hefft"], "did you mean 'heft'?"),
        (&["--graph", "layred"], "did you mean 'layered'?"),
        (&["--graph", "fft", "--nodes", "0"], "0"),
        (
            &["--graph", "fft", "--nodes", "1", "--cores", "1", "--demands", "2"],
            "the largest node has 1 cores",
        ),
        (&["--demands", "1"], "--cores"),
        (&["--file", "missing.json"], "missing.json: cannot be read"),
    ];
    let folder = diamond();
    for (args, message) in table {
        let called = folder.mdts(&[&["bench"], args].concat());
        assert_eq!((called.status, called.stdout.as_str()), (2, ""), "{args:?}: {}", called.stderr);
        assert!(called.stderr.contains(message), "{args:?}: {}", called.stderr);
    }
}
