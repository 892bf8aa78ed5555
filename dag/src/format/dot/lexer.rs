//! The words of a DOT text.

use std::borrow::Cow;

use crate::format::{Format, place};
use crate::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    /// A name or a number, with whether it was in quotation marks.
    Id(Cow<'a, str>, bool),
    /// One of `{ } [ ] ; , = :`.
    Symbol(char),
    /// `->`
    Arrow,
    /// `--`
    Line,
    End,
}

impl Token<'_> {
    /// Whether this is the unquoted word `keyword`, in any case.
    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self, Self::Id(text, false) if text.eq_ignore_ascii_case(keyword))
    }

    /// The token as an error shows it.
    pub(super) fn show(&self) -> String {
        match self {
            Self::Id(text, _) => format!("'{text}'"),
            Self::Symbol(symbol) => format!("'{symbol}'"),
            Self::Arrow => "'->'".into(),
            Self::Line => "'--'".into(),
            Self::End => "the end of the text".into(),
        }
    }
}

/// Splits a text into tokens, always one ahead.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    next: Token<'a>,
    /// Where the next token begins.
    start: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self> {
        let mut lexer = Self { text, at: 0, next: Token::End, start: 0 };
        lexer.advance()?;
        Ok(lexer)
    }

    /// The next token, which stays.
    pub(super) fn peek(&self) -> &Token<'a> {
        &self.next
    }

    /// Takes the next token.
    pub(super) fn advance(&mut self) -> Result<Token<'a>> {
        let token = std::mem::replace(&mut self.next, Token::End);
        self.skip_blank()?;
        self.start = self.at;
        self.next = self.scan()?;
        Ok(token)
    }

    /// Takes the next token if it is this symbol.
    pub(super) fn accept(&mut self, symbol: char) -> Result<bool> {
        let found = *self.peek() == Token::Symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// An error at the next token.
    pub(super) fn expected(&self, what: &str) -> Error {
        self.error_at(self.start, format!("found {}; expected {what}", self.next.show()))
    }

    /// Where the next token begins, for [`Lexer::error_at`].
    pub(super) fn position(&self) -> usize {
        self.start
    }

    pub(super) fn error_at(&self, position: usize, message: impl std::fmt::Display) -> Error {
        place::error_at(Format::Dot, self.text, position, message)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blank(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = self.rest();
            if rest.starts_with("//") || rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                let Some(end) = comment.find("*/") else {
                    return Err(self.error_at(self.at, "the comment is not closed; expected '*/'"));
                };
                self.at += end + 4;
            } else {
                return Ok(());
            }
        }
    }

    fn scan(&mut self) -> Result<Token<'a>> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(Token::End);
        };
        let (token, length) = match first {
            '{' | '}' | '[' | ']' | ';' | ',' | '=' | ':' => (Token::Symbol(first), 1),
            '"' => return self.quoted(),
            '-' if rest.starts_with("->") => (Token::Arrow, 2),
            '-' if rest.starts_with("--") => (Token::Line, 2),
            '<' => return Err(self.error_at(self.at, "HTML-like names are not supported; use a quoted name")),
            _ => {
                let sign = usize::from(first == '-');
                let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.' || !c.is_ascii();
                let length = rest[sign..].find(|c| !is_name(c)).map_or(rest.len(), |n| n + sign);
                if length == sign {
                    return Err(self.error_at(
                        self.at,
                        format!("unexpected character '{first}'; quote names that hold it"),
                    ));
                }
                (Token::Id(Cow::Borrowed(&rest[..length]), false), length)
            }
        };
        self.at += length;
        Ok(token)
    }

    /// One or more quoted strings joined with `+`.
    fn quoted(&mut self) -> Result<Token<'a>> {
        let mut text = self.quoted_part()?;
        loop {
            let back = self.at;
            self.skip_blank()?;
            if !self.rest().starts_with('+') {
                self.at = back;
                return Ok(Token::Id(text, true));
            }
            self.at += 1;
            self.skip_blank()?;
            if !self.rest().starts_with('"') {
                return Err(self.error_at(self.at, "expected a quoted text after '+'"));
            }
            text.to_mut().push_str(&self.quoted_part()?);
        }
    }

    fn quoted_part(&mut self) -> Result<Cow<'a, str>> {
        let begin = self.at;
        self.at += 1;
        let mut text = Cow::Borrowed("");
        loop {
            let rest = self.rest();
            let Some(length) = rest.find(['"', '\\']) else {
                return Err(self.error_at(begin, "the quoted text is not closed; expected '\"'"));
            };
            let escaped = &rest.as_bytes()[length..];
            // What ends the piece: how long it is in the text and what it stands for.
            let (skip, keep) = match escaped {
                [b'"', ..] => (1, 0),
                [b'\\', b'"' | b'\\', ..] => (1, 1),
                [b'\\', b'\n', ..] => (2, 0),
                _ => (0, 1),
            };
            let piece = &rest[..length];
            if text.is_empty() {
                text = Cow::Borrowed(piece);
            } else {
                text.to_mut().push_str(piece);
            }
            let kept = length + skip;
            if keep == 1 {
                text.to_mut().push_str(&rest[kept..=kept]);
            }
            self.at += kept + keep;
            if escaped[0] == b'"' {
                return Ok(text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Result<Vec<Token<'_>>> {
        let mut lexer = Lexer::new(text)?;
        let mut tokens = Vec::new();
        while *lexer.peek() != Token::End {
            tokens.push(lexer.advance()?);
        }
        Ok(tokens)
    }

    #[test]
    fn names_are_unquoted() {
        let table = [
            ("a_1.b", "a_1.b"),
            ("-1.5", "-1.5"),
            ("ä", "ä"),
            (r#""a b""#, "a b"),
            (r#""a\"b\\c\nd""#, r#"a"b\c\nd"#),
            ("\"a\\\nb\"", "ab"),
            ("\"a\nb\"", "a\nb"),
            (r#""" + "a" /* c */ + "b""#, "ab"),
            (r#""\\""#, r"\"),
        ];
        for (text, name) in table {
            let found = tokens(text).unwrap();
            assert!(matches!(&found[..], [Token::Id(text, _)] if text == name), "{text}: {found:?}");
        }
    }

    #[test]
    fn comments_are_skipped() {
        let found = tokens("# one\na -> /* two\n */ b // three\n-- }").unwrap();
        assert_eq!(found.len(), 5);
        assert_eq!((&found[1], &found[3]), (&Token::Arrow, &Token::Line));
    }

    #[test]
    fn unclosed_texts_are_errors() {
        for text in ["\"a", "\"a\\\"", "\"a\\", "a /* b", "<b>", "\"a\" + b", "a ! b"] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
