//! Reading and writing job graphs.
//!
//! | format | reads | writes | extension |
//! |---|---|---|---|
//! | `WfCommons` `WfFormat` | 1.0 to 1.6 | 1.5 | `.json` |
//! | Pegasus DAX | 2 and 3 | no | `.dax`, `.xml` |
//! | STG | yes | yes, times and edges only | `.stg` |
//! | Graphviz DOT | digraphs | yes | `.dot`, `.gv` |
//! | the project's own workflow | yes | yes | `.yaml`, `.yml`, `.toml`; `.mdts.json` (read: `.json` too) |
//!
//! Each may be compressed (`.gz`). [`read_path`] and [`write_path`] do what most callers need; [`Format::detect`]
//! tells formats apart. All readers hand what they find to a [`JobGraphBuilder`](crate::JobGraphBuilder), so one
//! set of checks holds for all; every error is one line that names the file, the place and what was expected.
//! No reader opens a second file, expands entities or needs more than a small multiple of the file's memory.
//!
//! ```
//! use mdts_dag::format::{self, Format};
//! let text = "
//! tasks:
//!   - {name: split, work: 2, outputs: [part]}
//!   - {name: sort, work: 10s, inputs: [part]}
//! files: {part: 10MB}
//! ";
//! let job = format::read(text.as_bytes(), Format::Yaml, "example.yaml")?;
//! assert_eq!((job.len(), job.dependency_count()), (2, 1));
//! let mut dot = Vec::new();
//! format::write(&job, Format::Dot, &mut dot)?;
//! # Ok::<(), mdts_dag::Error>(())
//! ```

mod dax;
mod detect;
mod dot;
mod gzip;
mod input;
mod json;
mod output;
mod own;
mod pairs;
mod place;
mod scan;
mod stg;
mod wfformat;

pub use detect::Format;
pub use input::{check_within, extend, read, read_from, read_path, read_within};
pub use output::{write, write_path};
