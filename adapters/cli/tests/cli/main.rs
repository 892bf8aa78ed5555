//! The command line from outside: the built program on small inputs.

mod bad_input;
mod caching;
mod contract;
mod live;
mod measuring;
mod pictures;
mod prediction;
mod reproducing;
mod running;
mod search;
mod settings;
mod training;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder of its own to run the program in, without settings from around it.
struct Folder {
    dir: TempDir,
}

/// What a call gave.
struct Called {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Folder {
    fn new() -> Self {
        Self { dir: TempDir::new().expect("a temporary folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), content).expect("written");
        self
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("there and UTF-8")
    }

    /// Names of all files, the hidden ones too.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).expect("readable");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("readable").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mdts"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MDTS_")) {
            command.env_remove(name);
        }
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    fn mdts(&self, args: &[&str]) -> Called {
        Called::from(self.command(args).output().expect("mdts runs"))
    }

    /// The JSON object that a successful call prints.
    fn json(&self, args: &[&str]) -> Value {
        let called = self.mdts(args);
        assert_eq!(called.status, 0, "{args:?}: {}", called.stderr);
        called.json()
    }
}

impl From<Output> for Called {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().expect("an exit status"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Called {
    fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one object on a line: {}", self.stdout);
        let value: Value = serde_json::from_str(&self.stdout).expect("JSON and nothing else");
        assert!(value.is_object());
        value
    }
}

fn assert_keys(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "no key {key} in {value}");
    }
}

/// Four tasks, the two in the middle side by side.
const DIAMOND: &str = "
name: diamond
tasks:
  - {name: a, work: 1}
  - {name: b1, work: 2, needs: {a: 100}}
  - {name: b2, work: 3, needs: {a: 100}}
  - {name: c, work: 1, needs: {b1: 50, b2: 50}}
";

/// Two unequal nodes.
const PAIR: &str = "
[network]
bandwidth = 100
[[node]]
name = \"slow\"
price = 1.0
[[node]]
name = \"fast\"
speed = 2.0
price = 3.0
";

/// A folder with both.
fn diamond() -> Folder {
    let folder = Folder::new();
    folder.write("diamond.yaml", DIAMOND).write("pair.toml", PAIR);
    folder
}
