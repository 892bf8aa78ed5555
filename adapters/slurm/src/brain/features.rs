//! Which features a node must have: `a&b`, `a,b`, `a|b`.

/// A constraint that can be judged here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Features<'a> {
    /// All of them.
    All(Vec<&'a str>),
    /// One of them.
    Any(Vec<&'a str>),
}

impl<'a> Features<'a> {
    /// Reads a constraint. None if it counts, groups or mixes: only Slurm can judge that.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        if text.contains(['*', '[', ']', '(', ')', '!']) {
            return None;
        }
        let has_and = text.contains(['&', ',']);
        let names: Vec<&str> = text.split(['&', ',', '|']).map(str::trim).collect();
        if names.iter().any(|name| name.is_empty()) || has_and && text.contains('|') {
            return None;
        }
        Some(if has_and || names.len() == 1 { Self::All(names) } else { Self::Any(names) })
    }

    /// Whether a node with these features will do.
    pub(super) fn fit(&self, has: &[String]) -> bool {
        let has = |name: &&str| has.iter().any(|h| h == name);
        match self {
            Self::All(names) => names.iter().all(has),
            Self::Any(names) => names.iter().any(has),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints() {
        let has = ["fast".to_owned(), "avx512".to_owned()];
        let table = [
            ("fast", Some(true)),
            ("slow", Some(false)),
            ("fast&avx512", Some(true)),
            ("fast,slow", Some(false)),
            ("fast|slow", Some(true)),
            ("fast&avx512|slow", None),
            ("[fast|slow]", None),
            ("fast*2", None),
            ("fast&", None),
        ];
        for (text, expected) in table {
            assert_eq!(Features::read(text).map(|f| f.fit(&has)), expected, "{text}");
        }
    }
}
