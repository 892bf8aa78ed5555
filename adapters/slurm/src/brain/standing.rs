//! What place a job has in its workflow.

/// What the comment of a job says to mdts.
///
/// ```
/// use mdts_slurm::brain::Tag;
/// assert_eq!(Tag::read("mdts:graph=/home/a/flow.yaml:task=align"), Some(Tag::Graph { file: "/home/a/flow.yaml", task: "align" }));
/// assert_eq!(Tag::read("mdts:place"), Some(Tag::Place));
/// assert_eq!(Tag::read("mdts:1f3a:align"), Some(Tag::Run));
/// assert_eq!(Tag::read("my comment"), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag<'a> {
    /// Task `task` of the workflow in `file`.
    Graph {
        /// A workflow file, readable by the sidecar and owned by the user.
        file: &'a str,
        /// The task's name there.
        task: &'a str,
    },
    /// To be placed by the sidecar, also if it is held; then it is released.
    Place,
    /// A job of `mdts run --on slurm`, which has placed it.
    Run,
}

impl<'a> Tag<'a> {
    /// Reads a comment; the tag is a word of it.
    pub fn read(comment: &'a str) -> Option<Self> {
        let tag = comment.split_ascii_whitespace().find_map(|word| word.strip_prefix("mdts:"))?;
        if let Some(rest) = tag.strip_prefix("graph=") {
            let (file, task) = rest.rsplit_once(":task=")?;
            return (!file.is_empty() && !task.is_empty()).then_some(Self::Graph { file, task });
        }
        match tag {
            "place" => Some(Self::Place),
            _ => tag.contains(':').then_some(Self::Run),
        }
    }
}

/// Where a job stands in its workflow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Standing {
    /// Its upward rank and the largest one of all tasks that have not ended, in seconds.
    pub rank: Option<(f64, f64)>,
    /// How long it runs on a node of speed 1, in seconds; none: as its time limit says.
    pub seconds: Option<f64>,
}

impl Standing {
    /// How much the priority is lowered: not at all on the critical path, by `range` for a task that nothing waits for.
    pub fn nice(&self, range: u32) -> Option<u32> {
        let (rank, longest) =
            self.rank.filter(|(rank, longest)| *rank >= 0.0 && *longest > 0.0 && longest.is_finite())?;
        let share = (1.0 - rank / longest).clamp(0.0, 1.0);
        Some((share * f64::from(range)).round() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_falls_with_the_rank() {
        for (rank, expected) in [
            (Some((10.0, 10.0)), Some(0)),
            (Some((5.0, 10.0)), Some(50)),
            (Some((0.0, 10.0)), Some(100)),
            (Some((20.0, 10.0)), Some(0)),
            (Some((1.0, 0.0)), None),
            (Some((f64::NAN, 1.0)), None),
            (None, None),
        ] {
            assert_eq!(Standing { rank, seconds: None }.nice(100), expected, "{rank:?}");
        }
    }

    #[test]
    fn broken_tags_are_none() {
        for text in
            ["", "mdts", "mdts:", "mdts:x", "mdts:graph=f", "mdts:graph=:task=a", "mdts:graph=f:task="]
        {
            assert_eq!(Tag::read(text), None, "{text}");
        }
        assert_eq!(Tag::read("hello mdts:place"), Some(Tag::Place));
    }
}
