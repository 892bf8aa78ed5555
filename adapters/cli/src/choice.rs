//! Choices by word: the same words in flags, settings and reports.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use mdts_core::SlotModel;
use mdts_core::journal::Durability;
use mdts_dag::DataModel;

/// One of few words.
pub(crate) trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// All of them.
    const WORDS: &'static [(&'static str, Self)];

    /// The choice of this word.
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, choice)| *choice)
    }

    /// The word of this choice.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, choice)| *choice == self).map_or("", |(word, _)| word)
    }

    /// All words, for messages.
    fn all_words() -> String {
        Self::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ")
    }

    /// A parser for flags.
    fn parser() -> impl TypedValueParser<Value = Self> {
        PossibleValuesParser::new(Self::WORDS.iter().map(|(word, _)| *word))
            .try_map(|word| Self::of_word(&word).ok_or("not one of the words"))
    }
}

impl Choice for SlotModel {
    const WORDS: &'static [(&'static str, Self)] =
        &[("exclusive", Self::Exclusive), ("resources", Self::Resources)];
}

impl Choice for DataModel {
    const WORDS: &'static [(&'static str, Self)] = &[("edges", Self::Edges), ("files", Self::Files)];
}

impl Choice for Durability {
    const WORDS: &'static [(&'static str, Self)] = &[("process", Self::Process), ("power", Self::Power)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_choices_belong_together() {
        for (word, choice) in SlotModel::WORDS {
            assert_eq!((choice.word(), SlotModel::of_word(word)), (*word, Some(*choice)));
        }
        assert_eq!(DataModel::of_word("both"), None);
        assert_eq!(DataModel::all_words(), "edges or files");
    }
}
