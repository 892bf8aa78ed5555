//! What a service is given to begin with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mdts_core::journal::Durability;
use mdts_core::{Link, Network, SlotModel};
use mdts_dag::DataModel;

/// How a service decides and what it keeps.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many tasks a node runs at a time.
    pub slots: SlotModel,
    /// What moves between nodes.
    pub data: DataModel,
    /// The network between the nodes of [`Desk::register`](crate::Desk::register)'s first call; other nodes are linked by its
    /// default.
    pub network: Network,
    /// After how long without a heartbeat a node is lost, unless it says otherwise; zero: never.
    pub node_lease: Duration,
    /// After how long without a word of its client a job loses its nodes, unless it says otherwise; zero: never.
    pub job_lease: Duration,
    /// For how long, and up to how many tasks, jobs that have ended can be asked about.
    pub keep: Duration,
    /// See [`Options::keep`].
    pub keep_tasks: usize,
    /// What the graphs of all jobs may take, in bytes and by estimate: beyond it jobs are refused, and beyond half of it those
    /// that have ended are forgotten.
    pub most_bytes: usize,
    /// Folder in which everything is recorded; none: a restarted service knows nothing.
    pub journal: Option<PathBuf>,
    /// What records survive.
    pub durability: Durability,
    /// After so many bytes of records a snapshot takes their place.
    pub snapshot_after: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            slots: SlotModel::Exclusive,
            data: DataModel::Edges,
            network: Network::uniform(Link::INSTANT),
            node_lease: Duration::from_mins(1),
            job_lease: Duration::from_mins(5),
            keep: Duration::from_mins(10),
            keep_tasks: 100_000,
            most_bytes: 1 << 30,
            journal: None,
            durability: Durability::Process,
            snapshot_after: 64 << 20,
        }
    }
}

/// Where a service listens, and how much it takes.
#[derive(Debug, Clone)]
pub struct Listen {
    /// A Unix socket, made with mode 0600.
    pub socket: Option<PathBuf>,
    /// A TCP address; needs a token.
    pub address: Option<SocketAddr>,
    /// What TCP clients must send as `Authorization: Bearer TOKEN`.
    pub token: Option<String>,
    /// Certificate and key for TLS on the TCP address.
    pub tls: Option<Tls>,
    /// Most connections at a time, by socket and address each; others wait to be accepted. Of the files that the process may
    /// open, a few are kept for other things.
    pub connections: usize,
    /// Largest body of a graph, in bytes, packed and unpacked; other bodies may have 1 MiB.
    pub largest_graph: usize,
    /// Within which a request's body must arrive, and within which something of an answer must be taken.
    pub patience: Duration,
    /// After which a connection without a request, or without a whole head of one, is closed.
    pub idle: Duration,
    /// Within which a connection over TCP must have sent a request with the token. Such connections are a quarter of all at most,
    /// and no more than 256: of more, the one that has been there longest is closed.
    pub introduction: Duration,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            socket: None,
            address: None,
            token: None,
            tls: None,
            connections: 10_000,
            largest_graph: 64 << 20,
            patience: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            introduction: Duration::from_secs(10),
        }
    }
}

/// Files in PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate and those between it and a root.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}
