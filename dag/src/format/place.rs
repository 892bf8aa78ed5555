//! Parse errors and where in a text they are.

use std::fmt::Display;

use super::Format;
use std::path::PathBuf;

use crate::Error;

/// An error of `format` at a place that is already in words.
pub(super) fn error(format: Format, place: impl Into<String>, message: impl Display) -> Error {
    Error::Parse { format: format.name(), place: place.into(), message: message.to_string() }
}

/// The text is not UTF-8 from a byte on. Lines count from 1.
pub(super) fn not_utf8(format: Format, byte: usize, line: usize) -> Error {
    let message = "not UTF-8 text; convert the file to UTF-8, for example with iconv";
    error(format, format!("byte {byte} (line {line})"), message)
}

/// An error of `format` at a byte offset of `text`.
pub(super) fn error_at(format: Format, text: &str, offset: usize, message: impl Display) -> Error {
    error(format, line_column(text, offset), message)
}

/// `line 3, column 5` of a byte offset; columns count characters from 1. O(offset).
pub(super) fn line_column(text: &str, offset: usize) -> String {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    let line = 1 + before.bytes().filter(|b| *b == b'\n').count();
    format!("line {line}, column {}", 1 + before[line_start..].chars().count())
}

/// What `serde_json` found, with its place taken out of the message.
pub(super) fn json(format: Format, error: &serde_json::Error) -> Error {
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
    self::error(format, format!("line {}, column {}", error.line(), error.column()), message)
}

/// The error of this crate that a reader hid in its own, or the reader's, without the name of a file.
pub(super) fn unhidden(error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(hidden) => hidden,
        Err(source) => Error::Io { path: PathBuf::new(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        for (offset, place) in [(0, "line 1, column 1"), (2, "line 2, column 1"), (4, "line 2, column 2")] {
            assert_eq!(line_column("a\nä b", offset), place);
        }
        assert_eq!(line_column("ä", 1), "line 1, column 1");
        assert_eq!(line_column("", 9), "line 1, column 1");
    }
}
