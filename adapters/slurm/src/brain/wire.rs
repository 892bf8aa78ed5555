//! Requests and verdicts as lines: `key=value`, ended by an empty line. Lua reads and writes it without a library.
//!
//! In values, `%`, line ends and other control characters stand as `%XX`. Unknown keys are passed over, so that either side may be
//! newer than the other.

use std::fmt::Write as _;

use super::{Decision, Memory, Request, Verdict};
use crate::escape::{escape, unescape};
use crate::spell;

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A line is no `key=value`.
    #[error("line {0} is no key=value")]
    NoPair(usize),
    /// A value is none for its key.
    #[error("{key}: {value:?} is not {expected}")]
    Value {
        /// The key.
        key: String,
        /// What was found, shortened.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
}

impl Request {
    /// Reads a request from its lines, without the empty one.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn from_wire(text: &str) -> Result<Self, WireError> {
        let mut request = Self::default();
        for (at, line) in text.lines().enumerate() {
            let (key, value) = line.split_once('=').ok_or(WireError::NoPair(at + 1))?;
            request.set(key, &unescape(value))?;
        }
        Ok(request)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), WireError> {
        let wrong = |expected| WireError::Value {
            key: key.to_owned(),
            value: value.chars().take(60).collect(),
            expected,
        };
        let number = || value.parse::<u64>().map_err(|_| wrong("a number"));
        let text = || Some(value.to_owned());
        let yes = value == "1";
        match key {
            "name" => self.name = text(),
            "user" => self.user = Some(value.parse().map_err(|_| wrong("the number of a user"))?),
            "comment" => self.comment = text(),
            "dependency" => self.dependency = text(),
            "partition" => self.partition = text(),
            "nodelist" => self.nodelist = text(),
            "exclude" => self.exclude = text(),
            "features" => self.features = text(),
            "prefer" => self.prefer = text(),
            "reservation" => self.reservation = text(),
            "nodes" => self.nodes = Some(spell::range(value).ok_or_else(|| wrong("a number or a range"))?),
            "tasks" => self.tasks = Some(number()?),
            "tasks_per_node" => self.tasks_per_node = Some(number()?),
            "cpus_per_task" => self.cpus_per_task = Some(number()?),
            "cpus" => self.cpus = Some(number()?),
            "cpus_per_node" => self.cpus_per_node = Some(number()?),
            "cpus_per_gpu" => self.cpus_per_gpu = Some(number()?),
            "memory" => self.memory = Memory::PerNode(number()?),
            "memory_per_cpu" => self.memory = Memory::PerCpu(number()?),
            "memory_per_gpu" => self.memory = Memory::PerGpu(number()?),
            // What only Slurm can read only Slurm can judge.
            "gres" => match spell::gres(value) {
                Some(gres) => self.gres = gres,
                None => self.opaque = true,
            },
            "gpus" => self.gpus = Some(number()?),
            "gpus_per_task" => self.gpus_per_task = Some(number()?),
            "minutes" => self.minutes = Some(number()?),
            "exclusive" => self.exclusive = yes,
            "array" => self.array = text(),
            "component" => self.component = yes,
            "waits" => self.waits = yes,
            "opaque" => self.opaque = yes,
            "has_priority" => self.has_priority = yes,
            _ => {}
        }
        Ok(())
    }

    /// Its lines, the empty one included.
    pub fn to_wire(&self) -> String {
        let mut lines = Lines::default();
        let texts = [
            ("name", &self.name),
            ("comment", &self.comment),
            ("dependency", &self.dependency),
            ("partition", &self.partition),
            ("nodelist", &self.nodelist),
            ("exclude", &self.exclude),
            ("features", &self.features),
            ("prefer", &self.prefer),
            ("reservation", &self.reservation),
            ("array", &self.array),
        ];
        for (key, text) in texts {
            lines.text(key, text.as_deref());
        }
        lines.text("nodes", self.nodes.map(|(least, most)| format!("{least}-{most}")).as_deref());
        let memory = match self.memory {
            Memory::Default => None,
            Memory::PerNode(memory) => Some(("memory", memory)),
            Memory::PerCpu(memory) => Some(("memory_per_cpu", memory)),
            Memory::PerGpu(memory) => Some(("memory_per_gpu", memory)),
        };
        let numbers = [
            ("user", self.user.map(u64::from)),
            ("tasks", self.tasks),
            ("tasks_per_node", self.tasks_per_node),
            ("cpus_per_task", self.cpus_per_task),
            ("cpus", self.cpus),
            ("cpus_per_node", self.cpus_per_node),
            ("cpus_per_gpu", self.cpus_per_gpu),
            ("gpus", self.gpus),
            ("gpus_per_task", self.gpus_per_task),
            ("minutes", self.minutes),
        ];
        let numbers = numbers.into_iter().chain(memory.map(|(key, memory)| (key, Some(memory))));
        for (key, number) in numbers {
            lines.text(key, number.map(|number| number.to_string()).as_deref());
        }
        lines.text("gres", Some(show_gres(self)).filter(|gres| !gres.is_empty()).as_deref());
        let flags = [
            ("exclusive", self.exclusive),
            ("component", self.component),
            ("waits", self.waits),
            ("opaque", self.opaque),
            ("has_priority", self.has_priority),
        ];
        for (key, flag) in flags {
            lines.text(key, flag.then_some("1"));
        }
        lines.end()
    }
}

/// `gpu:tesla:2,gpu:1,licence:1`: types first, and of each family what has no type.
fn show_gres(request: &Request) -> String {
    let gres = &request.gres;
    let typed = |family: &str| {
        let of = gres.iter().filter(|(name, _)| name.split_once(':').is_some_and(|(f, _)| f == family));
        of.map(|(_, count)| count).sum::<u64>()
    };
    let counts = gres.iter().map(|(name, count)| {
        (name, if name.contains(':') { *count } else { count.saturating_sub(typed(name)) })
    });
    counts
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name}:{count}"))
        .collect::<Vec<_>>()
        .join(",")
}

impl Verdict {
    /// Its lines, the empty one included.
    pub fn to_wire(&self) -> String {
        let mut lines = Lines::default();
        match self {
            Self::Hopeless(message) => lines.text("reject", Some(message)),
            Self::Go(decision) => {
                lines.text("nodelist", decision.nodelist.as_deref());
                lines.text("prefer", decision.prefer.as_deref());
                lines.text("partition", decision.partition.as_deref());
                lines.text("nice", decision.nice.map(|nice| nice.to_string()).as_deref());
                lines.text("note", Some(&decision.note).filter(|note| !note.is_empty()).map(String::as_str));
            }
        }
        lines.end()
    }

    /// Reads a verdict from its lines, without the empty one.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn from_wire(text: &str) -> Result<Self, WireError> {
        let mut decision = Decision::default();
        for (at, line) in text.lines().enumerate() {
            let (key, value) = line.split_once('=').ok_or(WireError::NoPair(at + 1))?;
            let value = unescape(value).into_owned();
            match key {
                "reject" => return Ok(Self::Hopeless(value)),
                "nodelist" => decision.nodelist = Some(value),
                "prefer" => decision.prefer = Some(value),
                "partition" => decision.partition = Some(value),
                "nice" => {
                    let nice = value.parse();
                    let wrong = |_| WireError::Value { key: key.to_owned(), value, expected: "a number" };
                    decision.nice = Some(nice.map_err(wrong)?);
                }
                "note" => decision.note = value,
                _ => {}
            }
        }
        Ok(Self::Go(decision))
    }
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            _ = writeln!(self.0, "{key}={}", escape(value));
        }
    }

    fn end(mut self) -> String {
        self.0.push('\n');
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_there_and_back() {
        let request = Request {
            name: Some("a=b\n%\u{7f}é".into()),
            user: Some(7),
            nodes: Some((1, 2)),
            tasks: Some(3),
            memory: Memory::PerCpu(100),
            gres: spell::gres("gpu:tesla:2,gpu:1,x:4").unwrap(),
            minutes: Some(5),
            array: Some("1-3".into()),
            has_priority: true,
            ..Request::default()
        };
        let wire = request.to_wire();
        assert!(wire.ends_with("\n\n") && !wire.trim_end().contains("\n\n"), "{wire}");
        assert_eq!(Request::from_wire(wire.trim_end_matches('\n')), Ok(request));
    }

    #[test]
    fn verdicts_go_there_and_back() {
        let go = Decision {
            nodelist: Some("a[1-2]".into()),
            nice: Some(3),
            note: "because".into(),
            ..Decision::default()
        };
        for verdict in
            [Verdict::Go(go), Verdict::Go(Decision::default()), Verdict::Hopeless("no\nway".into())]
        {
            assert_eq!(Verdict::from_wire(verdict.to_wire().trim_end_matches('\n')), Ok(verdict));
        }
    }

    #[test]
    fn broken_messages_are_told() {
        for text in ["x", "tasks=many", "user=-1", "nodes=3-1", "=\n\u{0}"] {
            let told = Request::from_wire(text);
            assert!(told.is_err() || text.starts_with('='), "{text:?} {told:?}");
        }
        assert!(Request::from_wire("later=1\n").is_ok());
        assert!(Request::from_wire("gres=gpu:x:y:z:!").unwrap().opaque);
    }
}
