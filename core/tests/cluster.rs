//! Cluster files: what they mean, and how bad ones are refused.

use mdts_core::{
    Cluster, Error, Instance, Link, Network, Node, PartialSchedule, Result, SlotModel, objectives,
};
use mdts_dag::{DataModel, JobGraph, Task};

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
        (node("speed = 0"), "node 'm': speed is 0; expected a number from 1e-9 to 1e9"),
        (node("speed = -1"), "speed is -1"),
        (node("speed = nan"), "speed is NaN"),
        (node("speed = inf"), "speed is inf"),
        (node("cores = 0"), "cores is 0"),
        (node("memory = 0"), "memory is 0"),
        (node("memory = '2 parsecs'"), "'2 parsecs' is not a size"),
        (node("gpus = -1"), "gpus is -1"),
        (node("count = 0"), "count is 0"),
        (node("count = 99999999"), "expected 1 to 1000000"),
        (node("speed = 1e-290"), "node 'm': speed is 1e-290; expected a number from 1e-9 to 1e9"),
        (node("speeds = {a = 1e10}"), "speed for 'a' is 1e10"),
        (node("cores = 1e13"), "cores is 1e13; expected a number from 0.001 to 1e12"),
        (node("memory = 1e19"), "memory is 1e19; expected bytes from 1 to 1e18"),
        (node("gpus = 1e13"), "gpus is 1e13"),
        (node("resources = {tape = 1e13}"), "resource 'tape' is 1e13"),
        (node("price = 1e13"), "price is 1e13"),
        (node("power = [1e13]"), "power is 1e13"),
        (node("[network]\nbandwidth = 1e-300"), "network: bandwidth is 1e-300"),
        (node("[network]\nlatency = 1e10"), "network: latency is 1e10; expected seconds from 0 to 1e9"),
        (
            node("[[link]]\nbetween = ['m', 'm']\nbandwidth = 1e-10"),
            "link between 'm' and 'm': bandwidth is 1e-10",
        ),
        (node("price = -0.1"), "price is -0.1"),
        (node("power = [1, nan]"), "power is NaN"),
        (node("speeds = {a = 0}"), "speed for 'a' is 0"),
        (node("[[node]]\nname = 'm'"), "'m': the name is used twice"),
        (
            node("[network]\nbandwidth = 0"),
            "network: bandwidth is 0; expected bytes per second from 1e-9 to inf",
        ),
        (node("[network]\nbandwidth = nan"), "bandwidth is NaN"),
        (node("[network]\nlatency = -1"), "latency is -1"),
        (node("[network]\nlatency = inf"), "latency is inf"),
        (node("[[link]]\nbetween = ['m', 'x']"), "link between 'm' and 'x': both ends must be nodes"),
        (node("slots = ["), "cluster, line 3, column 10: unclosed array, expected `]`"),
        (
            node("sped = 1"),
            "cluster, line 3, column 1: unknown field `sped`, expected one of `name`, `count`",
        ),
        (
            node("memory = true"),
            "line 3, column 10: invalid type: boolean `true`, expected a number, or a text",
        ),
        (
            format!("slots = 'many'\n{}", node("")),
            "cluster, line 1, column 9: unknown variant `many`, expected `exclusive` or `resources`",
        ),
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

/// The slowest node and link with the largest workflow, and the fastest with the smallest.
#[test]
fn every_time_is_finite_at_the_ends_of_the_ranges() -> Result<()> {
    for (speed, latency, bandwidth, amount) in [(1e-9, 1e9, 1e-9, 1e18), (1e9, 0.0, 1e300, 1e-300)] {
        let mut job = JobGraph::builder("chain");
        let tasks = [0, 1, 2].map(|i| job.task(Task::new(format!("t{i}")).seconds(amount)));
        let [a, b, c] = tasks;
        let (a, b, c) = (a?, b?, c?);
        job.depend(b, a, amount);
        job.depend(c, b, amount);
        let mut nodes = ["x", "y"].map(|name| Node::new(name).speed(speed)).to_vec();
        nodes[0].price = 1e12;
        nodes[0].power = vec![1e12];
        let network = Network::uniform(Link { latency, bandwidth });
        let cluster = Cluster::new(nodes, network, SlotModel::Exclusive)?;
        let instance = Instance::new(job.build()?.freeze().into(), cluster.into(), DataModel::Edges)?;
        let mut partial = PartialSchedule::new(&instance)?;
        for (task, node) in [(a, 0), (b, 1), (c, 0)] {
            let best = partial.best_insertion(task);
            assert!(best.finish.is_finite());
            let mut arrival = mdts_core::Arrival::default();
            partial.gather(task, &mut arrival);
            let slot = partial.append(task, node.into(), &arrival).unwrap_or(best);
            partial.place(task, slot);
        }
        let schedule = partial.finish();
        schedule.verify(&instance)?;
        let o = objectives(&instance, &schedule);
        let all = [o.makespan, o.slr, o.imbalance, o.cost, o.energy, o.moved_bytes];
        assert!(all.iter().all(|x| x.is_finite()), "{o:?}");
    }
    Ok(())
}

#[test]
fn counts_too_large_to_add_are_refused() {
    for (text, syntax) in [
        ("node: [{name: a}, {name: b, count: 18446744073709551615}]", "yaml"),
        (r#"{"node": [{"name": "a"}, {"name": "b", "count": 18446744073709551615}]}"#, "json"),
    ] {
        let message = Cluster::from_text(text, syntax).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains("node 'b': count is 18446744073709551615; expected 1 to"), "{message}");
    }
}

#[test]
fn a_network_must_be_one_for_the_nodes() -> Result<()> {
    let refused = |network: Network| {
        let nodes = ["a", "b"].map(Node::new).to_vec();
        let error = Cluster::new(nodes, network, SlotModel::Exclusive).err();
        error.map(|e| e.to_string()).unwrap_or_default()
    };
    let bad = |bandwidth| Link { latency: 0.0, bandwidth };
    let built = |racks: usize, ids: [u32; 2], link| {
        let mut network = Network::builder(Link::INSTANT, vec![0; racks]);
        network.between_nodes(ids[0].into(), ids[1].into(), link);
        network.build()
    };
    let racks = |link| {
        let mut network = Network::builder(Link::INSTANT, vec![0, 1]);
        network.between_racks(0, 1, link);
        network.build()
    };
    let cases = [
        (Network::uniform(bad(f64::NAN)), "network: bandwidth is NaN"),
        (Network::builder(bad(-1.0), vec![0, 1]).build(), "network: bandwidth is -1"),
        (Network::uniform(Link { latency: f64::NAN, bandwidth: 1.0 }), "network: latency is NaN"),
        (built(2, [0, 1], bad(f64::NAN)), "link between nodes 0 and 1: bandwidth is NaN"),
        (racks(bad(0.0)), "link between racks 0 and 1: bandwidth is 0"),
        (built(2, [0, 2], Link::INSTANT), "link between nodes 0 and 2: there are 2 nodes"),
        (built(1, [0, 0], Link::INSTANT), "network: it has racks for 1 nodes, the cluster has 2"),
        (built(2000, [0, 1], Link::INSTANT), "network: it has racks for 2000 nodes, the cluster has 2"),
        (Network::builder(Link::INSTANT, vec![0; 3]).build(), "network: it has racks for 3 nodes"),
    ];
    for (network, expected) in cases {
        let message = refused(network);
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }
    let nodes = ["a", "b"].map(Node::new).to_vec();
    Cluster::new(nodes, built(2, [1, 0], bad(f64::INFINITY)), SlotModel::Exclusive)?;
    Ok(())
}

#[test]
fn errors_in_yaml_and_json_tell_line_and_column() {
    let cases = [
        ("yaml", "slots: many\nnode: [{name: a}]", "cluster, line 1, column 8: "),
        ("yaml", "slots: many\nnode: [{name: a}]", "expected one of exclusive, resources"),
        ("yaml", "node:\n  - name: a\n    sped: 1", "cluster, line 3, column 5: "),
        ("yaml", "node:\n  - name: a\n    sped: 1", "speeds"),
        ("yaml", "node: [{name: a", "cluster, line 1, column "),
        (
            "json",
            "{\"slots\": \"many\"}",
            "cluster, line 1, column 16: unknown variant `many`, expected `exclusive`",
        ),
        (
            "json",
            "{\"node\": [\n{\"sped\": 1}]}",
            "cluster, line 2, column 7: unknown field `sped`, expected one of",
        ),
        ("json", "{", "cluster, line 1, column 1: EOF while parsing"),
    ];
    for (syntax, text, expected) in cases {
        let message = Cluster::from_text(text, syntax).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        assert_eq!((message.lines().count(), message.matches("line ").count()), (1, 1), "{message}");
    }
}

#[test]
fn errors_stay_short_whatever_the_file_holds() {
    let deep = |open: &str| open.repeat(100_000);
    let long = "x".repeat(100_000);
    let cases = [
        ("toml", format!("node = {}", deep("["))),
        ("toml", format!("{long} = 1")),
        ("toml", format!("slots = '{long}'")),
        ("yaml", deep("[")),
        ("yaml", format!("{long}: 1")),
        ("json", deep("[")),
        ("json", format!("{{\"a\\n{long}\": 1}}")),
    ];
    for (syntax, text) in cases {
        let message = Cluster::from_text(&text, syntax).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message.starts_with("cluster, line 1, column "), "{syntax}: {message:.400}");
        assert!(message.len() < 400 && message.lines().count() == 1, "{syntax}: {message:.400}");
    }
}

#[test]
fn files_that_are_too_large_or_no_text_are_refused() -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("cluster.toml");
    let refused = || Cluster::read(&path).err().map(|e| e.to_string()).unwrap_or_default();
    std::fs::write(&path, b"[[node]]\nname = 'm\xff'\n")?;
    let message = refused();
    let expected = "cluster.toml: cluster, line 2 (byte 18): not UTF-8 text; convert the file to UTF-8";
    assert!(message.contains(expected), "{message}");
    std::fs::write(&path, b"\xef\xbb\xbf[[node]]\nname = 'm'\n")?;
    assert_eq!(refused(), "", "a byte-order mark is no fault");
    std::fs::File::create(&path)?.set_len((64 << 20) + 1)?;
    let message = refused();
    assert!(message.contains("size: the file is larger than the 67108864 bytes allowed"), "{message}");
    Ok(())
}

/// What an instance says of tasks and nodes, or why there is none.
fn told(instance: Result<Instance>) -> String {
    let instance = match instance {
        Ok(instance) => instance,
        Err(error) => return error.to_string(),
    };
    let of_task = |task| {
        let exec: Vec<f64> = instance.cluster().node_ids().map(|node| instance.exec(task, node)).collect();
        format!(
            "{exec:?} {} {} {:?}",
            instance.mean_exec(task),
            instance.min_exec(task),
            instance.demand(task)
        )
    };
    let tasks: Vec<String> = instance.graph().tasks().map(of_task).collect();
    let nodes = instance.cluster().node_ids();
    let capacities: Vec<&[u64]> = nodes.map(|node| instance.capacity(node)).collect();
    format!("{tasks:?} {capacities:?}")
}

#[test]
fn an_instance_on_another_cluster_is_as_if_it_were_new_there() -> Result<()> {
    let job = |times: bool| -> Result<_> {
        let mut job = JobGraph::builder("job");
        job.task(Task::new("a_1").seconds(6.0))?;
        job.task(Task::new("a_2").seconds(2.0).memory(3 << 30))?;
        job.task(Task::new("b_1").seconds(0.0).cores(2.0))?;
        job.task(Task::new("c_1"))?;
        if times {
            job.task(Task::new("d").times([("m0", 3.0), ("m1", 4.0)]))?;
        }
        Ok(std::sync::Arc::new(job.build()?.freeze()))
    };
    let node = |name: &str, speed| Node::new(name).speed(speed).cores(4.0).memory(4 << 30);
    let mut skilled = node("m3", 1.5);
    skilled.speeds.insert("a".into(), 9.0);
    let base = [node("m0", 1.0), node("m1", 2.0)];
    let with = |more: Node| base.iter().cloned().chain([more]).collect::<Vec<_>>();
    let mut licensed = node("m4", 1.0);
    licensed.capacity.other.insert("licence".into(), 1.0);
    let lists = [
        base.to_vec(),
        base[..1].to_vec(),
        with(node("m2", 3.0)),
        with(node("m2", 3.0).memory(1 << 30)),
        with(node("m2", 0.5).cores(1.0)),
        with(skilled),
        with(licensed),
        vec![node("m1", 1.0), node("m0", 1.0)],
        vec![node("m0", 7.0).memory(1 << 30)],
    ];
    for slots in [SlotModel::Exclusive, SlotModel::Resources] {
        let clusters = lists.iter().map(|nodes| {
            Cluster::new(nodes.clone(), Network::uniform(Link::INSTANT), slots).map(std::sync::Arc::new)
        });
        let clusters = clusters.collect::<Result<Vec<_>>>()?;
        for times in [false, true] {
            for from in &clusters {
                let Ok(there) = Instance::new(job(times)?, from.clone(), DataModel::Files) else { continue };
                for to in &clusters {
                    let new = told(Instance::new(job(times)?, to.clone(), DataModel::Files));
                    assert_eq!(told(there.on(to.clone())), new);
                }
            }
        }
    }
    Ok(())
}
