//! Which format a file has: by its extension, else by how it begins.

use std::path::Path;

use crate::{Error, Result};

/// A file format for job graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `WfCommons` `WfFormat` (JSON).
    WfFormat,
    /// Pegasus DAX (XML); read only.
    Dax,
    /// Standard task graph set.
    Stg,
    /// Graphviz digraph.
    Dot,
    /// The project's own workflow as YAML.
    Yaml,
    /// The project's own workflow as JSON.
    Json,
    /// The project's own workflow as TOML.
    Toml,
}

const EXTENSIONS: &str = "supported are .json (WfFormat or own), .xml and .dax (Pegasus DAX), .stg, .dot and .gv, \
                          .yaml and .yml, .toml; each also with .gz";

impl Format {
    /// The name that errors and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WfFormat => "WfFormat",
            Self::Dax => "Pegasus DAX",
            Self::Stg => "STG",
            Self::Dot => "DOT",
            Self::Yaml => "YAML workflow",
            Self::Json => "JSON workflow",
            Self::Toml => "TOML workflow",
        }
    }

    /// The format of a file with this path and (unpacked) text.
    ///
    /// The extension decides, without a `.gz` at its end. `.json` may be `WfFormat` or the own format: the keys of
    /// the outermost object decide. Without a known extension (as for `-`, the standard input) the beginning of
    /// the text decides. `text` may be cut off; more of it makes the answer surer.
    ///
    /// ```
    /// use mdts_dag::format::Format;
    /// assert_eq!(Format::detect("a.dax.gz", b"")?, Format::Dax);
    /// assert_eq!(Format::detect("-", b"digraph { a -> b }")?, Format::Dot);
    /// assert_eq!(Format::detect("a.json", br#"{"workflow": {}}"#)?, Format::WfFormat);
    /// # Ok::<(), mdts_dag::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownFormat`] if neither tells.
    pub fn detect(path: impl AsRef<Path>, text: &[u8]) -> Result<Self> {
        let path = path.as_ref();
        if let Some(format) = by_extension(path) {
            return Ok(if format == Self::Json { json_format(text) } else { format });
        }
        by_text(text).ok_or_else(|| Error::UnknownFormat {
            message: format!(
                "{}: neither the extension nor the text tells the format; {EXTENSIONS}",
                path.display()
            ),
        })
    }

    /// The format in which to write a file with this path: by extension, where `.json` is `WfFormat` and
    /// `.mdts.json` the own format.
    ///
    /// # Errors
    /// [`Error::UnknownFormat`] for other extensions.
    pub fn for_writing(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let own = file_name(path).ends_with(".mdts.json");
        match by_extension(path) {
            Some(Self::Json) if !own => Ok(Self::WfFormat),
            Some(format) => Ok(format),
            None => Err(Error::UnknownFormat {
                message: format!("{}: the extension names no format; {EXTENSIONS}", path.display()),
            }),
        }
    }
}

/// The file name in lower case, without `.gz`.
pub(super) fn file_name(path: &Path) -> String {
    let mut name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if let Some(stem) = name.strip_suffix(".gz") {
        name.truncate(stem.len());
    }
    name
}

fn by_extension(path: &Path) -> Option<Format> {
    let name = file_name(path);
    Some(match name.rsplit_once('.')?.1 {
        "json" => Format::Json,
        "xml" | "dax" => Format::Dax,
        "stg" => Format::Stg,
        "dot" | "gv" => Format::Dot,
        "yaml" | "yml" => Format::Yaml,
        "toml" => Format::Toml,
        _ => return None,
    })
}

/// `WfFormat` or the own format, whichever has the first telling key of the outermost object.
fn json_format(text: &[u8]) -> Format {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = end_of_string(text, at);
                let is_key = depth == 1
                    && text[end..].iter().skip(1).find(|b| !b.is_ascii_whitespace()) == Some(&b':');
                match &text[at..end] {
                    b"workflow" | b"schemaVersion" if is_key => return Format::WfFormat,
                    b"tasks" | b"files" if is_key => return Format::Json,
                    _ => at = end + 1,
                }
            }
            _ => {}
        }
    }
    Format::Json
}

/// The position of the quotation mark that ends the string beginning at `at`, or the end of the text.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// The format by how the text begins, comments skipped.
fn by_text(text: &[u8]) -> Option<Format> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    match text.first()? {
        b'{' => return Some(json_format(text)),
        b'<' => return Some(Format::Dax),
        b'/' => return Some(Format::Dot),
        _ => {}
    }
    let mut lines = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"))?;
    let word = line.split(|b| b.is_ascii_whitespace() || *b == b'{').next()?;
    if [&b"strict"[..], b"digraph", b"graph"].iter().any(|k| word.eq_ignore_ascii_case(k)) {
        return Some(Format::Dot);
    }
    if word.iter().all(u8::is_ascii_digit) && !word.is_empty() {
        return Some(Format::Stg);
    }
    if line.starts_with(b"[") {
        return Some(Format::Toml);
    }
    let mark = line.iter().find(|b| matches!(**b, b':' | b'='));
    match mark {
        Some(b'=') => Some(Format::Toml),
        Some(_) => Some(Format::Yaml),
        None if line.starts_with(b"---") || line.starts_with(b"%YAML") => Some(Format::Yaml),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_extension_then_by_text() {
        let table: &[(&str, &str, Format)] = &[
            ("a/b.STG", "", Format::Stg),
            ("a.gv.gz", "", Format::Dot),
            ("a.yml", "[", Format::Yaml),
            ("a.toml", "", Format::Toml),
            ("a.json", r#"{"a": {"tasks": 1}, "x": "workflow", "schemaVersion" : "1.4"}"#, Format::WfFormat),
            ("a.json", r#"{"name": "\"workflow", "tasks": [{"workflow": 1}], "workflow": 1}"#, Format::Json),
            ("a.json", r#"{"cut "#, Format::Json),
            ("-", "\u{feff} \n{\"workflow\": 1}", Format::WfFormat),
            ("-", "<?xml version='1.0'?>", Format::Dax),
            ("-", "# c\n\n  Strict digraph {}", Format::Dot),
            ("-", "/* c */ digraph {}", Format::Dot),
            ("-", "  50\n 0 0 0", Format::Stg),
            ("-", "# a: b\nname = 'a:b'", Format::Toml),
            ("-", "[[tasks]]", Format::Toml),
            ("-", "name: a=b", Format::Yaml),
            ("-", "--- \nname: a", Format::Yaml),
        ];
        for (path, text, format) in table {
            assert_eq!(Format::detect(path, text.as_bytes()).unwrap(), *format, "{path} {text}");
        }
        for text in ["", "hello", "# only a comment"] {
            let error = Format::detect("x.bin", text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("x.bin: neither") && error.contains(".stg"), "{error}");
        }
    }

    #[test]
    fn json_is_written_as_wfformat_unless_named_otherwise() {
        assert_eq!(Format::for_writing("a.json.gz").unwrap(), Format::WfFormat);
        assert_eq!(Format::for_writing("a.mdts.json").unwrap(), Format::Json);
        assert!(Format::for_writing("a.txt").is_err());
    }
}
