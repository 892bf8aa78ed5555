//! `mdts serve`: the placement service.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mdts_core::journal::Durability;
use mdts_core::{Cluster, Link, Network, SlotModel};
use mdts_dag::units::parse_bytes;
use mdts_service::client::Client;
use mdts_service::{Desk, Listen, Options, Server, Tls, demo};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::slurm::SidecarFlags;
use crate::choice::Choice;
use crate::error::{Error, Result};
use crate::output;
use crate::policy::{self, Policy};
use crate::settings::{ModelFlags, OtherFlags, Settings};
use crate::weights::WeightsFlag;

/// Where the service listens if nothing else is said.
const SOCKET: &str = ".mdts/service.sock";
/// The policy if nothing names one: it decides tasks as they come, from many jobs.
const POLICY: &str = "eft";
/// The same for the queue of a Slurm cluster, which is planned as a whole.
const QUEUE_POLICY: &str = "heft";
/// Policies that think for a second or more about every new job, while nobody else is answered.
const SLOW: [&str; 1] = ["search"];

/// Arguments of `mdts serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    slurm: SidecarFlags,
    /// Unix socket to listen on, mode 0600 [default: .mdts/service.sock, unless --listen is given]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// TCP address to listen on, for example 127.0.0.1:7077
    #[arg(long, value_name = "ADDR", requires = "token_file")]
    listen: Option<SocketAddr>,
    /// File with the token that TCP clients must send
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate chain in PEM, for TLS on the TCP address
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Record everything in this folder, and go on with what is recorded there
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// What the journal survives: the death of the process, or also the loss of power [default: process]
    #[arg(long, value_name = "WHAT", value_parser = Durability::parser(), requires = "journal")]
    durability: Option<Durability>,
    /// Size of the journal, beyond the last snapshot, at which the next one takes the records' place
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size, requires = "journal")]
    snapshot_after: u64,
    /// Policy, see mdts policies; all but search, which takes too long [default: eft, with --slurm heft]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    weights: WeightsFlag,
    /// Seconds without a heartbeat after which a node is lost, unless it says otherwise; 0: never
    #[arg(long, value_name = "SECS", default_value_t = 60)]
    node_lease: u32,
    /// Seconds of silence after which a job loses its nodes, unless it says otherwise; 0: never
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    job_lease: u32,
    /// Send the spans of requests to the OTLP collector at this address, over HTTP, for example <http://localhost:4318>
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Play nodes and a client, so that there is something to look at
    #[arg(long)]
    demo: bool,
}

impl Serve {
    /// Where spans are sent.
    pub(super) fn collector(&self) -> Option<&str> {
        self.otlp.as_deref()
    }

    pub(super) fn carry_out(&self, quiet: bool) -> Result<()> {
        let default_policy = if self.slurm.are_given() { QUEUE_POLICY } else { POLICY };
        let flags = OtherFlags {
            policy: self.policy.as_deref(),
            default_policy: Some(default_policy),
            history: self.slurm.history(),
            durability: self.durability,
            weights: self.weights.path(),
            ..OtherFlags::default()
        };
        let settings = Settings::load(&self.model, flags)?;
        let info = policy::find(&settings.policy)?;
        check_policy(info.name)?;
        let policy = Policy::new(info, self.weights.load(&[info.name], &settings)?.as_ref());
        if self.slurm.are_given() {
            raise_file_limit();
            return self.slurm.serve(self.socket.as_deref(), policy.planner(), &settings, quiet);
        }
        let cluster = settings.cluster.as_deref().map(Cluster::read).transpose()?;
        let slots = settings.slots.or(cluster.as_ref().map(Cluster::slots)).unwrap_or(SlotModel::Exclusive);
        let network = cluster.as_ref().map(|c| c.network().clone());
        let options = Options {
            slots,
            data: settings.data_model,
            network: network.unwrap_or_else(|| Network::uniform(Link::INSTANT)),
            node_lease: Duration::from_secs(self.node_lease.into()),
            job_lease: Duration::from_secs(self.job_lease.into()),
            journal: self.journal.clone(),
            durability: settings.durability,
            snapshot_after: self.snapshot_after,
            ..Options::default()
        };
        raise_file_limit();
        let desk = Desk::open(&options, policy.placer(settings.seed))?;
        if let Some(cluster) = cluster {
            desk.register(&cluster)?;
        }
        // One thread decides; another one reads large graphs.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Error::System { what: "no runtime", source })?;
        runtime.block_on(self.answer(desk, quiet))
    }

    async fn answer(&self, desk: Arc<Desk>, quiet: bool) -> Result<()> {
        let listen = self.listen()?;
        let socket = listen.socket.clone();
        let server = Server::bind(desk, listen)?;
        if !quiet {
            output::print(&self.greeting(socket.as_deref(), server.address()))?;
        }
        if let Some(socket) = socket.filter(|_| self.demo) {
            tokio::spawn(async move {
                if let Err(error) = demo::play(Client::unix(socket)).await {
                    tracing::warn!(%error, "the demo has ended");
                }
            });
        }
        Ok(server.run(until_signal()?).await?)
    }

    fn listen(&self) -> Result<Listen> {
        let default = (self.listen.is_none() || self.demo).then(|| PathBuf::from(SOCKET));
        let socket = self.socket.clone().or(default);
        if let Some(folder) = socket.as_deref().and_then(Path::parent).filter(|f| *f != Path::new("")) {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|source| Error::Output { path: folder.to_owned(), source })?;
        }
        let token = self.token_file.as_deref().map(|path| {
            let token = std::fs::read_to_string(path);
            token.map_err(|source| Error::Input { path: path.to_owned(), source })
        });
        let tls = self.tls_certificate.clone().zip(self.tls_key.clone());
        warn_of_openness(self.token_file.as_deref(), self.listen, tls.is_some());
        Ok(Listen {
            socket,
            address: self.listen,
            token: token.transpose()?.map(|token| token.trim().to_owned()),
            tls: tls.map(|(certificate, key)| Tls { certificate, key }),
            ..Listen::default()
        })
    }

    fn greeting(&self, socket: Option<&Path>, address: Option<SocketAddr>) -> String {
        let socket = socket.map(|socket| {
            let socket = socket.display();
            format!("listening on {socket}\n  curl --unix-socket {socket} http://mdts/v1/jobs\n")
        });
        let scheme = if self.tls_certificate.is_some() { "https" } else { "http" };
        let address = address.map(|address| {
            let header = "Authorization: Bearer TOKEN";
            format!("listening on {address}\n  curl -H \"{header}\" {scheme}://{address}/v1/jobs\n")
        });
        socket.into_iter().chain(address).collect()
    }
}

/// Ends when somebody interrupts or terminates the process.
pub(super) fn until_signal() -> Result<impl Future<Output = ()>> {
    let listen = |kind| signal(kind).map_err(|source| Error::System { what: "cannot watch signals", source });
    let (mut interrupt, mut terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {},
            _ = terminate.recv() => {},
        }
    })
}

/// Refuses policies that would keep everybody waiting.
fn check_policy(name: &str) -> Result<()> {
    if !SLOW.contains(&name) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "the policy '{name}' plans every job for a second or more, while the service answers nobody else; serve with eft (tasks as \
         they come), heft (plans whole jobs in milliseconds) or mdts (learned), and use '{name}' with mdts plan and mdts run"
    )))
}

/// Bytes, as in `64MiB`.
fn parse_size(text: &str) -> std::result::Result<u64, String> {
    parse_bytes(text).map(|bytes| bytes as u64)
}

/// Says what others could do with the token.
fn warn_of_openness(token_file: Option<&Path>, address: Option<SocketAddr>, has_tls: bool) {
    let mode = token_file.and_then(|path| std::fs::metadata(path).ok()).map_or(0, |file| file.mode());
    if mode & 0o044 != 0 {
        tracing::warn!("other users can read the token file; chmod 600 keeps the token secret");
    }
    if address.is_some_and(|address| !address.ip().is_loopback() && !has_tls) {
        tracing::warn!(
            "tokens go over the network in plain text; --tls-certificate and --tls-key prevent it"
        );
    }
}

/// Every connection is a file, and the usual limit is for fewer than the service takes.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the number of open files cannot be raised");
    }
}
