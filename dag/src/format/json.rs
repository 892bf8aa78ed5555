//! A pull parser for JSON that arrives in pieces: the caller asks for the value it expects next, and nothing of the
//! text is kept beyond the token at hand.
//!
//! O(text) time; memory for one piece and the longest token. Everything is checked, what is skipped too: syntax,
//! UTF-8, depth and members given twice (of those that the caller knows).

use std::borrow::Cow;
use std::io::{ErrorKind, Read};

use serde::de::{DeserializeOwned, IgnoredAny};

use super::scan::{blanks, plain};
use super::{Format, place};
use crate::{Error, Result};

/// Bytes taken from the source at once.
const PIECE: usize = 1 << 16;

/// Objects and lists within each other.
const DEPTH: usize = 128;

/// What remains of a JSON text.
pub(super) struct Json<'a> {
    source: &'a mut dyn Read,
    format: Format,
    /// What has come and is still needed.
    text: String,
    /// The next byte of `text`.
    at: usize,
    /// `text` is needed from here on, if from before `at`.
    token: Option<usize>,
    /// Bytes behind `text` that wait for the rest of their character.
    partial: Vec<u8>,
    /// Bytes and ends of lines in the text before `text`, and how many bytes of the current line.
    passed: (usize, usize, usize),
    depth: usize,
}

impl<'a> Json<'a> {
    /// A text of `format`, which errors name. A source may hide an [`Error`] in the one it gives.
    pub(super) fn new(source: &'a mut dyn Read, format: Format) -> Self {
        Self {
            source,
            format,
            text: String::with_capacity(2 * PIECE),
            at: 0,
            token: None,
            partial: Vec::new(),
            passed: (0, 0, 0),
            depth: 0,
        }
    }

    /// Calls `member` with every name among `names` that the object has; it must take the value. Other members
    /// are skipped.
    pub(super) fn object(
        &mut self,
        names: &[&'static str],
        mut member: impl FnMut(&mut Self, &'static str) -> Result<()>,
    ) -> Result<()> {
        let (mut seen, mut next) = (0_u64, 0);
        self.items([b'{', b'}'], "an object", |json| {
            if json.peek()? != Some(b'"') {
                return Err(json.error("expected a name in quotation marks"));
            }
            let name = json.string()?;
            // Most objects have their members in the order of `names`.
            let known = (next..names.len()).chain(0..next).find(|known| *names[*known] == *name);
            if json.peek()? != Some(b':') {
                return Err(json.error("expected `:`"));
            }
            json.at += 1;
            let Some(known) = known else { return json.skip() };
            if seen & (1 << known) != 0 {
                return Err(json.error(format_args!("duplicate field `{}`", names[known])));
            }
            seen |= 1 << known;
            next = known + 1;
            member(json, names[known])
        })
    }

    /// Calls `item` for every item of the list; it must take the value.
    pub(super) fn list(&mut self, item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.items([b'[', b']'], "a list", item)
    }

    fn items(
        &mut self,
        [open, close]: [u8; 2],
        expected: &str,
        mut item: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.expect(open, expected)?;
        self.at += 1;
        if self.depth == DEPTH {
            return Err(self.error("recursion limit exceeded"));
        }
        self.depth += 1;
        if self.peek()? != Some(close) {
            loop {
                item(self)?;
                match self.peek()? {
                    Some(b',') => self.at += 1,
                    Some(found) if found == close => break,
                    Some(_) => {
                        return Err(self.error(format_args!("expected `,` or `{}`", char::from(close))));
                    }
                    None => return Err(self.error(format_args!("the text ends inside {expected}"))),
                }
            }
        }
        self.at += 1;
        self.depth -= 1;
        Ok(())
    }

    /// A text, which lasts until the next call.
    pub(super) fn text(&mut self) -> Result<Cow<'_, str>> {
        self.expect(b'"', "a text")?;
        self.string()
    }

    /// A number.
    pub(super) fn number(&mut self) -> Result<f64> {
        match self.peek()? {
            Some(b'-' | b'0'..=b'9') => {}
            _ => return Err(self.unexpected("a number")),
        }
        if let Some((number, len)) = short_number(&self.text.as_bytes()[self.at..]) {
            self.at += len;
            return Ok(number);
        }
        self.parse_token(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
    }

    /// Takes a `null` if the next value is one.
    pub(super) fn null(&mut self) -> Result<bool> {
        if self.peek()? != Some(b'n') {
            return Ok(false);
        }
        self.word()?;
        Ok(true)
    }

    /// Skips a value.
    pub(super) fn skip(&mut self) -> Result<()> {
        match self.peek()? {
            Some(b'"') => self.string().map(drop),
            Some(b'{') => self.object(&[], |_, _| Ok(())),
            Some(b'[') => self.list(Self::skip),
            Some(b't' | b'f' | b'n') => self.word(),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            _ => Err(self.unexpected("a value")),
        }
    }

    /// A value of any kind that serde knows how to read.
    pub(super) fn parsed<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.peek()?;
        let begin = self.with_token(Self::skip)?;
        self.parse(begin)
    }

    /// Nothing but blanks must follow.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.peek()? {
            None => Ok(()),
            Some(_) => Err(self.error("trailing characters")),
        }
    }

    /// An error at the next byte.
    pub(super) fn error(&self, message: impl std::fmt::Display) -> Error {
        self.error_at(self.at, message)
    }

    /// The object that has just ended lacks a member.
    pub(super) fn missing(&self, name: &str) -> Error {
        self.error_at(self.at.saturating_sub(1), format_args!("missing field `{name}`"))
    }

    fn error_at(&self, at: usize, message: impl std::fmt::Display) -> Error {
        let (_, lines, column) = self.passed(at);
        place::error(self.format, format!("line {}, column {}", lines + 1, column + 1), message)
    }

    fn expect(&mut self, byte: u8, expected: &str) -> Result<()> {
        if self.peek()? == Some(byte) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = match self.text.as_bytes().get(self.at) {
            None => return self.error(format_args!("the text ends; expected {expected}")),
            Some(b'{') => "an object",
            Some(b'[') => "a list",
            Some(b'"') => "a text",
            Some(b't' | b'f') => "a truth value",
            Some(b'n') => "null",
            Some(b'-' | b'0'..=b'9') => "a number",
            Some(_) => return self.error(format_args!("expected {expected}")),
        };
        self.error(format_args!("invalid type: {found}, expected {expected}"))
    }

    /// The next byte that is not blank; `None` at the end.
    #[inline]
    fn peek(&mut self) -> Result<Option<u8>> {
        match self.text.as_bytes().get(self.at) {
            Some(byte) if *byte > b' ' => Ok(Some(*byte)),
            _ => self.peek_behind_blanks(),
        }
    }

    fn peek_behind_blanks(&mut self) -> Result<Option<u8>> {
        loop {
            self.at += blanks(&self.text.as_bytes()[self.at..]);
            if let Some(byte) = self.text.as_bytes().get(self.at) {
                return Ok(Some(*byte));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// `true`, `false` or `null`.
    fn word(&mut self) -> Result<()> {
        self.parse_token::<IgnoredAny>(|byte| byte.is_ascii_alphabetic()).map(drop)
    }

    /// A value whose bytes are all `in_token`.
    fn parse_token<T: DeserializeOwned>(&mut self, in_token: impl Fn(u8) -> bool) -> Result<T> {
        self.with_token(|json| {
            while json.text.as_bytes()[json.at..].iter().position(|byte| !in_token(*byte)).is_none() {
                json.at = json.text.len();
                if !json.fill()? {
                    return Ok(());
                }
            }
            let rest = &json.text.as_bytes()[json.at..];
            json.at += rest.iter().position(|byte| !in_token(*byte)).unwrap_or(rest.len());
            Ok(())
        })
        .and_then(|begin| self.parse(begin))
    }

    /// The string whose quotation mark is next.
    #[inline]
    fn string(&mut self) -> Result<Cow<'_, str>> {
        let begin = self.at + 1;
        let end = begin + plain(&self.text.as_bytes()[begin..]);
        if self.text.as_bytes().get(end) == Some(&b'"') {
            self.at = end + 1;
            return Ok(Cow::Borrowed(&self.text[begin..end]));
        }
        self.long_string()
    }

    /// A string with escapes, or one of which the end has not come yet.
    fn long_string(&mut self) -> Result<Cow<'_, str>> {
        let mut escapes = false;
        let begin = self.with_token(|json| {
            json.at += 1;
            loop {
                json.at += plain(&json.text.as_bytes()[json.at..]);
                match json.text.as_bytes().get(json.at) {
                    Some(b'"') => break,
                    Some(b'\\') => {
                        escapes = true;
                        json.at += 1;
                        if json.at == json.text.len() && !json.fill()? {
                            return Err(json.error("the text ends inside a text"));
                        }
                        let rest = &json.text[json.at..];
                        json.at += rest.chars().next().map_or(0, char::len_utf8);
                    }
                    Some(_) => {
                        return Err(json.error("control character in a text; expected it as an escape"));
                    }
                    None => {
                        if !json.fill()? {
                            return Err(json.error("the text ends inside a text"));
                        }
                    }
                }
            }
            json.at += 1;
            Ok(())
        })?;
        if escapes {
            return self.parse(begin).map(Cow::Owned);
        }
        Ok(Cow::Borrowed(&self.text[begin + 1..self.at - 1]))
    }

    fn parse<T: DeserializeOwned>(&self, begin: usize) -> Result<T> {
        serde_json::from_str(&self.text[begin..self.at]).map_err(|error| {
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            self.error_at(begin, message)
        })
    }

    /// Runs over a token that stays in `text`, and says where there it begins.
    #[inline]
    fn with_token(&mut self, take: impl FnOnce(&mut Self) -> Result<()>) -> Result<usize> {
        if let Some(outer) = self.token {
            let offset = self.at - outer;
            take(self)?;
            return Ok(self.token.unwrap_or(outer) + offset);
        }
        let begin = self.at;
        self.token = Some(begin);
        take(self)?;
        Ok(self.token.take().unwrap_or(begin))
    }

    /// Makes room and takes more text; false at the end of the source.
    #[cold]
    fn fill(&mut self) -> Result<bool> {
        let done = self.token.unwrap_or(self.at);
        self.passed = self.passed(done);
        self.text.drain(..done);
        self.at -= done;
        self.token = self.token.map(|_| 0);
        let known = self.text.len();
        while self.text.len() == known {
            if self.take_piece()? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds what the source gives next, as far as its characters are whole. Returns the number of bytes taken.
    fn take_piece(&mut self) -> Result<usize> {
        let mut bytes = std::mem::take(&mut self.text).into_bytes();
        // All of it will be looked at once more: as a token grows, so do the pieces.
        let piece = PIECE.max(bytes.len());
        bytes.append(&mut self.partial);
        let begin = bytes.len();
        bytes.resize(begin + piece, 0);
        let read = loop {
            match self.source.read(&mut bytes[begin..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        bytes.truncate(begin + read.as_ref().map_or(0, |read| *read));
        let ends = matches!(read, Ok(0));
        let mut bad = false;
        self.text = String::from_utf8(bytes).unwrap_or_else(|error| {
            let reason = error.utf8_error();
            bad = ends || reason.error_len().is_some();
            let mut bytes = error.into_bytes();
            self.partial = bytes.split_off(reason.valid_up_to());
            String::from_utf8(bytes).unwrap_or_default()
        });
        if bad {
            let (bytes, lines, _) = self.passed(self.text.len());
            return Err(place::not_utf8(self.format, bytes, lines + 1));
        }
        read.map_err(place::unhidden)
    }

    /// Bytes, ends of lines, and bytes of the last line in the whole text before position `at` of `text`.
    fn passed(&self, at: usize) -> (usize, usize, usize) {
        let (bytes, lines, column) = self.passed;
        let before = &self.text.as_bytes()[..at];
        let new_lines = line_ends(before);
        let last = before.iter().rposition(|byte| *byte == b'\n');
        (bytes + at, lines + new_lines, last.map_or(column + at, |end| at - end - 1))
    }
}

/// A number of at most 15 digits, without sign and exponent, that ends within the text; and its length. Its digits and
/// the power of ten are exact, so their quotient is rounded once, as it should be.
#[inline]
fn short_number(text: &[u8]) -> Option<(f64, usize)> {
    const POWERS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (mut digits, mut point) = (0, None);
    for (at, byte) in text.iter().enumerate().take(17) {
        match byte {
            b'0'..=b'9' => digits = digits * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(at),
            b'.' | b'+' | b'-' | b'e' | b'E' => return None,
            _ => {
                let whole = point.unwrap_or(at);
                let places = point.map_or(0, |point| at - point - 1);
                let is_number =
                    whole > 0 && (whole == 1 || text[0] != b'0') && (point.is_none() || places > 0);
                return (is_number && whole + places < POWERS.len())
                    .then(|| (digits as f64 / POWERS[places], at));
            }
        }
    }
    None
}

/// Counted by bytes in short runs, which the compiler turns into wide instructions.
fn line_ends(text: &[u8]) -> usize {
    let in_run = |run: &[u8]| usize::from(run.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>());
    text.chunks(192).map(in_run).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Gives a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn in_drops<T>(text: &[u8], size: usize, read: impl FnOnce(&mut Json) -> Result<T>) -> Result<T> {
        let mut source = Drops(text, size);
        let mut json = Json::new(&mut source, Format::WfFormat);
        let value = read(&mut json)?;
        json.end()?;
        Ok(value)
    }

    #[test]
    fn values_are_read_in_pieces_of_any_size() {
        let text = r#" {"a": ["ä\n", "plain text of some length\\"],
            "skipped": {"x": [1, -2.5e3, true, null, {}, []]}, "b": 1.25e1, "other": {"c": ["}"]}}  "#;
        for size in 1..text.len() {
            let (mut texts, mut number, mut other) = (Vec::new(), 0.0, serde_json::Value::Null);
            in_drops(text.as_bytes(), size, |json| {
                json.object(&["a", "b", "other"], |json, name| {
                    match name {
                        "a" => json.list(|json| {
                            texts.push(json.text()?.into_owned());
                            Ok(())
                        })?,
                        "b" => number = json.number()?,
                        _ => other = json.parsed()?,
                    }
                    Ok(())
                })
            })
            .unwrap();
            assert_eq!(texts, ["ä\n", "plain text of some length\\"]);
            assert_eq!((number, other), (12.5, serde_json::json!({"c": ["}"]})));
        }
    }

    #[test]
    fn a_text_longer_than_pieces_is_read() {
        let long = "ä".repeat(3 * PIECE);
        for size in [PIECE - 1, 5 * PIECE] {
            let text = in_drops(format!("\"{long}\"").as_bytes(), size, |json| Ok(json.text()?.into_owned()));
            assert!(text.unwrap() == long);
        }
    }

    #[test]
    fn errors_name_the_place_whatever_the_pieces() {
        let table: &[(&[u8], &str)] = &[
            (b"[1,\n  2 3]", "line 2, column 5: expected `,` or `]`"),
            (b"[\n\"a\x01\"]", "line 2, column 3: control character"),
            (b"[1", "line 1, column 3: the text ends inside a list"),
            (b"{\"a\": 1, \"a\": 2}", "line 1, column 14: duplicate field `a`"),
            (b"{\"a\" 1}", "line 1, column 6: expected `:`"),
            (b"[\"\\x\"]", "line 1, column 2: invalid escape"),
            (b"[01]", "line 1, column 2: invalid number"),
            (b"[nul]", "line 1, column 2: "),
            (b"[] []", "line 1, column 4: trailing characters"),
            (b"[\"ab\xff\"]", "byte 4 (line 1): not UTF-8"),
            (b"[\"ab\xc3", "byte 4 (line 1): not UTF-8"),
            (b"[1, ]", "line 1, column 5: expected a value"),
        ];
        for (text, expected) in table {
            for size in 1..=text.len() {
                let read = |json: &mut Json| match json.peek()? {
                    Some(b'{') => json.object(&["a"], |json, _| json.skip()),
                    _ => json.skip(),
                };
                let error = in_drops(text, size, read).unwrap_err().to_string();
                assert!(error.contains(expected), "{error}\n expected {expected}");
            }
        }
    }

    proptest! {
        /// Numbers are those of `serde_json`, to the last bit.
        #[test]
        fn numbers_are_rounded_as_they_should_be(number in r"[0-9]{1,18}(\.[0-9]{0,18})?(e-?[0-9]{1,3})?") {
            let expected = serde_json::from_str::<f64>(&number).ok();
            let text = format!("[{number}]");
            let mut found = None;
            let read = in_drops(text.as_bytes(), text.len(), |json| {
                json.list(|json| {
                    found = Some(json.number()?);
                    Ok(())
                })
            });
            prop_assert_eq!(read.is_ok(), expected.is_some());
            prop_assert_eq!(found, expected);
        }

        /// What is skipped is judged as `serde_json` judges it.
        #[test]
        fn syntax_is_that_of_serde_json(text in r#"[\[\]{}:,"\\na1.e+\- ü]{0,12}"#, size in 1_usize..12) {
            let valid = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let skip = |json: &mut Json| -> Result<()> { json.skip() };
            prop_assert_eq!(in_drops(text.as_bytes(), size, skip).is_ok(), valid);
        }
    }
}
