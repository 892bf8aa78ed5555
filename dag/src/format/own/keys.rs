//! Keys of a map, with the nearest known key offered for an unknown one.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::text::nearest;

/// A fixed set of keys.
pub(super) trait KeySet {
    /// What holds the keys, as in "the keys of a task".
    const OWNER: &'static str;
    const KEYS: &'static [&'static str];
}

/// One of the keys of `S`.
pub(super) struct Key<S> {
    pub(super) name: &'static str,
    set: PhantomData<S>,
}

impl<'de, S: KeySet> Deserialize<'de> for Key<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor(PhantomData))
    }
}

struct KeyVisitor<S>(PhantomData<S>);

impl<S: KeySet> Visitor<'_> for KeyVisitor<S> {
    type Value = Key<S>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a key of a {}", S::OWNER)
    }

    fn visit_str<E: Error>(self, found: &str) -> Result<Key<S>, E> {
        if let Some(&name) = S::KEYS.iter().find(|key| **key == found) {
            return Ok(Key { name, set: PhantomData });
        }
        let keys = S::KEYS.join(", ");
        Err(E::custom(match nearest(found, S::KEYS.iter().copied()) {
            Some(key) => format!("unknown key '{found}' of a {}; did you mean '{key}'?", S::OWNER),
            None => format!("unknown key '{found}' of a {}; expected one of {keys}", S::OWNER),
        }))
    }
}
