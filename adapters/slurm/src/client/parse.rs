//! Reads what Slurm's programs print.

use std::collections::BTreeMap;

use super::{JobRecord, JobState, NodeRecord, PartitionRecord};
use crate::{Error, Result};

/// Between the fields of a job: characters that names and comments do not have.
pub(super) const FIELD: &str = "\u{1f}";
/// After the last field of a job.
pub(super) const RECORD: &str = "\u{1e}";

/// What squeue is asked for, in the order in which [`job`] reads it.
pub(super) const FIELDS: [&str; 26] = [
    "JobArrayID",
    "Name",
    "UserName",
    "Partition",
    "State",
    "Reason",
    "Comment",
    "Command",
    "WorkDir",
    "NodeList",
    "ReqNodes",
    "Feature",
    "Dependency",
    "exit_code",
    "NumCPUs",
    "MinMemory",
    "tres-per-node",
    "TimeLimit",
    "PriorityLong",
    "Nice",
    "SubmitTime",
    "StartTime",
    "EndTime",
    "NumNodes",
    "admin_comment",
    "HetJobOffset",
];

/// Jobs as squeue prints them.
///
/// # Errors
/// [`Error::Strange`].
pub(super) fn jobs(text: &str) -> Result<Vec<JobRecord>> {
    let records = text.split(RECORD).map(|record| record.trim_start_matches('\n'));
    records.filter(|record| !record.is_empty()).map(job).collect()
}

fn job(record: &str) -> Result<JobRecord> {
    let strange =
        || Error::Strange { what: "squeue".to_owned(), message: format!("'{}'", record.replace(FIELD, "|")) };
    let fields: Vec<&str> = record.split(FIELD).collect();
    let fields: [&str; FIELDS.len() + 1] = fields.try_into().map_err(|_| strange())?;
    let [
        id,
        name,
        user,
        partition,
        state,
        reason,
        comment,
        command,
        directory,
        nodes,
        required,
        features,
        ..,
    ] = fields;
    let [
        ..,
        dependency,
        exit,
        cpus,
        memory,
        gres,
        limit,
        priority,
        nice,
        submitted,
        began,
        ended,
        nodes_needed,
        admin_comment,
        offset,
        _,
    ] = fields;
    let (memory_mib, is_memory_per_cpu) = memory_of(memory);
    let status: i32 = exit.parse().unwrap_or_default();
    Ok(JobRecord {
        id: id.parse().map_err(|_| strange())?,
        name: name.to_owned(),
        user: user.to_owned(),
        partition: partition.to_owned(),
        state: JobState::of(state),
        reason: some(reason),
        comment: some(comment),
        command: some(command),
        directory: some(directory),
        nodes: some(nodes),
        required_nodes: some(required),
        features: some(features),
        dependency: some(dependency),
        exit: (status >> 8 & 0xff, status & 0x7f),
        cpus: count(cpus) as u32,
        memory_mib,
        is_memory_per_cpu,
        gres: some(gres),
        limit_seconds: seconds(limit),
        priority: count(priority),
        nice: nice.parse().unwrap_or_default(),
        submitted: submitted.parse().ok(),
        began: began.parse().ok(),
        ended: ended.parse().ok(),
        node_count: nodes_needed.split('-').next().map_or(0, count) as u32,
        admin_comment: some(admin_comment),
        is_component: offset.parse::<u32>().is_ok(),
    })
}

/// Slurm's words for nothing are nothing.
fn some(text: &str) -> String {
    if matches!(text, "(null)" | "N/A" | "None" | "n/a") { String::new() } else { text.trim_end().to_owned() }
}

/// A number that may end with `K` for thousands.
fn count(text: &str) -> u64 {
    match text.strip_suffix('K') {
        Some(thousands) => thousands.parse::<f64>().map_or(0, |thousands| (thousands * 1000.0) as u64),
        None => text.parse().unwrap_or_default(),
    }
}

/// Mebibytes from `100M`, `2G`, `1.5T`, `4000Mc`; whether they are per processor.
fn memory_of(text: &str) -> (u64, bool) {
    let (text, is_per_cpu) = match text.strip_suffix('c') {
        Some(text) => (text, true),
        None => (text.strip_suffix('n').unwrap_or(text), false),
    };
    let (number, factor) = match text.char_indices().next_back() {
        Some((at, 'K')) => (&text[..at], 1.0 / 1024.0),
        Some((at, 'M')) => (&text[..at], 1.0),
        Some((at, 'G')) => (&text[..at], 1024.0),
        Some((at, 'T')) => (&text[..at], 1024.0 * 1024.0),
        Some((at, 'P')) => (&text[..at], 1024.0 * 1024.0 * 1024.0),
        _ => (text, 1.0),
    };
    (number.parse::<f64>().map_or(0, |number| (number * factor).ceil() as u64), is_per_cpu)
}

/// Seconds from `MM:SS`, `HH:MM:SS` or `D-HH:MM:SS`; none if there is no limit.
fn seconds(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, text),
    };
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let clock = parts.iter().fold(0, |sum, part| sum * 60 + part);
    (parts.len() > 1).then_some(days * 86_400 + clock)
}

/// Ends of jobs as sacct prints them; what is not understood is left out.
pub(super) fn history(text: &str) -> Vec<JobRecord> {
    let job = |line: &str| {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [id, state, exit, nodes] = fields[..] else { return None };
        let (status, signal) = exit.split_once(':')?;
        Some(JobRecord {
            state: JobState::of(state),
            exit: (status.parse().ok()?, signal.parse().ok()?),
            nodes: some(nodes),
            ..JobRecord::empty(id.parse().ok()?)
        })
    };
    text.lines().filter_map(job).collect()
}

/// The settings of a line `A=1 B=two words C=3`.
fn settings(line: &str) -> BTreeMap<&str, String> {
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    let mut last = None;
    for word in line.split_whitespace() {
        match word.split_once('=').filter(|(key, _)| is_key(key)) {
            // The first one counts: what follows may be somebody's words.
            Some((key, value)) if !found.contains_key(key) => {
                found.insert(key, value.to_owned());
                last = Some(key);
            }
            _ => {
                if let Some(value) = last.and_then(|key| found.get_mut(key)) {
                    value.push(' ');
                    value.push_str(word);
                }
            }
        }
    }
    found
}

fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == ':')
}

fn words(text: &str) -> Vec<String> {
    let text = some(text);
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Nodes as `scontrol -o show node` prints them.
///
/// # Errors
/// [`Error::Strange`] if a line is of no node.
pub(super) fn nodes(text: &str) -> Result<Vec<NodeRecord>> {
    let node = |line: &str| {
        let of = settings(line);
        let get = |key: &str| of.get(key).map(String::as_str).unwrap_or_default();
        let Some(name) = of.get("NodeName") else {
            return Err(Error::Strange {
                what: "scontrol show node".to_owned(),
                message: format!("'{line}'"),
            });
        };
        let cpus = if get("CPUEfctv").is_empty() { get("CPUTot") } else { get("CPUEfctv") };
        let reserved = count(get("MemSpecLimit"));
        Ok(NodeRecord {
            name: name.clone(),
            state: get("State").to_owned(),
            reason: some(get("Reason")),
            cpus: count(cpus) as u32,
            memory_mib: count(get("RealMemory")).saturating_sub(reserved),
            features: words(get("ActiveFeatures")),
            gres: gres(get("Gres")),
            partitions: words(get("Partitions")),
            weight: count(get("Weight")),
            cpus_held: count(get("CPUAlloc")) as u32,
        })
    };
    text.lines().filter(|line| line.contains('=')).map(node).collect()
}

/// The numbers in `0-3,7%2`, as Slurm writes the elements of an array.
pub(super) fn elements(text: &str) -> impl Iterator<Item = u32> {
    let ranges = text.split('%').next().unwrap_or_default().split(',');
    ranges
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
        })
        .flatten()
}

/// `gpu:fake:2(S:0-1),fpga:1` as name, type and number.
pub(super) fn gres(text: &str) -> Vec<(String, String, u64)> {
    let mut plain = String::new();
    let mut depth = 0_u32;
    for c in some(text).chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let one = |text: &str| {
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            [name, kind, number] => (name.to_owned(), kind.to_owned(), count(number)),
            [name, number] if number.starts_with(|c: char| c.is_ascii_digit()) => {
                (name.to_owned(), String::new(), count(number))
            }
            [name, kind] => (name.to_owned(), kind.to_owned(), 1),
            _ => (text.to_owned(), String::new(), 1),
        }
    };
    plain.split(',').filter(|text| !text.is_empty()).map(one).collect()
}

/// Partitions as `scontrol -o show partition` prints them.
///
/// # Errors
/// [`Error::Strange`] if a line is of no partition.
pub(super) fn partitions(text: &str) -> Result<Vec<PartitionRecord>> {
    let partition = |line: &str| {
        let of = settings(line);
        let get = |key: &str| of.get(key).map(String::as_str).unwrap_or_default();
        let Some(name) = of.get("PartitionName") else {
            return Err(Error::Strange {
                what: "scontrol show partition".to_owned(),
                message: format!("'{line}'"),
            });
        };
        Ok(PartitionRecord {
            name: name.clone(),
            is_default: get("Default") == "YES",
            is_up: get("State") == "UP",
            limit_seconds: seconds(get("MaxTime")),
            memory_per_cpu_mib: get("DefMemPerCPU").parse().ok(),
            memory_per_node_mib: get("DefMemPerNode").parse().ok(),
            default_seconds: seconds(get("DefaultTime")),
            most_nodes: get("MaxNodes").parse().ok(),
            is_open: get("AllowGroups") == "ALL" && get("AllowAccounts") == "ALL" && get("RootOnly") == "NO",
            is_exclusive: get("OverSubscribe") == "EXCLUSIVE",
        })
    };
    text.lines().filter(|line| line.contains('=')).map(partition).collect()
}

/// The configuration as `scontrol show config` prints it.
pub(super) fn config(text: &str) -> BTreeMap<String, String> {
    let settings = text.lines().filter_map(|line| line.split_once('='));
    settings.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::JobId;
    use super::*;

    #[test]
    fn a_job_is_read_whatever_its_name() -> Result<()> {
        let fields = [
            "12_3",
            "two\nlines | x",
            "root",
            "main",
            "FAILED",
            "NonZeroExitCode",
            "mdts:x",
            "(null)",
            "/tmp",
            "fast1",
            "",
            "(null)",
            "afterok:11(unfulfilled)",
            "768",
            "4",
            "2000Mc",
            "N/A",
            "1-00:06:00",
            "4294901759",
            "-5",
            "1796096689",
            "N/A",
            "N/A",
            "2-4",
            "(null)",
            "N/A",
        ];
        let line = fields.map(|field| format!("{field}{FIELD}")).concat() + RECORD + "\n";
        let found = jobs(&line.repeat(2))?;
        assert_eq!(found.len(), 2);
        let job = &found[1];
        assert_eq!(
            (job.id, job.name.as_str(), job.state),
            (JobId::element(12, 3), "two\nlines | x", JobState::Failed)
        );
        assert_eq!((job.exit, job.cpus, job.memory_mib, job.is_memory_per_cpu), ((3, 0), 4, 2000, true));
        assert_eq!((job.limit_seconds, job.nice, job.began), (Some(86_760), -5, None));
        assert_eq!((job.command.as_str(), job.dependency.as_str()), ("", "afterok:11(unfulfilled)"));
        assert_eq!((job.node_count, job.is_component), (2, false));
        assert!(jobs("nonsense").is_err());
        Ok(())
    }

    #[test]
    fn ends_are_read_from_accounts() {
        let text =
            "12_3|CANCELLED by 0|0:15|fast1\n13|FAILED|7:0|None assigned\n12_[4-5]|PENDING|0:0|\nnonsense\n";
        let found = history(text);
        let told: Vec<_> = found.iter().map(|job| (job.id.to_string(), job.state, job.exit)).collect();
        assert_eq!(
            told,
            [("12_3".to_owned(), JobState::Cancelled, (0, 15)), ("13".to_owned(), JobState::Failed, (7, 0))]
        );
    }

    #[test]
    fn times_and_sizes() {
        let times = [
            ("6:00", Some(360)),
            ("1:00:00", Some(3600)),
            ("2-00:00:01", Some(172_801)),
            ("UNLIMITED", None),
            ("5", None),
        ];
        for (text, expected) in times {
            assert_eq!(seconds(text), expected, "{text}");
        }
        let sizes = [
            ("100M", (100, false)),
            ("1.50G", (1536, false)),
            ("2Gc", (2048, true)),
            ("0", (0, false)),
            ("x", (0, false)),
        ];
        for (text, expected) in sizes {
            assert_eq!(memory_of(text), expected, "{text}");
        }
    }

    #[test]
    fn nodes_and_partitions() -> Result<()> {
        let text = "NodeName=a CPUEfctv=14 CPUTot=16 ActiveFeatures=x,speed_2.5 Gres=gpu:fake:2(S:0,1),fpga:1 \
                    OS=Linux 6 #1 SMP RealMemory=64000 MemSpecLimit=1000 State=IDLE+DRAIN Weight=10 Partitions=main,long \
                    Reason=disk = full State=UP [root@2026]\n";
        let found = nodes(text)?;
        let node = &found[0];
        assert_eq!((node.cpus, node.memory_mib, node.state.as_str()), (14, 63_000, "IDLE+DRAIN"));
        assert_eq!(node.gres, [("gpu".into(), "fake".into(), 2), ("fpga".into(), String::new(), 1)]);
        assert_eq!(node.reason, "disk = full State=UP [root@2026]");
        let text = "PartitionName=main Default=YES MaxTime=1-00:00:00 State=UP DefMemPerCPU=100 DefMemPerNode=UNLIMITED";
        let partition = &partitions(text)?[0];
        assert!(partition.is_default && partition.is_up);
        assert_eq!((partition.limit_seconds, partition.memory_per_cpu_mib), (Some(86_400), Some(100)));
        assert_eq!(partition.memory_per_node_mib, None);
        Ok(())
    }

    #[test]
    fn nodes_are_usable_or_not() -> Result<()> {
        let table = [
            ("IDLE", true),
            ("MIXED", true),
            ("ALLOCATED+COMPLETING", true),
            ("IDLE+DRAIN", false),
            ("DOWN*", false),
            ("IDLE*", false),
            ("IDLE+POWERED_DOWN", false),
            ("IDLE+CLOUD", true),
            ("DOWN+NOT_RESPONDING", false),
            ("IDLE+MAINTENANCE", false),
        ];
        for (state, usable) in table {
            let line = format!("NodeName=a State={state}");
            assert_eq!(nodes(&line)?[0].is_usable(), usable, "{state}");
        }
        Ok(())
    }
}
