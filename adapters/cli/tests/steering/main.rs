//! The submit filter and the sidecar, on a real Slurm where one can be started and without one elsewhere.

mod doctor;
mod filter;
mod hostile;
mod imports;
mod leading;
mod sidecar;
mod submitting;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use mdts_integration_tests::slurm::SlurmCluster;

/// Speeds of the nodes of the test cluster: `slow` would be Slurm's first choice nowhere, `fast` is ours.
const SPEEDS: &str = "[[node]]\nname = \"fast\"\nspeed = 4.0\n[[node]]\nname = \"middle\"\nspeed = 2.0\n\
                      [[node]]\nname = \"slow\"\nspeed = 1.0\n[[node]]\nname = \"big\"\nspeed = 1.5\n";

/// The program.
fn mdts(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mdts"));
    command.current_dir(folder).stdin(Stdio::null());
    // What the surroundings of the test say must not count.
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("MDTS_") || name.starts_with("SBATCH_"))
    {
        command.env_remove(name);
    }
    command
}

/// The same with the configuration of a cluster.
fn mdts_on(cluster: &SlurmCluster, folder: &Path) -> Command {
    let mut command = mdts(folder);
    command.env("SLURM_CONF", cluster.configuration());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command with this standard input.
fn give(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that reads nothing says why by its own words.
    _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// A folder whose name is short enough for a socket.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("mdts").tempdir_in("/tmp").unwrap()
}

/// Until something is so, or a minute has passed.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_mins(1), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A sidecar; killed when dropped.
struct Sidecar {
    child: Child,
    socket: PathBuf,
}

impl Sidecar {
    /// Starts one and waits until it has seen the cluster.
    fn start(cluster: &SlurmCluster, folder: &Path, socket: &Path, flags: &[&str]) -> Self {
        let sidecar = Self::start_blind(mdts_on(cluster, folder), folder, socket, flags);
        wait_until("the sidecar sees the cluster", || !sidecar.status().contains("age=none"));
        sidecar
    }

    /// Starts one and waits until it answers.
    fn start_blind(mut command: Command, folder: &Path, socket: &Path, flags: &[&str]) -> Self {
        fs::write(folder.join("speeds.toml"), SPEEDS).unwrap();
        let log = fs::File::create(folder.join("sidecar.log")).unwrap();
        command
            .args(["serve", "--slurm", "--interval", "0.5", "--cluster", "speeds.toml", "--socket"])
            .arg(socket);
        let child =
            command.args(flags).env("MDTS_LOG", "debug").stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let sidecar = Self { child, socket: socket.to_owned() };
        wait_until("the sidecar answers", || sidecar.ask("ask=status\n\n").is_ok());
        sidecar
    }

    fn ask(&self, message: &str) -> std::io::Result<String> {
        mdts_slurm::ask::ask(&self.socket, message, Duration::from_secs(5))
    }

    fn status(&self) -> String {
        self.ask("ask=status\n\n").unwrap()
    }

    /// Asks it to end, and waits for that.
    fn end(mut self) {
        Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(self.child.wait().unwrap().success());
        assert!(!self.socket.exists(), "the socket is left behind");
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Submits a script that says on which node it runs; the job's number.
fn submit(cluster: &SlurmCluster, options: &[&str]) -> u32 {
    let output = try_to_submit(cluster, options);
    assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
    text(&output.stdout).trim().parse().unwrap()
}

fn try_to_submit(cluster: &SlurmCluster, options: &[&str]) -> Output {
    let mut sbatch = cluster.command("sbatch");
    sbatch.args(["--parsable", "--output=/dev/null"]).args(options).args(["--wrap", "sleep 0.1"]);
    sbatch.output().unwrap()
}

/// Fields of a job, as squeue names them.
fn fields(cluster: &SlurmCluster, job: u32, names: &[&str]) -> Vec<String> {
    let format = names.iter().map(|name| format!("{name}:\u{1f}")).collect::<Vec<_>>().join(",");
    let told = cluster.ask("squeue", &["-h", "-t", "all", "-j", &job.to_string(), "-O", &format]);
    told.trim_end_matches('\n').split('\u{1f}').take(names.len()).map(str::to_owned).collect()
}

/// The node on which a job has run, waited for.
fn node_of(cluster: &SlurmCluster, job: u32) -> String {
    let mut node = String::new();
    wait_until("the job runs", || {
        let found = fields(cluster, job, &["State", "NodeList"]);
        node.clone_from(&found[1]);
        matches!(found[0].as_str(), "RUNNING" | "COMPLETED" | "COMPLETING")
    });
    node
}

/// Whether this machine has the headers or the very version that the plugin's layout is of.
fn plugin(cluster_version: &str) -> Option<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--locked", "--quiet", "-p", "job-submit-mdts"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let has_headers = Path::new("/usr/include/slurm/slurm.h").exists();
    if !cluster_version.ends_with("22.05.8") {
        if !has_headers {
            eprintln!("skipped: no headers of {cluster_version}");
            return None;
        }
        cargo.args(["--features", "headers"]);
    }
    assert!(cargo.status().unwrap().success(), "the plugin is not built");
    let target = Path::new(env!("CARGO_BIN_EXE_mdts")).parent().unwrap();
    Some(target.join("libjob_submit_mdts.so"))
}

/// The version of the Slurm that is installed, if one is.
fn version() -> Option<String> {
    let told = Command::new("scontrol").arg("--version").output().ok()?;
    Some(text(&told.stdout).trim().to_owned())
}

/// A program of this text.
fn program(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
