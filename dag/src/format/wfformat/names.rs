//! Texts of which equal ones are kept once.

use std::sync::Arc;

use crate::graph::NameIndex;

/// A text in [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Name(u32);

impl Name {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl From<u32> for Name {
    fn from(index: u32) -> Self {
        Self(index)
    }
}

/// The names of tasks, those that only refer to one too.
#[derive(Default)]
pub(super) struct Names {
    index: NameIndex,
    texts: Vec<Arc<str>>,
}

impl Names {
    /// O(length of the text). There are fewer than 2^32 names: each takes a byte of the file, which is smaller.
    pub(super) fn of(&mut self, text: &str) -> Name {
        let (new, texts) = (self.texts.len() as u32, &self.texts);
        self.index.find_or_insert(text, new, |name: Name| &texts[name.index()]).unwrap_or_else(|| {
            self.texts.push(text.into());
            Name(new)
        })
    }

    /// The same, at once if the text is that of the name `guess`.
    pub(super) fn like(&mut self, text: &str, guess: Option<Name>) -> Name {
        guess.filter(|guess| **self.text(*guess) == *text).unwrap_or_else(|| self.of(text))
    }

    pub(super) fn text(&self, name: Name) -> &Arc<str> {
        &self.texts[name.index()]
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }
}
