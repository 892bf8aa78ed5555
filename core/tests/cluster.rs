//! Cluster files: what they mean, and how bad ones are refused.

use mdts_core::{Cluster, Error, Result, SlotModel};

const LAB: &str = r#"
slots = "resources"
[network]
bandwidth = "100MB/s"
latency = 0.001
[[node]]
name = "big"
count = 2
cores = 16
memory = "64GiB"
gpus = 2
resources = { licence = 1 }
speed = 2.0
speeds = { training = 5.0 }
price = 1.5
power = [100, 200, 400]
rack = "r1"
[[node]]
name = "small"
cores = 4
rack = "r2"
[[link]]
between = ["r1", "r2"]
bandwidth = 10e6
[[link]]
between = ["big-0", "small"]
latency = "1ms"
bandwidth = 1e6
"#;

#[test]
fn a_file_means_what_it_says() -> Result<()> {
    let cluster = Cluster::from_text(LAB, "toml")?;
    assert_eq!(cluster.slots(), SlotModel::Resources);
    let names: Vec<&str> = cluster.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["big-0", "big-1", "small"]);
    let big = cluster.node(0.into());
    assert_eq!(
        (big.capacity.cores, big.capacity.memory, big.capacity.gpus),
        (Some(16.0), Some(64 << 30), 2.0)
    );
    assert_eq!((big.speed, big.speeds["training"], big.price), (2.0, 5.0, 1.5));
    assert_eq!([0.0, 0.25, 0.5, 1.0, 2.0].map(|load| big.watts(load)), [100.0, 150.0, 200.0, 400.0, 400.0]);
    let seconds = |a: u32, b: u32| cluster.network().seconds(1e6, a.into(), b.into());
    assert_eq!(seconds(0, 0), 0.0);
    assert_eq!(seconds(0, 1), 0.001 + 0.01, "the default");
    assert_eq!(seconds(1, 2), 0.001 + 0.1, "between the racks");
    assert_eq!(seconds(2, 0), 0.001 + 1.0, "the pair, in both directions");
    Ok(())
}

#[test]
fn yaml_and_json_say_the_same() -> Result<()> {
    let yaml = "slots: exclusive\nnetwork: {bandwidth: 5, latency: 1}\nnode:\n  - {name: a, speed: 2}\n  - {name: b}\n";
    let json = r#"{"slots":"exclusive","network":{"bandwidth":5,"latency":1},"node":[{"name":"a","speed":2},{"name":"b"}]}"#;
    for (text, syntax) in [(yaml, "yaml"), (json, "json")] {
        let cluster = Cluster::from_text(text, syntax)?;
        assert_eq!((cluster.len(), cluster.node(0.into()).speed), (2, 2.0));
        assert_eq!(cluster.network().seconds(10.0, 0.into(), 1.into()), 3.0);
    }
    Ok(())
}

#[test]
fn bad_files_are_refused_in_one_line() {
    let node = |line: &str| format!("[[node]]\nname = 'm'\n{line}\n");
    let cases = [
        (String::new(), "at least one node"),
        ("node = []".into(), "at least one node"),
        (node("speed = 0"), "node 'm': speed is 0; expected a positive number"),
        (node("speed = -1"), "speed is -1"),
        (node("speed = nan"), "speed is NaN"),
        (node("speed = inf"), "speed is inf"),
        (node("cores = 0"), "cores is 0"),
        (node("memory = 0"), "memory is 0"),
        (node("memory = '2 parsecs'"), "'2 parsecs' is not a size"),
        (node("gpus = -1"), "gpus is -1"),
        (node("count = 0"), "count is 0"),
        (node("count = 99999999"), "expected 1 to 1000000"),
        (node("price = -0.1"), "price is -0.1"),
        (node("power = [1, nan]"), "power is NaN"),
        (node("speeds = {a = 0}"), "speed for 'a' is 0"),
        (node("sped = 1"), "sped"),
        (node("[[node]]\nname = 'm'"), "'m': the name is used twice"),
        (node("[network]\nbandwidth = 0"), "bandwidth is 0; expected bytes per second, more than 0"),
        (node("[network]\nbandwidth = nan"), "bandwidth is NaN"),
        (node("[network]\nlatency = -1"), "latency is -1"),
        (node("[network]\nlatency = inf"), "latency is inf"),
        (node("[[link]]\nbetween = ['m', 'x']"), "link between 'm' and 'x': both ends must be nodes"),
        (node("slots = ["), "syntax"),
        (format!("slots = 'many'\n{}", node("")), "many"),
    ];
    for (text, expected) in cases {
        let message = Cluster::from_text(&text, "toml").err().map(|e: Error| e.to_string());
        let message = message.unwrap_or_else(|| panic!("accepted: {text}"));
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    assert!(Cluster::from_text("", "ini").is_err_and(|e| e.to_string().contains("use toml, yaml or json")));
}

#[test]
fn an_infinite_bandwidth_is_fine() -> Result<()> {
    let cluster = Cluster::from_text("[network]\nbandwidth = inf\n[[node]]\nname = 'm'\ncount = 2", "toml")?;
    assert_eq!(cluster.network().seconds(1e18, 0.into(), 1.into()), 0.0);
    Ok(())
}

#[test]
fn a_missing_file_is_named() {
    let error = Cluster::read("no/such/cluster.toml").err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.starts_with("no/such/cluster.toml: "), "{error}");
}
