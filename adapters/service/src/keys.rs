//! Idempotency keys: a request that is sent again with its key gets the answer of the first time, and has no second effect.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Most keys that are remembered, the latest of them.
const MOST: usize = 10_000;
/// Seconds for which a key is remembered.
const KEEP: f64 = 86_400.0;
/// Most bytes of answers that are remembered.
const MOST_BYTES: usize = 64 << 20;

/// A key, and what it was used for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    /// As the client sent it, behind the client's name.
    pub(crate) key: String,
    /// Of method, path and body.
    pub(crate) request: u64,
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    #[serde(with = "serde_bytes")]
    pub(crate) body: Vec<u8>,
}

/// What a key means now.
#[derive(Debug)]
pub(crate) enum Known<'a> {
    /// It was not used.
    New,
    /// It was used for the same request.
    Again(&'a Answered),
    /// It was used for another one.
    Other,
}

/// The keys of the last day.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    known: FxHashMap<String, (u64, Answered)>,
    order: VecDeque<(f64, String)>,
    bytes: usize,
}

impl Keys {
    pub(crate) fn look_up(&mut self, now: f64, key: &Key) -> Known<'_> {
        self.forget(now);
        match self.known.get(&key.key) {
            None => Known::New,
            Some((request, answer)) if *request == key.request => Known::Again(answer),
            Some(_) => Known::Other,
        }
    }

    pub(crate) fn add(&mut self, now: f64, key: Key, answer: Answered) {
        self.bytes += answer.body.len();
        self.order.push_back((now, key.key.clone()));
        self.known.insert(key.key, (key.request, answer));
        self.forget(now);
    }

    fn forget(&mut self, now: f64) {
        let is_old = |since: f64| now - since > KEEP;
        while self.order.len() > MOST
            || (self.bytes > MOST_BYTES && self.order.len() > 1)
            || self.order.front().is_some_and(|(since, _)| is_old(*since))
        {
            let Some((_, oldest)) = self.order.pop_front() else { break };
            if let Some((_, answer)) = self.known.remove(&oldest) {
                self.bytes -= answer.body.len();
            }
        }
    }

    /// All keys, the oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = (f64, Key, &Answered)> {
        self.order.iter().filter_map(|(since, key)| {
            let (request, answer) = self.known.get(key)?;
            Some((*since, Key { key: key.clone(), request: *request }, answer))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str, request: u64) -> Key {
        Key { key: key.to_owned(), request }
    }

    #[test]
    fn keys_are_known_for_a_day_and_for_one_request() {
        let mut keys = Keys::default();
        let answer = Answered { status: 201, body: b"{}".to_vec() };
        keys.add(0.0, key("a", 1), answer.clone());
        assert!(matches!(keys.look_up(KEEP, &key("a", 1)), Known::Again(known) if *known == answer));
        assert!(matches!(keys.look_up(0.0, &key("a", 2)), Known::Other));
        assert!(matches!(keys.look_up(0.0, &key("b", 1)), Known::New));
        assert!(matches!(keys.look_up(KEEP + 1.0, &key("a", 1)), Known::New));
        keys.add(KEEP + 1.0, key("b", 1), answer);
        assert_eq!(keys.bytes, 2);
    }

    #[test]
    fn answers_that_take_much_memory_are_forgotten() {
        let mut keys = Keys::default();
        for i in 0..100 {
            keys.add(0.0, key(&i.to_string(), 0), Answered { status: 200, body: vec![0; 1 << 20] });
        }
        assert!(keys.bytes <= MOST_BYTES && keys.all().count() == 64, "{}", keys.bytes);
    }
}
