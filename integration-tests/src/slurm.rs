//! A real Slurm for tests, started by `integration-tests/slurm/up.sh` and ended when the test process is.
//!
//! Where Slurm is not there and cannot be installed, tests print `skipped: no Slurm`; with `CI=true` they fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What `up.sh` ends with if there is no Slurm.
const NOT_THERE: i32 = 3;

/// A cluster of its own on this machine.
#[derive(Debug)]
pub struct SlurmCluster {
    folder: PathBuf,
}

impl SlurmCluster {
    /// Starts a cluster with these arguments of `up.sh`; `name` tells it from others of this process. `None` if Slurm is not
    /// there, which is told.
    ///
    /// # Panics
    /// If it does not start, or is not there and `CI` is `true`.
    pub fn start(name: &str, arguments: &[&str]) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("mdts-slurm-{}-{name}", std::process::id()));
        let output = Command::new(script("up.sh"))
            .arg(&folder)
            .args(["--owner", &std::process::id().to_string()])
            .args(arguments)
            .stderr(Stdio::inherit())
            .output()
            .expect("bash is there");
        match output.status.code() {
            Some(0) => Some(Self { folder }),
            Some(NOT_THERE) if std::env::var("CI").as_deref() != Ok("true") => {
                eprintln!("skipped: no Slurm");
                None
            }
            _ => panic!("Slurm does not start: {}", output.status),
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its `slurm.conf`, for `SLURM_CONF`.
    pub fn configuration(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    /// A program of Slurm that uses it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("SLURM_CONF", self.configuration()).env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command.env("MDTS_TEST_SLURM", &self.folder).stdin(Stdio::null());
        command
    }

    /// What a program of Slurm prints that has to succeed.
    ///
    /// # Panics
    /// If it does not.
    pub fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.command(program).args(arguments).output().expect("it is installed");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// kill -9 of the controller.
    ///
    /// # Panics
    /// If there is none.
    pub fn kill_controller(&self) {
        let file = self.folder.join("slurmctld.pid");
        let number = fs::read_to_string(&file).expect("it runs");
        Command::new("kill").args(["-9", number.trim()]).status().expect("kill runs");
        fs::remove_file(file).ok();
    }

    /// Starts the controller again and waits until it answers.
    ///
    /// # Panics
    /// If it does not.
    pub fn start_controller(&self) {
        let begin = Instant::now();
        // Its port may be busy for a moment after its death.
        while !self.command("slurmctld").status().expect("it is installed").success() || !self.answers() {
            assert!(begin.elapsed() < Duration::from_mins(1), "slurmctld does not come back");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn answers(&self) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(10) {
            let ping = self.command("scontrol").arg("ping").output().expect("it is installed");
            if String::from_utf8_lossy(&ping.stdout).contains("is UP") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }
}

impl Drop for SlurmCluster {
    /// Clusters in statics are ended by their watchdogs.
    fn drop(&mut self) {
        Command::new(script("down.sh")).arg(&self.folder).arg("--purge").status().ok();
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("slurm").join(name)
}
