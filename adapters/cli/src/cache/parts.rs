//! What a task depends on: its command, environment and folder, its inputs, and the names of its outputs.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use blake3::{Hash, Hasher};
use mdts_dag::{Execution, JobGraph, TaskId};
use serde::{Deserialize, Serialize};

use super::hashes::Hashes;

/// What a task depends on. Hashes are in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parts {
    /// Hash of the command, its environment and its folder.
    pub(super) command: String,
    /// Names of the declared inputs with the hashes of their contents.
    pub(super) inputs: Vec<(String, String)>,
    /// Names of the declared outputs.
    pub(super) outputs: Vec<String>,
}

impl Parts {
    /// What a task depends on now; files are named from `folder`. `None` if it has no command or no outputs.
    ///
    /// # Errors
    /// Name of an input that cannot be read, and why.
    pub(super) fn read(
        job: &JobGraph,
        task: TaskId,
        folder: &Path,
        hashes: &Hashes,
        stop: &AtomicBool,
    ) -> Result<Option<Self>, (String, std::io::Error)> {
        let of = job.task(task);
        let Some(run) = of.run.as_deref().filter(|run| !run.command.is_empty() && !of.outputs.is_empty())
        else {
            return Ok(None);
        };
        let name = |file: &mdts_dag::FileId| job.file(*file).name.to_string();
        let mut inputs = Vec::with_capacity(of.inputs.len());
        for input in of.inputs.iter().map(name) {
            match hashes.of(&folder.join(&input), stop) {
                Ok(hash) => inputs.push((input, hash.to_hex().to_string())),
                Err(error) => return Err((input, error)),
            }
        }
        let outputs = of.outputs.iter().map(name).collect();
        Ok(Some(Self { command: command(run).to_hex().to_string(), inputs, outputs }))
    }

    /// Stands for all of it.
    pub(super) fn key(&self) -> Hash {
        let mut hasher = Hasher::new();
        add(&mut hasher, [&self.command]);
        add(&mut hasher, self.inputs.iter().flat_map(|(name, hash)| [name, hash]));
        add(&mut hasher, &self.outputs);
        hasher.finalize()
    }
}

/// Hash of all that decides what a command does, its inputs left out.
fn command(run: &Execution) -> Hash {
    // Every field is named, so that a new one is not forgotten here.
    let Execution { command, env, directory, retries: _, retry: _, retry_delay: _, timeout: _ } = run;
    let mut hasher = Hasher::new();
    add(&mut hasher, command);
    add(&mut hasher, env.iter().flat_map(|(name, value)| [name, value]));
    add(&mut hasher, directory.as_slice());
    hasher.finalize()
}

/// Adds texts so that no two lists of them give the same bytes.
fn add<'a>(hasher: &mut Hasher, texts: impl IntoIterator<Item = &'a String>) {
    let mut count: u64 = 0;
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        count += 1;
    }
    hasher.update(&u64::MAX.to_le_bytes()).update(&count.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_counts() {
        let run = |command: &[&str], env: &[(&str, &str)], directory: Option<&str>| Execution {
            command: command.iter().map(|&word| word.to_owned()).collect(),
            env: env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(),
            directory: directory.map(str::to_owned),
            ..Execution::default()
        };
        let all = [
            run(&["a", "b"], &[], None),
            run(&["ab"], &[], None),
            run(&["a"], &[], Some("b")),
            run(&["a"], &[("b", "")], None),
            run(&["a"], &[("", "b")], None),
            run(&["a"], &[], None),
        ];
        for (i, one) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                assert_eq!(command(one) == command(other), i == j, "{one:?} {other:?}");
            }
        }
        let patient = Execution { retries: Some(3), timeout: Some(1.0), ..all[0].clone() };
        assert_eq!(command(&patient), command(&all[0]), "how often it is tried changes nothing");
    }
}
