//! What the brain answers.

/// What to set; what is absent stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Nodes that it must have.
    pub nodelist: Option<String>,
    /// Features that its nodes should have.
    pub prefer: Option<String>,
    /// Partition.
    pub partition: Option<String>,
    /// How much its priority is lowered.
    pub nice: Option<u32>,
    /// Why, for people.
    pub note: String,
}

impl Decision {
    /// Nothing is set, for this reason.
    pub fn none(note: impl Into<String>) -> Self {
        Self { note: note.into(), ..Self::default() }
    }

    /// Whether nothing is set.
    pub fn is_none(&self) -> bool {
        self.nodelist.is_none() && self.prefer.is_none() && self.partition.is_none() && self.nice.is_none()
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on, with these changes.
    Go(Decision),
    /// It can never run; the message says why and what would help.
    Hopeless(String),
}
