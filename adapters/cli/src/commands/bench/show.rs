//! What was measured, as tables.

use super::planning::PlanRow;
use super::reading::ReadRow;
use crate::text::{Table, bytes, number};

/// Both tables, without those that are empty.
pub(super) fn tables(plans: &[PlanRow], reading: &[ReadRow]) -> String {
    let mut text = String::new();
    if !plans.is_empty() {
        text += &planning(plans);
        text += "\nms, CPU ms: median of planning; first: CPU ms of the first; x10: CPU ms over those for a tenth of the tasks; graph, plan: bytes \
                 per task\nof the flat graph with its costs, and of planning on top of it; all s, peak MiB: from \
                 generating or reading on\n";
    }
    if !plans.is_empty() && !reading.is_empty() {
        text.push('\n');
    }
    if !reading.is_empty() {
        text += &files(reading);
        text += "\nMB/s: unpacked bytes over CPU time; inflate: the same for unpacking alone; peak: memory over the \
                 unpacked size\n";
    }
    text
}

fn planning(rows: &[PlanRow]) -> String {
    let mut table = Table::new([
        "graph",
        ">tasks",
        ">edges",
        ">nodes",
        ">cores",
        "policy",
        ">ms",
        ">CPU ms",
        ">first",
        ">x10",
        ">graph B",
        ">plan B",
        ">all s",
        ">peak MiB",
    ]);
    for row in rows {
        let demands: Vec<String> = row.demands.iter().map(u32::to_string).collect();
        let wanted = if demands.is_empty() { String::new() } else { format!(" by {}", demands.join(",")) };
        table.row([
            row.graph.clone(),
            row.tasks.to_string(),
            row.edges.to_string(),
            row.nodes.to_string(),
            row.cores.map_or("-".into(), |cores| format!("{cores}{wanted}")),
            row.policy.clone(),
            format!("{:.2}", row.plan_seconds * 1e3),
            format!("{:.2}", row.plan_cpu_seconds * 1e3),
            format!("{:.2}", row.first_cpu_seconds * 1e3),
            optional(row.of_a_tenth, 1),
            optional(row.graph_bytes_per_task, 0),
            optional(row.plan_bytes_per_task, 0),
            number(row.graph_seconds + row.instance_seconds + row.plan_seconds),
            optional(row.peak_memory_mib, 0),
        ]);
    }
    table.show()
}

fn files(rows: &[ReadRow]) -> String {
    let mut table =
        Table::new(["file", ">tasks", ">size", ">ms", ">CPU ms", ">MB/s", ">inflate", ">peak MiB", ">peak"]);
    for row in rows {
        table.row([
            row.file.clone(),
            row.tasks.to_string(),
            bytes(row.bytes as f64),
            format!("{:.1}", row.read_seconds * 1e3),
            format!("{:.1}", row.read_cpu_seconds * 1e3),
            format!("{:.0}", row.megabytes_per_second),
            optional(row.inflate_megabytes_per_second, 0),
            optional(row.peak_memory_mib, 0),
            row.peak_over_bytes.map_or("-".into(), |ratio| format!("{ratio:.2} x")),
        ]);
    }
    table.show()
}

fn optional(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.decimals$}"))
}
