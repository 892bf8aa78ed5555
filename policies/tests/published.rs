//! The two 10-task examples on three processors that the literature publishes makespans for.

mod common;

use common::{instance, plan};
use mdts_core::{Cluster, Instance, Link, Network, Node, SlotModel};
use mdts_dag::{DataModel, JobGraph, Task, TaskId};

type Example = ([[f64; 3]; 10], &'static [(usize, usize, f64)]);

/// Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, figure 3.
const TOPCUOGLU: Example = (
    [
        [14.0, 16.0, 9.0],
        [13.0, 19.0, 18.0],
        [11.0, 13.0, 19.0],
        [13.0, 8.0, 17.0],
        [12.0, 13.0, 10.0],
        [13.0, 16.0, 9.0],
        [7.0, 15.0, 11.0],
        [5.0, 11.0, 14.0],
        [18.0, 12.0, 20.0],
        [21.0, 7.0, 16.0],
    ],
    &[
        (1, 2, 18.0),
        (1, 3, 12.0),
        (1, 4, 9.0),
        (1, 5, 11.0),
        (1, 6, 14.0),
        (2, 8, 19.0),
        (2, 9, 16.0),
        (3, 7, 23.0),
        (4, 8, 27.0),
        (4, 9, 23.0),
        (5, 9, 13.0),
        (6, 8, 15.0),
        (7, 10, 17.0),
        (8, 10, 11.0),
        (9, 10, 13.0),
    ],
);

/// Arabnejad, Barbosa, IEEE TPDS 25(3), 2014, figure 1.
const ARABNEJAD: Example = (
    [
        [22.0, 21.0, 36.0],
        [22.0, 18.0, 18.0],
        [32.0, 27.0, 43.0],
        [7.0, 10.0, 4.0],
        [29.0, 27.0, 35.0],
        [26.0, 17.0, 24.0],
        [14.0, 25.0, 30.0],
        [29.0, 23.0, 36.0],
        [15.0, 21.0, 8.0],
        [13.0, 16.0, 33.0],
    ],
    &[
        (1, 2, 17.0),
        (1, 3, 31.0),
        (1, 4, 29.0),
        (1, 5, 13.0),
        (1, 6, 7.0),
        (2, 8, 3.0),
        (2, 9, 30.0),
        (3, 7, 16.0),
        (4, 8, 11.0),
        (4, 9, 7.0),
        (5, 9, 57.0),
        (6, 8, 5.0),
        (7, 10, 9.0),
        (8, 10, 42.0),
        (9, 10, 7.0),
    ],
);

fn build((times, edges): &Example) -> Instance {
    let mut job = JobGraph::builder("published");
    for (i, times) in times.iter().enumerate() {
        let times = ["P1", "P2", "P3"].into_iter().zip(*times);
        job.task(Task::new(format!("{}", i + 1)).times(times)).unwrap();
    }
    for (parent, child, bytes) in *edges {
        job.depend(TaskId::new(child - 1), TaskId::new(parent - 1), *bytes);
    }
    let nodes = ["P1", "P2", "P3"].map(Node::new).to_vec();
    let network = Network::uniform(Link { latency: 0.0, bandwidth: 1.0 });
    let cluster = Cluster::new(nodes, network, SlotModel::Exclusive).unwrap();
    instance(&job.build().unwrap(), cluster, DataModel::Edges)
}

fn check(example: &Example, expected: &[(&str, f64)]) {
    let instance = build(example);
    for (policy, makespan) in expected {
        assert_eq!(plan(policy, &instance).makespan(), *makespan, "{policy}");
    }
}

#[test]
fn topcuoglu_2002() {
    check(&TOPCUOGLU, &[("heft", 80.0), ("cpop", 86.0), ("peft", 85.0)]);
}

#[test]
fn arabnejad_2014() {
    check(&ARABNEJAD, &[("heft", 133.0), ("peft", 122.0), ("lookahead", 127.0)]);
}
