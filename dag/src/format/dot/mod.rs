//! Graphviz DOT: directed graphs whose attributes say what tasks do and need.
//!
//! Source: the DOT language of Graphviz. Quoted names, comments, edge chains, `{a b} -> c`, subgraphs and default
//! attributes (`node [...]`, `edge [...]`) work as there; ports are skipped; HTML-like names and undirected
//! graphs are refused. In quoted names `\"` and `\\` stand for one character. Read are
//!
//! | of a node | meaning |
//! |---|---|
//! | `work`, else `runtime`, else `weight` | seconds on a node of speed 1, also as `10m` |
//! | `size` | floating-point operations, 10^9 per second (as DAGGEN and `DSLab` write it) |
//! | `times="P1=14,P2=16"` | seconds per node, in place of `work` |
//! | `kind`, else `category` | category |
//! | `cores`, `memory`, `gpus`, `gang`, `resources="licence=1"` | demand |
//! | `command` | a JSON list of program and arguments, or a text for `sh -c` |
//! | `retries`, `retry_delay`, `timeout`, `directory` | as in the own format |
//! | `retry_on="75,signal"`, `never_retry_on` | ways to fail, as in the own format |
//! | `env` | a JSON object of variables |
//!
//! | of an edge | meaning |
//! |---|---|
//! | `bytes`, else `size`, else `data`, else `weight` | bytes, also as `10MB` |
//!
//! All other attributes (`label`, `color`, ...) are skipped. Two edges between the same tasks add their bytes, in a
//! `strict` graph the last one counts. The writer uses the first name of each row and keeps everything but files:
//! the bytes of a dependency include those in files.

mod attributes;
mod lexer;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;
