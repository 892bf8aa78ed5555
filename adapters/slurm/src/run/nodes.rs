//! Which nodes of the cluster are there.

use std::time::Duration;

use mdts_core::NodeId;
use mdts_core::runner::Report;
use tokio::time::Instant;

use super::conductor::Conductor;
use crate::{NodeRecord, Result};

/// Time between two looks at the nodes.
const PAUSE: Duration = Duration::from_secs(15);

/// A node that is away in so many looks is lost: after its own restart the controller knows of no node for a while.
const LOOKS: u32 = 2;

/// How the nodes stood the last time.
#[derive(Debug)]
pub(super) struct NodeWatch {
    next: Option<Instant>,
    /// Per node: in how many looks it was away.
    away: Vec<u32>,
}

impl NodeWatch {
    pub(super) fn new(nodes: usize) -> Self {
        Self { next: None, away: vec![0; nodes] }
    }
}

impl Conductor {
    /// Tells the runner which nodes are lost and which are there again.
    pub(super) async fn watch_nodes(&mut self) -> Result<()> {
        let now = Instant::now();
        // The plan was made a moment ago with the nodes that were there.
        let next = *self.nodes.next.get_or_insert(now + PAUSE);
        if now < next {
            return Ok(());
        }
        self.nodes.next = Some(now + PAUSE);
        let records = self.slurm.nodes().await?;
        for node in self.cluster.node_ids() {
            let name = &self.cluster.node(node).name;
            let record = records.iter().find(|record| record.name == *name);
            let is_there = record.is_some_and(|record| record.is_usable() || self.still_works(node, record));
            let away = &mut self.nodes.away[node.index()];
            if is_there {
                if *away >= LOOKS {
                    self.tell(Report::NodeJoined(node));
                }
                self.nodes.away[node.index()] = 0;
                continue;
            }
            *away = away.saturating_add(1);
            if *away == LOOKS {
                self.lose(node)?;
            }
        }
        Ok(())
    }

    /// Whether a node that takes no new jobs still runs some of the run.
    fn still_works(&self, node: NodeId, record: &NodeRecord) -> bool {
        let is_drained = record.state.contains("DRAIN") && !record.state.contains("DOWN");
        is_drained
            && self.book.wanted.values().any(|wanted| wanted.assignment.node == node && wanted.is_started)
    }

    /// A node is gone: what was to run there will run elsewhere.
    fn lose(&mut self, node: NodeId) -> Result<()> {
        tracing::warn!(node = %self.cluster.node(node).name, "the node is lost");
        for (wave, element) in self.book.open_elements() {
            let open = self.book.open(wave, element);
            let is_there = open
                .iter()
                .any(|ticket| self.book.wanted.get(&ticket.run()).is_some_and(|w| w.assignment.node == node));
            if !is_there {
                continue;
            }
            for ticket in open {
                self.folder.claim(ticket)?;
                self.book.wanted.remove(&ticket.run());
            }
            self.end_job(wave, element);
        }
        self.tell(Report::NodeLost(node));
        Ok(())
    }
}
