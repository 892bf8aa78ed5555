//! Flags before environment before `mdts.toml` before defaults.

use crate::diamond;

#[test]
fn flags_come_before_environment_before_file_before_defaults() {
    let folder = diamond();
    let policy = |flag: Option<&str>, environment: Option<&str>, file: Option<&str>| {
        let text = file.map(|name| format!("policy = \"{name}\"\ncluster = \"pair.toml\"\n"));
        folder.write("mdts.toml", text.unwrap_or_default());
        let mut command = folder.command(&["plan", "diamond.yaml", "--json"]);
        command.args(flag.map(|name| format!("--policy={name}")));
        if let Some(name) = environment {
            command.env("MDTS_POLICY", name);
        }
        let report = crate::Called::from(command.output().expect("mdts runs")).json();
        (report["policy"].as_str().expect("text").to_owned(), report["nodes"].as_u64())
    };
    let table = [
        (None, None, None, "heft", 1),
        (None, None, Some("cpop"), "cpop", 2),
        (None, Some("peft"), Some("cpop"), "peft", 2),
        (Some("dls"), Some("peft"), Some("cpop"), "dls", 2),
        (Some("dls"), None, None, "dls", 1),
        (None, Some(""), Some("cpop"), "cpop", 2),
    ];
    for (flag, environment, file, expected, nodes) in table {
        assert_eq!(
            policy(flag, environment, file),
            (expected.to_owned(), Some(nodes)),
            "{flag:?} {environment:?} {file:?}"
        );
    }
}

#[test]
fn all_settings_come_from_the_environment() {
    let folder = diamond();
    let mut command = folder.command(&["plan", "diamond.yaml", "--json"]);
    let settings = [
        ("MDTS_CLUSTER", "pair.toml"),
        ("MDTS_SLOTS", "resources"),
        ("MDTS_DATA_MODEL", "files"),
        ("MDTS_SEED", "42"),
        // Not a setting: where the project's tests find their data.
        ("MDTS_DATA", "/nowhere"),
    ];
    command.envs(settings);
    let report = crate::Called::from(command.output().expect("mdts runs")).json();
    let found = ["nodes", "slots", "data", "seed"].map(|key| report[key].to_string());
    assert_eq!(found, ["2", "\"resources\"", "\"files\"", "42"]);
}

#[test]
fn what_is_wrong_in_the_environment_names_the_variable() {
    let folder = diamond();
    for (name, value, expected) in [
        ("MDTS_SEED", "true", "MDTS_SEED: 'true' is not a whole number of at least 0"),
        ("MDTS_SEED", "-1", "MDTS_SEED: '-1' is not a whole number"),
        ("MDTS_SLOTS", "both", "MDTS_SLOTS: 'both' is not known; write exclusive or resources"),
        ("MDTS_CLUSTER", "gone.toml", "MDTS_CLUSTER: gone.toml: cannot be read"),
        ("MDTS_POLICY", "hefft", "MDTS_POLICY: "),
    ] {
        let mut command = folder.command(&["plan", "diamond.yaml"]);
        let called = crate::Called::from(command.env(name, value).output().expect("mdts runs"));
        assert_eq!(called.status, 2);
        assert!(called.stderr.contains(expected), "{}", called.stderr);
    }
}

#[test]
fn what_is_wrong_in_the_file_names_the_file() {
    let folder = diamond();
    folder.write("mdts.toml", "cluster = \"gone.toml\"\n");
    let called = folder.mdts(&["plan", "diamond.yaml"]);
    assert_eq!(called.status, 2);
    assert!(called.stderr.contains("mdts.toml: cluster: gone.toml: cannot be read"), "{}", called.stderr);
    let flag = folder.mdts(&["plan", "diamond.yaml", "--cluster", "away.toml"]);
    assert!(flag.stderr.contains("error: away.toml: cannot be read"), "{}", flag.stderr);
}

#[test]
fn the_log_goes_to_standard_error() {
    let folder = diamond();
    let called = folder.mdts(&["plan", "diamond.yaml", "--json", "-v"]);
    called.json();
    assert!(called.stderr.contains("planned"), "{}", called.stderr);
    let mut command = folder.command(&["plan", "diamond.yaml"]);
    let output = command.env("MDTS_LOG", "info").output().expect("mdts runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains("planned"));
}
