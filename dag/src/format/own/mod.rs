//! The project's own workflow file: tasks with commands, written by hand, as YAML, JSON or TOML.
//!
//! ```yaml
//! name: example                  # default: the file's name
//! files: {a.txt: 10MB}           # sizes of files; default 0
//! tasks:
//!   - name: align                # unique; the only key a task must have
//!     kind: alignment            # category; default: the name without its trailing number
//!     work: 12.0                 # seconds on a node of speed 1 (or 10m, 2h); absent: to be predicted
//!     times: {P1: 14, P2: 16}    # instead of work: seconds per node
//!     cores: 1                   # demand; also memory: 2GiB, gpus: 1, resources: {licence: 1}, gang: 2
//!     after: [split, index]      # dependencies without data
//!     needs: {fetch: 100MB}      # dependencies with bytes
//!     command: ["sh", "-c", "..."]   # a text instead of a list is a command for sh -c
//!     inputs: [a.txt]            # files; the tasks that write them become parents
//!     outputs: [b.txt]
//!     env: {THREADS: 4}          # variables beside those of the runner
//!     directory: work            # where the command runs, from the folder of the workflow
//!     retries: 2                 # how often a failed attempt is repeated
//!     retry_on: [75, signal]     # after which failures; default: all but memory and input
//!     never_retry_on: [2]        # exit statuses, or exit, signal, timeout, memory, input, output, start
//!     retry_delay: 10s           # before the second attempt; longer before every further one
//!     timeout: 10m
//! infer_parents: true            # false: inputs and outputs make no dependencies
//! ```
//!
//! A list of one may be written as its only item. Unknown keys are refused, with the nearest known one offered.

mod keys;
mod read;
mod schema;
mod size;
mod values;
mod write;

pub(super) use read::{extend_json, read_json, read_toml, read_yaml};
pub(super) use size::check as check_size;
pub(super) use write::{write_json, write_toml, write_yaml};
