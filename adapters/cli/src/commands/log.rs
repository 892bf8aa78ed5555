//! `mdts log DIR`: the journal of a run as JSON lines.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use mdts_core::NodeId;
use mdts_core::engine::TaskRun;
use mdts_core::journal::{Entry, Happening, StepEntry, read_folder};
use mdts_dag::TaskId;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::journal::Kept;
use crate::output;

/// Arguments of `mdts log`.
#[derive(Debug, clap::Args)]
pub(crate) struct Log {
    /// Folder of the run
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Gives names to numbers, where the folder still has them.
struct Names {
    kept: Option<Kept>,
}

impl Names {
    fn task(&self, task: TaskId) -> Value {
        match &self.kept {
            Some(kept) if task.index() < kept.job.graph.len() => (*kept.job.graph.task(task).name).into(),
            _ => task.get().into(),
        }
    }

    fn node(&self, node: NodeId) -> Value {
        match &self.kept {
            Some(kept) if node.index() < kept.machines.cluster.len() => {
                kept.machines.cluster.node(node).name.clone().into()
            }
            _ => node.get().into(),
        }
    }

    fn run(&self, run: TaskRun) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("task".into(), self.task(run.task));
        fields.insert("attempt".into(), run.attempt.into());
        fields
    }
}

impl Log {
    pub(super) fn carry_out(&self) -> Result<()> {
        let mut reader = read_folder(&self.folder)?;
        let kept = Kept::read(&self.folder, reader.manifest());
        let kept = kept.inspect_err(|error| tracing::warn!("numbers instead of names: {error}")).ok();
        let names = Names { kept };
        let mut out = BufWriter::new(io::stdout().lock());
        let manifest = reader.manifest();
        let notes: Map<String, Value> =
            manifest.notes.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        let first = json!({
            "entry": "manifest", "job": manifest.job, "tasks": manifest.tasks, "policy": manifest.policy,
            "seed": manifest.seed, "created_ms": manifest.created_ms,
            "digest": format!("{:016x}", manifest.digest), "notes": notes,
        });
        print(&mut out, &first)?;
        while let Some(entry) = reader.next()? {
            show(&mut out, &names, entry)?;
        }
        out.flush().map_err(Error::Stdout)?;
        if let Some(torn) = reader.torn() {
            output::complain(&format!(
                "the last record, {} bytes at {}, is torn or being written; it is left out\n",
                torn.bytes, torn.offset
            ));
        }
        Ok(())
    }
}

fn print(out: &mut impl Write, line: &Value) -> Result<()> {
    writeln!(out, "{line}").map_err(Error::Stdout)
}

fn show(out: &mut impl Write, names: &Names, entry: Entry) -> Result<()> {
    match entry {
        Entry::Manifest(_) | Entry::Piece(_) => Ok(()),
        Entry::Opened { at_ms, process } => {
            print(out, &json!({"entry": "opened", "at_ms": at_ms, "process": process}))
        }
        Entry::Ended { at_ms, why } => print(out, &json!({"entry": "ended", "at_ms": at_ms, "why": why})),
        Entry::Snapshot(snapshot) => {
            let bytes = snapshot.engine.len() + snapshot.runner.len();
            print(out, &json!({"entry": "snapshot", "bytes": bytes}))
        }
        Entry::Record(bytes) => print(out, &json!({"entry": "record", "bytes": bytes.len()})),
        Entry::Step(step) => show_step(out, names, &step),
    }
}

fn show_step(out: &mut impl Write, names: &Names, step: &StepEntry) -> Result<()> {
    for event in &step.events {
        let (word, mut fields) = event_fields(names, event);
        let reason = match event {
            Happening::Failed(run) | Happening::FailedUntil { run, .. } | Happening::FailedForGood(run) => {
                Some(step.reasons.iter().find(|(of, _)| of == run))
            }
            Happening::Dropped { task, .. } => Some(step.reasons.iter().rfind(|(of, _)| of.task == *task)),
            _ => None,
        };
        if let Some(reason) = reason {
            fields.insert("reason".into(), reason.map(|(_, reason)| reason.clone()).into());
        }
        let mut line = Map::new();
        line.insert("entry".into(), word.into());
        line.insert("now".into(), step.now.into());
        line.extend(fields);
        print(out, &Value::Object(line))?;
    }
    for (_, decision) in &step.decisions {
        let line = json!({
            "entry": "placed", "now": step.now, "task": names.task(decision.task),
            "node": names.node(decision.node), "strict": decision.order == mdts_core::Order::Strict,
        });
        print(out, &line)?;
    }
    Ok(())
}

fn event_fields(names: &Names, event: &Happening) -> (&'static str, Map<String, Value>) {
    let task_only = |task: TaskId| Map::from_iter([("task".to_owned(), names.task(task))]);
    let node_only = |node: NodeId| Map::from_iter([("node".to_owned(), names.node(node))]);
    match *event {
        Happening::Submitted => ("submitted", Map::new()),
        Happening::Staged { task, node, .. } => {
            let mut fields = node_only(node);
            fields.insert("task".into(), names.task(task));
            ("staged", fields)
        }
        Happening::Started(run) => ("started", names.run(run)),
        Happening::Finished(run) => ("finished", names.run(run)),
        Happening::Failed(run) => ("failed", names.run(run)),
        Happening::FailedUntil { run, until } => {
            let mut fields = names.run(run);
            fields.insert("repeated_at".into(), until.into());
            ("failed", fields)
        }
        Happening::FailedForGood(run) => {
            let mut fields = names.run(run);
            fields.insert("final".into(), true.into());
            ("failed", fields)
        }
        Happening::Interrupted(run) => ("interrupted", names.run(run)),
        Happening::NodeJoined(node) => ("node-joined", node_only(node)),
        Happening::NodeLost(node) => ("node-lost", node_only(node)),
        Happening::Held => ("held", Map::new()),
        Happening::Resumed => ("resumed", Map::new()),
        Happening::Cancelled(_) => ("cancelled", Map::new()),
        Happening::Overdue(run) => ("overdue", names.run(run)),
        Happening::Tick => ("tick", Map::new()),
        Happening::Dropped { task, .. } => ("dropped", task_only(task)),
        Happening::Retried { task, .. } => ("retried", task_only(task)),
        Happening::Asked { task, .. } => ("asked", task_only(task)),
        Happening::Withdrawn(_) => ("withdrawn", Map::new()),
        Happening::NodeDrained(node) => ("node-drained", node_only(node)),
    }
}
