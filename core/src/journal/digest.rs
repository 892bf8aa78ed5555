//! A number that tells one instance from another.

use crc32fast::Hasher;

use crate::Instance;

/// A checksum of all that an engine's state depends on: tasks with their retries, demands and times on every node, the
/// edges, the slot model. Meant against mistakes, not against malice. O(edges + tasks x nodes).
pub fn digest(instance: &Instance) -> u64 {
    let (mut structure, mut costs) = (Hasher::new(), Hasher::new());
    let graph = instance.graph();
    let mut times = vec![0.0; instance.nodes()];
    structure.update(&[instance.slots() as u8, instance.data() as u8]);
    for node in instance.cluster().nodes() {
        structure.update(node.name.as_bytes());
        structure.update(&[0]);
    }
    for task in graph.tasks() {
        structure.update(graph.task_name(task).as_bytes());
        structure.update(&[0]);
        structure.update(&graph.retries(task).to_le_bytes());
        for parent in graph.parents(task) {
            structure.update(&parent.get().to_le_bytes());
        }
        for amount in instance.demand(task) {
            costs.update(&amount.to_le_bytes());
        }
        instance.exec_all(task, &mut times);
        for time in &times {
            costs.update(&time.to_bits().to_le_bytes());
        }
    }
    (u64::from(structure.finalize()) << 32) | u64::from(costs.finalize())
}
