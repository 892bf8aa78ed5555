//! What a stranger's text may stand for: a few bytes can make a task of hundreds in memory, so they are counted beforehand.
//!
//! One object, which may be a task, is allowed per 64 bytes of the limit of the text, and one item of a list per 12. Braces and commas in
//! names and commands count, too. O(bytes), without a look at what they mean.

use crate::format::Format;
use crate::{Error, Result};

/// Bytes of the limit for each object, each item of a list and each byte of TOML, which is held in pieces while it is read.
const PER_OBJECT: u64 = 64;
const PER_ITEM: u64 = 12;
const PER_TOML_BYTE: u64 = 8;

/// Refuses what may take too much memory; nothing of other formats.
pub(in crate::format) fn check(text: &str, format: Format, limit: u64) -> Result<()> {
    let count = |wanted: u8| text.bytes().filter(|byte| *byte == wanted).count() as u64;
    let within = |found: u64, most: u64, what| {
        if found <= most { Ok(()) } else { Err(Error::TooLarge { what, limit: most }) }
    };
    let (objects, items) = match format {
        Format::Json => (count(b'{'), count(b',')),
        Format::Yaml => (count(b'{') + dashes(text), count(b',') + count(b'\n')),
        Format::Toml => {
            return within(text.len() as u64, limit / PER_TOML_BYTE, "bytes of TOML; write JSON or YAML");
        }
        _ => return Ok(()),
    };
    within(objects, limit / PER_OBJECT, "objects")?;
    within(items, limit / PER_ITEM, "items")
}

/// Lines that begin an item of a list.
fn dashes(text: &str) -> u64 {
    text.lines().filter(|line| line.trim_start().starts_with('-')).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_much_is_refused() {
        let limit = 96 * 1000;
        let check = |text: &str, format| check(text, format, limit).map_err(|error| error.to_string());
        assert_eq!(check(&"{},".repeat(1500), Format::Json), Ok(()));
        for (text, format, what) in [
            ("{},".repeat(1501), Format::Json, "1500 objects"),
            (",".repeat(8001), Format::Json, "8000 items"),
            ("  - \n".repeat(1501), Format::Yaml, "1500 objects"),
            ("\n".repeat(8001), Format::Yaml, "8000 items"),
            ("[".repeat(12_001), Format::Toml, "12000 bytes of TOML"),
        ] {
            assert!(check(&text, format).is_err_and(|error| error.contains(what)), "{what}");
        }
        assert_eq!(check(&"{".repeat(90_000), Format::Dot), Ok(()));
    }
}
