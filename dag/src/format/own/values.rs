//! Values that may be written in more than one way.

use std::fmt;

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::{Failing, units};

/// Seconds: a number, or a text with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Seconds(pub(super) f64);

/// Bytes: a number, or a text with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Bytes(pub(super) f64);

/// Bytes of memory, exact to the byte.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Memory(pub(super) u64);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let what = "a number of seconds, or a text such as \"10m\"";
        deserializer.deserialize_any(Quantity { what, parse: units::parse_seconds }).map(|q| Self(q.value()))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BYTES).map(|q| Self(q.value()))
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(BYTES)? {
            Number::Whole(bytes) => Ok(Self(bytes)),
            Number::Other(bytes) if (0.0..=1e18).contains(&bytes) => Ok(Self(bytes as u64)),
            Number::Other(bytes) => {
                Err(D::Error::custom(format_args!("memory is {bytes}; expected 0 to 1e18 bytes")))
            }
        }
    }
}

enum Number {
    Whole(u64),
    Other(f64),
}

impl Number {
    fn value(self) -> f64 {
        match self {
            Self::Whole(value) => value as f64,
            Self::Other(value) => value,
        }
    }
}

struct Quantity {
    what: &'static str,
    parse: fn(&str) -> Result<f64, String>,
}

const BYTES: Quantity =
    Quantity { what: "a number of bytes, or a text such as \"100MB\"", parse: units::parse_bytes };

impl Visitor<'_> for Quantity {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number::Whole(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
        Ok(u64::try_from(value).map_or(Number::Other(value as f64), Number::Whole))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
        Ok(Number::Other(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
        (self.parse)(text).map(Number::Other).map_err(E::custom)
    }
}

/// A list of texts, or its only item.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Names(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let one = |name: &str| vec![name.to_owned()];
        deserializer.deserialize_any(TextOrList { what: "a list of names, or one name", one }).map(Self)
    }
}

/// Program and arguments, or a text for the shell.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Command(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let what = "a list of program and arguments, or a text for the shell";
        let one = |text: &str| ["sh", "-c", text].map(String::from).into();
        deserializer.deserialize_any(TextOrList { what, one }).map(Self)
    }
}

/// A text; numbers and truth values count as what they are written as.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Text(pub(super) String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Scalar("a text, a number or a truth value")).map(Self)
    }
}

/// Ways to fail: a list of exit statuses and words, or one of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Failures(pub(super) Vec<Failing>);

impl Serialize for Failures {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ToString::to_string))
    }
}

impl<'de> Deserialize<'de> for Failures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words =
            deserializer.deserialize_any(Words("a list of exit statuses and words, or one of them"))?;
        words.iter().map(|word| word.parse().map_err(D::Error::custom)).collect::<Result<_, _>>().map(Self)
    }
}

/// One value as text.
struct Scalar(&'static str);

impl Visitor<'_> for Scalar {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

/// One value or a list of them, as texts.
struct Words(&'static str);

impl<'de> Visitor<'de> for Words {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Vec<String>, E> {
        Ok(vec![value.to_string()])
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Vec<String>, E> {
        Ok(vec![value.to_string()])
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(vec![text.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut words = Vec::new();
        while let Some(Text(word)) = list.next_element()? {
            words.push(word);
        }
        Ok(words)
    }
}

struct TextOrList {
    what: &'static str,
    one: fn(&str) -> Vec<String>,
}

impl<'de> Visitor<'de> for TextOrList {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<String>, E> {
        Ok((self.one)(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(items)
    }
}
