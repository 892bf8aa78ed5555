//! The options of sbatch: names, whether they take a value, and the variable that gives the same.

/// What an option says, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// `--array`.
    Array,
    /// `--begin`.
    Begin,
    /// `--clusters`.
    Clusters,
    /// `--comment`.
    Comment,
    /// `--constraint`.
    Constraint,
    /// `--contiguous`.
    Contiguous,
    /// `--cpus-per-gpu`.
    CpusPerGpu,
    /// `--cpus-per-task`.
    CpusPerTask,
    /// `--dependency`.
    Dependency,
    /// `--exclude`.
    Exclude,
    /// `--exclusive`.
    Exclusive,
    /// `--gpus`.
    Gpus,
    /// `--gpus-per-node`.
    GpusPerNode,
    /// `--gpus-per-socket`.
    GpusPerSocket,
    /// `--gpus-per-task`.
    GpusPerTask,
    /// `--gres`.
    Gres,
    /// `--hold`.
    Hold,
    /// `--ignore-pbs`.
    IgnorePbs,
    /// `--job-name`.
    JobName,
    /// `--mem`.
    Memory,
    /// `--mem-per-cpu`.
    MemoryPerCpu,
    /// `--mem-per-gpu`.
    MemoryPerGpu,
    /// `--mincpus`.
    MinCpus,
    /// `--nice`.
    Nice,
    /// `--nodefile`.
    NodeFile,
    /// `--nodelist`.
    NodeList,
    /// `--nodes`.
    Nodes,
    /// `--ntasks-per-node`.
    TasksPerNode,
    /// `--ntasks`.
    Tasks,
    /// `--partition`.
    Partition,
    /// `--prefer`.
    Prefer,
    /// `--priority`.
    Priority,
    /// `--reservation`.
    Reservation,
    /// `--switches`.
    Switches,
    /// `--time`.
    Time,
    /// One that asks for nodes of a certain build: sockets, cores, threads.
    Build,
    /// Any other.
    Other,
}

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    None,
    Required,
    Optional,
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) long: &'static str,
    pub(super) short: Option<u8>,
    pub(super) value: Value,
    pub(super) name: Name,
    /// The variable that says the same, if it matters here.
    pub(super) variable: Option<&'static str>,
}

const fn row(long: &'static str, value: Value, name: Name) -> Row {
    Row { long, short: None, value, name, variable: None }
}

impl Row {
    const fn short(mut self, letter: u8) -> Self {
        self.short = Some(letter);
        self
    }

    const fn variable(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }
}

use Value::{None as Flag, Optional as Maybe, Required as Takes};

/// Those of 22.05, each tried, and behind them what later versions have added.
#[rustfmt::skip]
pub(super) static TABLE: &[Row] = &[
    row("array", Takes, Name::Array).short(b'a').variable("SBATCH_ARRAY_INX"),
    row("cluster", Takes, Name::Clusters),
    row("clusters", Takes, Name::Clusters).short(b'M').variable("SBATCH_CLUSTERS"),
    row("comment", Takes, Name::Comment),
    row("constraint", Takes, Name::Constraint).short(b'C').variable("SBATCH_CONSTRAINT"),
    row("contiguous", Flag, Name::Contiguous),
    row("cpus-per-gpu", Takes, Name::CpusPerGpu).variable("SBATCH_CPUS_PER_GPU"),
    row("cpus-per-task", Takes, Name::CpusPerTask).short(b'c'),
    row("dependency", Takes, Name::Dependency).short(b'd'),
    row("exclude", Takes, Name::Exclude).short(b'x'),
    row("exclusive", Maybe, Name::Exclusive).variable("SBATCH_EXCLUSIVE"),
    row("gpus", Takes, Name::Gpus).short(b'G').variable("SBATCH_GPUS"),
    row("gpus-per-node", Takes, Name::GpusPerNode).variable("SBATCH_GPUS_PER_NODE"),
    row("gpus-per-socket", Takes, Name::GpusPerSocket).variable("SBATCH_GPUS_PER_SOCKET"),
    row("gpus-per-task", Takes, Name::GpusPerTask).variable("SBATCH_GPUS_PER_TASK"),
    row("gres", Takes, Name::Gres).variable("SBATCH_GRES"),
    row("hold", Flag, Name::Hold).short(b'H'),
    row("ignore-pbs", Flag, Name::IgnorePbs).variable("SBATCH_IGNORE_PBS"),
    row("job-name", Takes, Name::JobName).short(b'J').variable("SBATCH_JOB_NAME"),
    row("mem", Takes, Name::Memory).variable("SBATCH_MEM_PER_NODE"),
    row("mem-per-cpu", Takes, Name::MemoryPerCpu).variable("SBATCH_MEM_PER_CPU"),
    row("mem-per-gpu", Takes, Name::MemoryPerGpu).variable("SBATCH_MEM_PER_GPU"),
    row("mincpus", Takes, Name::MinCpus),
    row("nice", Maybe, Name::Nice),
    row("nodefile", Takes, Name::NodeFile).short(b'F'),
    row("nodelist", Takes, Name::NodeList).short(b'w'),
    row("nodes", Takes, Name::Nodes).short(b'N'),
    row("ntasks", Takes, Name::Tasks).short(b'n'),
    row("ntasks-per-node", Takes, Name::TasksPerNode),
    row("tasks-per-node", Takes, Name::TasksPerNode),
    row("partition", Takes, Name::Partition).short(b'p').variable("SBATCH_PARTITION"),
    row("prefer", Takes, Name::Prefer),
    row("priority", Takes, Name::Priority),
    row("reservation", Takes, Name::Reservation).variable("SBATCH_RESERVATION"),
    row("switches", Takes, Name::Switches).variable("SBATCH_REQ_SWITCH"),
    row("time", Takes, Name::Time).short(b't').variable("SBATCH_TIMELIMIT"),
    row("cores-per-socket", Takes, Name::Build),
    row("extra-node-info", Takes, Name::Build).short(b'B'),
    row("ntasks-per-core", Takes, Name::Build),
    row("ntasks-per-gpu", Takes, Name::Build),
    row("ntasks-per-socket", Takes, Name::Build),
    row("ntasks-per-tres", Takes, Name::Build),
    row("sockets-per-node", Takes, Name::Build),
    row("threads-per-core", Takes, Name::Build).variable("SBATCH_THREADS_PER_CORE"),
    row("core-spec", Takes, Name::Build).short(b'S').variable("SBATCH_CORE_SPEC"),
    row("thread-spec", Takes, Name::Build).variable("SBATCH_THREAD_SPEC"),
    row("account", Takes, Name::Other).short(b'A'),
    row("acctg-freq", Takes, Name::Other),
    row("batch", Takes, Name::Other),
    row("bb", Takes, Name::Other),
    row("bbf", Takes, Name::Other),
    row("begin", Takes, Name::Begin).short(b'b'),
    row("chdir", Takes, Name::Other).short(b'D'),
    row("cluster-constraint", Takes, Name::Clusters),
    row("container", Takes, Name::Other),
    row("cpu-freq", Takes, Name::Other),
    row("deadline", Takes, Name::Other),
    row("delay-boot", Takes, Name::Other),
    row("distribution", Takes, Name::Other).short(b'm'),
    row("error", Takes, Name::Other).short(b'e'),
    row("export", Takes, Name::Other),
    row("export-file", Takes, Name::Other),
    row("get-user-env", Maybe, Name::Other),
    row("gid", Takes, Name::Other),
    row("gpu-bind", Takes, Name::Other),
    row("gpu-freq", Takes, Name::Other),
    row("gres-flags", Takes, Name::Other),
    row("help", Flag, Name::Other).short(b'h'),
    row("hint", Takes, Name::Other),
    row("input", Takes, Name::Other).short(b'i'),
    row("kill-on-invalid-dep", Takes, Name::Other),
    row("licenses", Takes, Name::Other).short(b'L'),
    row("mail-type", Takes, Name::Other),
    row("mail-user", Takes, Name::Other),
    row("mcs-label", Takes, Name::Other),
    row("mem-bind", Takes, Name::Other),
    row("network", Takes, Name::Other),
    row("no-kill", Maybe, Name::Other).short(b'k'),
    row("no-requeue", Flag, Name::Other),
    row("open-mode", Takes, Name::Other),
    row("output", Takes, Name::Other).short(b'o'),
    row("overcommit", Flag, Name::Build).short(b'O').variable("SBATCH_OVERCOMMIT"),
    row("oversubscribe", Flag, Name::Other).short(b's'),
    row("parsable", Flag, Name::Other),
    row("power", Takes, Name::Other),
    row("profile", Takes, Name::Other),
    row("propagate", Maybe, Name::Other),
    row("qos", Takes, Name::Other).short(b'q'),
    row("quiet", Flag, Name::Other).short(b'Q'),
    row("reboot", Flag, Name::Other),
    row("requeue", Flag, Name::Other),
    row("signal", Takes, Name::Other),
    row("spread-job", Flag, Name::Build).variable("SBATCH_SPREAD_JOB"),
    row("test-only", Flag, Name::Other),
    row("time-min", Takes, Name::Other),
    row("tmp", Takes, Name::Other),
    row("uid", Takes, Name::Other),
    row("usage", Flag, Name::Other),
    row("use-min-nodes", Flag, Name::Other),
    row("verbose", Flag, Name::Other).short(b'v'),
    row("version", Flag, Name::Other).short(b'V'),
    row("wait", Flag, Name::Other).short(b'W'),
    row("wait-all-nodes", Takes, Name::Other),
    row("wckey", Takes, Name::Other),
    row("wrap", Takes, Name::Other),
    // Later than 22.05.
    row("tres-bind", Takes, Name::Other),
    row("tres-per-task", Takes, Name::Build),
    row("resv-ports", Maybe, Name::Other),
    row("oom-kill-step", Maybe, Name::Other),
    row("segment", Takes, Name::Build),
    row("stepmgr", Flag, Name::Other),
];

/// The option of a long name; its beginning is enough where no other one begins so.
pub(super) fn long(text: &str) -> Result<&'static Row, String> {
    if let Some(row) = TABLE.iter().find(|row| row.long == text) {
        return Ok(row);
    }
    let mut begun = TABLE.iter().filter(|row| row.long.starts_with(text));
    match (begun.next(), begun.next()) {
        (Some(row), None) => Ok(row),
        (None, _) => Err(format!("--{text} is no option that the filter knows")),
        (Some(a), Some(b)) => Err(format!("--{text} may be --{} or --{}", a.long, b.long)),
    }
}

/// The option of a letter.
pub(super) fn short(letter: char) -> Result<&'static Row, String> {
    let of = |row: &&Row| row.short.is_some_and(|short| char::from(short) == letter);
    TABLE.iter().find(of).ok_or_else(|| format!("-{letter} is no option that the filter knows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (i, row) in TABLE.iter().enumerate() {
            for other in &TABLE[i + 1..] {
                assert_ne!(row.long, other.long);
                assert!(row.short.is_none() || row.short != other.short, "{}", row.long);
            }
        }
    }

    #[test]
    fn beginnings_are_enough_where_they_are_unique() {
        assert_eq!(long("cpus-per-t").unwrap().name, Name::CpusPerTask);
        assert_eq!(long("mem").unwrap().name, Name::Memory);
        assert!(long("mem-").unwrap_err().contains("may be"));
        assert!(long("foo").is_err() && short('Z').is_err());
        assert_eq!(short('w').unwrap().name, Name::NodeList);
    }
}
