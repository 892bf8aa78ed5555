//! Values in lines of `key=value`: `%`, line ends and other control characters stand as `%XX`. The plugin uses this file, too.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A value as it stands in a line.
///
/// ```
/// assert_eq!(mdts_slurm::escape::escape("a\n100%"), "a%0A100%25");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    let is_special = |c: char| c == '%' || c.is_ascii_control();
    if !text.contains(is_special) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_special(c) {
            _ = write!(escaped, "%{:02X}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    escaped.into()
}

/// The value of an escaped text; what is no escape stays as it is.
pub fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_escape_stays() {
        for text in ["100%", "%zz%4", "%%", ""] {
            assert_eq!(unescape(text), text);
            assert_eq!(unescape(&escape(text)), text);
        }
        assert_eq!(unescape(&escape("a\u{1}\u{7f}é\n%0A")), "a\u{1}\u{7f}é\n%0A");
    }
}
