//! Looks at the installation.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::process::Command;

use crate::Slurm;
use crate::ask::ask;
use crate::escape::unescape;

/// How long the sidecar may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Larger files are no plugin and no script.
const LARGEST: u64 = 64 << 20;
/// Stands in the plugin before the version that it was built for.
const BUILT_FOR: &[u8] = b"mdts-plugin-for-slurm=";
/// Where Lua's sockets are.
const LUA_FOLDERS: [&str; 4] = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu"];
/// Programs that are needed.
const PROGRAMS: [&str; 4] = ["scontrol", "squeue", "sbatch", "scancel"];
/// Where `slurm.conf` is if nothing says otherwise.
const CONFIGURATION: &str = "/etc/slurm/slurm.conf";

/// What the sidecar says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Sidecar {
    /// Its version.
    pub version: String,
    /// Seconds since it saw the cluster.
    pub age: Option<f64>,
    /// How long its answer took.
    pub milliseconds: f64,
}

/// Everything that is judged.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Programs that cannot be run, and why.
    pub missing: Vec<(&'static str, String)>,
    /// What `scontrol --version` says.
    pub version: String,
    /// Why the controller does not answer.
    pub unreachable: Option<String>,
    /// The configuration; empty if the controller does not answer.
    pub config: BTreeMap<String, String>,
    /// The user who asks.
    pub user: u32,
    /// Accounting knows the user as an operator or administrator.
    pub is_operator: bool,
    /// Lua scripts beside `slurm.conf`.
    pub scripts: BTreeMap<&'static str, String>,
    /// Lua's sockets are installed.
    pub has_lua_socket: bool,
    /// The version that an installed plugin was built for.
    pub plugin_version: Option<String>,
    /// The sidecar's socket.
    pub socket: PathBuf,
    /// What the sidecar answers.
    pub sidecar: Result<Sidecar, String>,
}

/// Looks at everything; what cannot be seen is a fact, too.
pub async fn gather(slurm: &dyn Slurm, socket: &Path) -> Facts {
    let mut missing = Vec::new();
    let mut version = String::new();
    for program in PROGRAMS {
        match output(program, &["--version"]).await {
            Ok(text) if program == "scontrol" => text.trim().clone_into(&mut version),
            Ok(_) => {}
            Err(error) => missing.push((program, error)),
        }
    }
    let (config, unreachable) = match slurm.config().await {
        Ok(config) => (config, None),
        Err(error) => (BTreeMap::new(), Some(error.to_string())),
    };
    let scripts = ["job_submit.lua", "cli_filter.lua", "mdts.lua"];
    let folder = folder(&config);
    let scripts = scripts.into_iter().filter_map(|name| {
        let bytes = read(&folder.join(name))?;
        Some((name, String::from_utf8_lossy(&bytes).into_owned()))
    });
    Facts {
        missing,
        version,
        unreachable,
        user: rustix::process::geteuid().as_raw(),
        is_operator: is_operator(&config).await,
        scripts: scripts.collect(),
        has_lua_socket: has_lua_socket(),
        plugin_version: plugin_version(config.get("PluginDir").map(String::as_str).unwrap_or_default()),
        socket: socket.to_owned(),
        sidecar: sidecar(socket),
        config,
    }
}

async fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).kill_on_drop(true);
    let output = tokio::time::timeout(LIMIT, command.output()).await;
    let output = output.map_err(|_| "it does not end".to_owned())?.map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned())
    }
}

/// The folder of `slurm.conf`.
fn folder(config: &BTreeMap<String, String>) -> PathBuf {
    let told = config.get("SLURM_CONF").map(PathBuf::from);
    let file = told.or_else(|| std::env::var_os("SLURM_CONF").map(PathBuf::from));
    file.unwrap_or_else(|| CONFIGURATION.into()).parent().map(Path::to_owned).unwrap_or_default()
}

async fn is_operator(config: &BTreeMap<String, String>) -> bool {
    if !config.get("AccountingStorageType").is_some_and(|kind| kind.contains("slurmdbd")) {
        return false;
    }
    let user = output("id", &["-un"]).await.unwrap_or_default();
    let user = user.trim();
    let told = output("sacctmgr", &["-n", "-P", "show", "user", user, "format=adminlevel"]).await;
    told.is_ok_and(|level| level.contains("Operator") || level.contains("Administrator"))
}

fn has_lua_socket() -> bool {
    let versions = ["5.1", "5.2", "5.3", "5.4"];
    let candidates = LUA_FOLDERS.iter().flat_map(|folder| {
        versions.map(|version| Path::new(folder).join("lua").join(version).join("socket/unix.so"))
    });
    candidates.into_iter().any(|path| path.exists())
}

/// The version that stands in an installed plugin.
fn plugin_version(folders: &str) -> Option<String> {
    let bytes = folders.split(':').find_map(|folder| read(&Path::new(folder).join("job_submit_mdts.so")))?;
    let at = bytes.windows(BUILT_FOR.len()).position(|window| window == BUILT_FOR)? + BUILT_FOR.len();
    let end = bytes[at..].iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[at..at + end].to_vec()).ok()
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn sidecar(socket: &Path) -> Result<Sidecar, String> {
    let begun = Instant::now();
    let answer = ask(socket, "ask=status\n\n", PATIENCE).map_err(|error| error.to_string())?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    let pairs = answer.lines().filter_map(|line| line.split_once('='));
    let said: BTreeMap<&str, String> =
        pairs.map(|(key, value)| (key, unescape(value).into_owned())).collect();
    let version = said.get("version").cloned().ok_or("what listens there is no sidecar of mdts")?;
    Ok(Sidecar { version, age: said.get("age").and_then(|age| age.parse().ok()), milliseconds })
}
