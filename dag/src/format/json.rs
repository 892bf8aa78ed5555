//! A pull parser for JSON that arrives in pieces: the caller asks for the value it expects next, and nothing of the
//! text is kept beyond the token at hand.
//!
//! O(text) time; memory for one piece and the longest token. Everything is checked, what is skipped too: syntax,
//! UTF-8, depth and members given twice (of those that the caller knows).

use std::borrow::Cow;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use serde::de::{DeserializeOwned, IgnoredAny};

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
    piece: Box<[u8]>,
    /// Bytes at the beginning of `piece` that wait for the rest of their character.
    partial: usize,
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
            piece: vec![0; PIECE].into(),
            partial: 0,
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
        let mut seen = 0_u64;
        self.items([b'{', b'}'], "an object", |json| {
            if json.peek()? != Some(b'"') {
                return Err(json.error("expected a name in quotation marks"));
            }
            let name = json.string()?;
            let known = names.iter().position(|known| *known == name);
            if json.peek()? != Some(b':') {
                return Err(json.error("expected `:`"));
            }
            json.at += 1;
            let Some(known) = known else { return json.skip() };
            if seen & (1 << known) != 0 {
                return Err(json.error(format_args!("duplicate field `{}`", names[known])));
            }
            seen |= 1 << known;
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
    fn string(&mut self) -> Result<Cow<'_, str>> {
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

    /// Makes room and takes another piece; false at the end of the source.
    #[cold]
    fn fill(&mut self) -> Result<bool> {
        let done = self.token.unwrap_or(self.at);
        self.passed = self.passed(done);
        self.text.drain(..done);
        self.at -= done;
        self.token = self.token.map(|_| 0);
        loop {
            let read = match self.source.read(&mut self.piece[self.partial..]) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(unwrapped(error)),
            };
            let came = &self.piece[..self.partial + read];
            let (valid, bad) = match std::str::from_utf8(came) {
                Ok(text) => (text, false),
                Err(error) => {
                    let valid = std::str::from_utf8(&came[..error.valid_up_to()]).unwrap_or_default();
                    (valid, read == 0 || error.error_len().is_some())
                }
            };
            self.text.push_str(valid);
            if bad {
                let (bytes, lines, _) = self.passed(self.text.len());
                return Err(place::not_utf8(self.format, bytes, lines + 1));
            }
            let used = valid.len();
            self.partial = came.len() - used;
            self.piece.copy_within(used..used + self.partial, 0);
            if read == 0 || used > 0 {
                return Ok(used > 0);
            }
        }
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

/// The error that a source hid, or its own.
fn unwrapped(error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(hidden) => hidden,
        Err(source) => Error::Io { path: PathBuf::new(), source },
    }
}

/// Counted by bytes in short runs, which the compiler turns into wide instructions.
fn line_ends(text: &[u8]) -> usize {
    let in_run = |run: &[u8]| usize::from(run.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>());
    text.chunks(192).map(in_run).sum()
}

/// How many blanks the text begins with. Most are indentation: eight at a time.
#[inline]
fn blanks(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        match text.get(at) {
            Some(b' ') => {
                while let Some(eight) = text[at..].first_chunk() {
                    let others = u64::from_le_bytes(*eight) ^ u64::from_le_bytes([b' '; 8]);
                    at += others.trailing_zeros() as usize / 8;
                    if others != 0 {
                        break;
                    }
                }
                if text.len() - at < 8 {
                    at += text[at..].iter().take_while(|byte| **byte == b' ').count();
                }
            }
            Some(b'\n' | b'\r' | b'\t') => at += 1,
            _ => return at,
        }
    }
}

/// How many bytes of the text come before a quotation mark, a backslash or a control character; eight at a time.
#[inline]
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    // High bits stand where a byte is below n (at most 128): exact up to the first of them.
    let below = |word: u64, n: u8| word.wrapping_sub(ONES * u64::from(n)) & !word;
    let mut at = 0;
    while let Some(eight) = text[at..].first_chunk() {
        let word = u64::from_le_bytes(*eight);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let escape = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = (quote | escape | below(word, b' ')) & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
    text[at..].iter().position(special).map_or(text.len(), |rest| at + rest)
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
        /// What is skipped is judged as `serde_json` judges it.
        #[test]
        fn syntax_is_that_of_serde_json(text in r#"[\[\]{}:,"\\na1.e+\- ü]{0,12}"#, size in 1_usize..12) {
            let valid = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let skip = |json: &mut Json| -> Result<()> { json.skip() };
            prop_assert_eq!(in_drops(text.as_bytes(), size, skip).is_ok(), valid);
        }

        #[test]
        fn plain_text_is_measured(text in prop::collection::vec(any::<u8>(), 0..40)) {
            let special = text.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..b' '));
            prop_assert_eq!(plain(&text), special.unwrap_or(text.len()));
        }
    }
}
