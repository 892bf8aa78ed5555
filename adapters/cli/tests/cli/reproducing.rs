//! `mdts reproduce`: the contract of its report, that it can be repeated, and what it refuses.

use serde_json::Value;

use crate::{Folder, assert_keys};

const SMALL: &[&str] = &["reproduce", "mdts", "--quick", "--sizes", "3x3,4x2", "--steps", "512"];
const METRICS: &[&str] = &["job_execution_time", "load_imbalance", "total_cost", "reward"];

#[test]
fn mdts_is_measured_against_every_baseline() {
    let report = Folder::new().json(&[SMALL, &["--json"]].concat());
    assert_eq!((&report["name"], &report["seeds"]), (&"mdts".into(), &3.into()));
    let settings = report["settings"].as_array().expect("a list");
    let names: Vec<_> = settings.iter().map(|s| s["setting"].as_str().expect("a name")).collect();
    assert_eq!(names, ["3 x 3, affinity 0.4", "4 x 2, affinity 0.4"]);
    for setting in settings {
        assert_keys(&setting["parameters"], &["speed", "work", "utilisation", "joint_actions", "mean_gap"]);
        assert_keys(&setting["equal_steps"], METRICS);
        let rows = setting["rows"].as_array().expect("a list");
        let policies: Vec<_> = rows.iter().map(|row| row["policy"].as_str().expect("a name")).collect();
        let rules = ["random", "round-robin", "least-connection", "eft", "pso-static", "pso-live"];
        assert_eq!(policies, [&["mdts", "raw-drl", "mdts-equal-steps"], &rules[..]].concat());
        for row in rows {
            assert!(row["wall_seconds"].as_f64() > Some(0.0), "{row}");
            for metric in METRICS {
                let number = |key: &str| row["metrics"][metric][key].as_f64().expect("a number");
                assert!(number("low") <= number("mean") && number("mean") <= number("high"), "{row}");
            }
            assert_eq!(row["change"].is_object(), row["policy"] != "mdts", "{row}");
        }
        let least = rows.iter().find(|row| row["policy"] == "least-connection").expect("there");
        let random = rows.iter().find(|row| row["policy"] == "random").expect("there");
        let time = |row: &Value| row["metrics"]["job_execution_time"]["mean"].as_f64();
        assert!(time(least) < time(random));
    }
}

#[test]
fn equal_calls_give_equal_numbers_where_time_does_not_count() {
    let folder = Folder::new();
    let metrics = |threads: &str| {
        let report = folder.json(&[SMALL, &["--seeds", "2", "--json", "--threads", threads]].concat());
        let settings = report["settings"].as_array().expect("a list").clone();
        let of = |setting: &Value| -> Vec<Value> {
            let rows = setting["rows"].as_array().expect("a list");
            let timeless = |row: &&Value| row["steps"] == 0.0 || row["policy"] == "mdts";
            rows.iter().filter(timeless).map(|row| row["metrics"].clone()).collect()
        };
        settings.iter().map(of).collect::<Vec<_>>()
    };
    let once = metrics("1");
    assert!(once.iter().all(|setting| setting.len() == 7));
    assert_eq!(once, metrics("2"));
}

#[test]
fn the_text_tells_environment_marks_and_sizes() {
    let called = Folder::new().mdts(&[SMALL, &["--seeds", "1", "--actors", "2"]].concat());
    assert_eq!((called.status, called.stderr.as_str()), (0, ""));
    for part in [
        "utilisation 0.6",
        "A3C with 2 actors",
        "3 x 3, affinity 0.4: 27 joint actions",
        "the paper",
        "-15.3 %",
        "reached",
        "equal steps",
    ] {
        assert!(called.stdout.contains(part), "no {part:?} in {}", called.stdout);
    }
}

#[test]
fn what_cannot_be_reproduced_is_refused() {
    let table: [(&[&str], &str); 9] = [
        (&["mtds"], "did you mean 'mdts'?"),
        (&["heterps"], "unknown paper 'heterps'"),
        (&[], "NAME|all"),
        (&["mdts", "--seeds", "0"], "'0'"),
        (&["mdts", "--steps", "0"], "'0'"),
        (&["mdts", "--sizes", "6by4"], "for example 6x4"),
        (&["mdts", "--sizes", "6x0"], "for example 6x4"),
        (&["mdts", "--sizes", "10x7"], "at most 1000000"),
        (&["mdts", "--actors", "0"], "'0'"),
    ];
    for (args, message) in table {
        let called = Folder::new().mdts(&[&["reproduce"], args].concat());
        assert_eq!((called.status, called.stdout.as_str()), (2, ""), "{args:?}: {}", called.stderr);
        assert!(called.stderr.contains(message), "{args:?}: {}", called.stderr);
    }
}
