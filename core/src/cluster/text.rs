//! From a file to the values in it; errors tell the line and column in one short line.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::range::wrong;
use crate::{Error, Result};

/// The largest cluster file that is read: 64 MiB.
const LIMIT: u64 = 64 << 20;
/// The most characters of a parser's message that are shown.
const SHOWN: usize = 300;

/// The bytes of a file, at most one more than are allowed.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LIMIT + 1).read_to_end(&mut bytes));
    read.map_err(|source| Error::Io { path: path.to_owned(), source })?;
    Ok(bytes)
}

/// The bytes as text, without a byte-order mark.
pub(super) fn decode(bytes: &[u8]) -> Result<&str> {
    if bytes.len() as u64 > LIMIT {
        return Err(wrong("size", format!("the file is larger than the {LIMIT} bytes allowed")));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        let line = bytes[..at].split(|b| *b == b'\n').count();
        let message = "not UTF-8 text; convert the file to UTF-8, for example with iconv";
        wrong(format!("line {line} (byte {at})"), message)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Parses a text; `syntax` is `toml`, `yaml` or `json`.
pub(super) fn parse<T: DeserializeOwned>(text: &str, syntax: &str) -> Result<T> {
    match syntax {
        "toml" => toml::from_str(text).map_err(|e| {
            let place = e.span().map(|span| line_column(text, span.start));
            refused(place, e.message())
        }),
        "yaml" | "yml" => serde_saphyr::from_str_with_options(text, yaml_options(text.len())).map_err(|e| {
            let place = e.location().map(|at| (at.line(), at.column()));
            refused(place, &e.to_string())
        }),
        "json" => serde_json::from_str(text).map_err(|e: serde_json::Error| {
            refused(Some((e.line() as u64, e.column() as u64)), &e.to_string())
        }),
        other => {
            let message = format!("'{other}' is not a cluster format; use toml, yaml or json");
            Err(wrong("format", message))
        }
    }
}

/// Limits that grow with the text, and that stop aliases which stand for far more than the text holds.
fn yaml_options(length: usize) -> serde_saphyr::Options {
    const REPLAYED: usize = 1_000_000;
    serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: length + REPLAYED,
            max_nodes: length + REPLAYED,
            max_total_scalar_bytes: length + LIMIT as usize,
            enforce_alias_anchor_ratio: false, // one anchor of defaults may serve all nodes
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: REPLAYED,
        },
    }
}

/// An error at a line and column, with the parser's message without them, in one line.
fn refused(place: Option<(u64, u64)>, message: &str) -> Error {
    let place = place.map_or("document".into(), |(line, column)| format!("line {line}, column {column}"));
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    let lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    // More than enough for what is shown, so that a huge message is not copied whole.
    let line = lines.take(SHOWN).collect::<Vec<_>>().join("; ");
    let mut characters = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = characters.by_ref().take(SHOWN).collect();
    if characters.next().is_some() {
        shown.push_str("...");
    }
    wrong(place, shown)
}

/// Line and column of a byte offset; columns count characters from 1. O(offset).
fn line_column(text: &str, offset: usize) -> (u64, u64) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    let line = 1 + before.bytes().filter(|b| *b == b'\n').count();
    (line as u64, 1 + before[line_start..].chars().count() as u64)
}
