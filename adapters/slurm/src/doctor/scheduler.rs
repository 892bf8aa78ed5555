//! Settings of the scheduler that make workflows slow, or surprise them. Values and their effects were measured with 22.05.

use std::collections::BTreeMap;

use super::{Finding, Level};

type Config = BTreeMap<String, String>;

/// All findings about the configuration.
pub(super) fn findings(config: &Config) -> Vec<Finding> {
    vec![
        pace(config),
        heterogeneous(config),
        invalid_dependencies(config),
        age(config),
        sizes(config),
        memory(config),
        limits(config),
        accounting(config),
    ]
}

fn text<'a>(config: &'a Config, key: &str) -> &'a str {
    config.get(key).map(String::as_str).unwrap_or_default()
}

/// A number at the beginning of a setting, as in `300 sec`.
fn number(config: &Config, key: &str) -> Option<u64> {
    text(config, key).split(' ').next()?.parse().ok()
}

/// A number among `SchedulerParameters`.
fn parameter(config: &Config, name: &str) -> Option<u64> {
    let all = text(config, "SchedulerParameters").split(',');
    all.filter_map(|one| one.trim().split_once('=')).find(|(known, _)| *known == name)?.1.parse().ok()
}

/// How long a job waits after the one that it depends on: 3 s by default, 0.45 s at best.
fn pace(config: &Config) -> Finding {
    const WANTED: [(&str, u64, u64); 3] =
        [("batch_sched_delay", 3, 0), ("sched_min_interval", 2, 0), ("sched_interval", 60, 1)];
    let slow: Vec<String> = WANTED
        .iter()
        .filter(|(name, default, wanted)| parameter(config, name).unwrap_or(*default) > *wanted)
        .map(|(name, _, wanted)| format!("{name}={wanted}"))
        .collect();
    if slow.is_empty() {
        return Finding::good("pace", "jobs that wait for others start in well under a second");
    }
    let found = "every job of a chain starts up to 3 seconds after the one before it";
    let level = if slow.iter().any(|s| s.starts_with("batch")) { Level::Warning } else { Level::Note };
    Finding::new(
        "pace",
        level,
        found,
        format!(
            "add to SchedulerParameters: {}; costs slurmctld little up to some thousand jobs a minute",
            slow.join(",")
        ),
    )
}

/// Jobs of several components start only when backfilling.
fn heterogeneous(config: &Config) -> Finding {
    let interval = parameter(config, "bf_interval").unwrap_or(30);
    if interval <= 5 {
        return Finding::good("backfill", format!("runs every {interval} s"));
    }
    let found = format!(
        "runs every {interval} s; jobs of several components, and small jobs that fit into gaps, wait for it"
    );
    Finding::new(
        "backfill",
        Level::Note,
        found,
        "add bf_interval=5 to SchedulerParameters where the queue is short",
    )
}

fn invalid_dependencies(config: &Config) -> Finding {
    if text(config, "DependencyParameters").contains("kill_invalid_depend") {
        return Finding::good("dependencies", "jobs whose dependency has failed are removed");
    }
    let found = "jobs whose dependency has failed stay in the queue for ever (DependencyNeverSatisfied); those of mdts run say otherwise for themselves";
    Finding::new("dependencies", Level::Note, found, "set DependencyParameters=kill_invalid_depend")
}

fn age(config: &Config) -> Finding {
    match number(config, "MinJobAge") {
        Some(age) if age < 60 => {
            let found = format!(
                "ended jobs are forgotten after {age} s; runs find out by result files and sacct, if at all"
            );
            Finding::new("memory-of-jobs", Level::Warning, found, "set MinJobAge=300")
        }
        age => {
            Finding::good("memory-of-jobs", format!("ended jobs are remembered for {} s", age.unwrap_or(300)))
        }
    }
}

fn sizes(config: &Config) -> Finding {
    let (array, jobs) =
        (number(config, "MaxArraySize").unwrap_or(1001), number(config, "MaxJobCount").unwrap_or(10_000));
    let found = format!("arrays of up to {} jobs, {jobs} jobs in the queue", array.saturating_sub(1));
    if array < 100 || jobs < 1000 {
        let remedy =
            "larger workflows need MaxArraySize=1001 and MaxJobCount=10000, or mdts run with few large jobs";
        return Finding::new("sizes", Level::Warning, found, remedy);
    }
    Finding::good("sizes", found)
}

fn memory(config: &Config) -> Finding {
    let is_limited = |key| number(config, key).is_some_and(|memory| memory > 0);
    if !text(config, "SelectTypeParameters").contains("MEMORY") {
        return Finding::new(
            "memory",
            Level::Note,
            "memory is not scheduled; jobs may take each other's",
            "set SelectTypeParameters=CR_Core_Memory",
        );
    }
    if is_limited("DefMemPerCPU") || is_limited("DefMemPerNode") {
        return Finding::good("memory", "jobs that state no memory get a share");
    }
    let found = "a job that states no memory takes all of its node, and no other job fits beside it";
    Finding::new("memory", Level::Warning, found, "set DefMemPerCPU, or a default in each partition")
}

fn limits(config: &Config) -> Finding {
    match text(config, "EnforcePartLimits") {
        "" | "NO" => {
            let found =
                "jobs that fit no partition are accepted and wait for ever; the submit filter refuses them";
            Finding::new(
                "limits",
                Level::Note,
                found,
                "set EnforcePartLimits=ANY to have Slurm refuse them, too",
            )
        }
        value => Finding::good("limits", format!("Slurm refuses jobs that fit no partition ({value})")),
    }
}

fn accounting(config: &Config) -> Finding {
    match text(config, "AccountingStorageType") {
        "" | "accounting_storage/none" | "(null)" => {
            let found = "there is no accounting: what becomes of jobs that Slurm has forgotten is known by their result files only";
            Finding::new(
                "accounting",
                Level::Note,
                found,
                "run slurmdbd where runs take days, or raise MinJobAge",
            )
        }
        kind => Finding::good("accounting", format!("sacct tells of jobs that Slurm has forgotten ({kind})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(subject: &str, settings: &[(&str, &str)]) -> Level {
        let config = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        findings(&config).into_iter().find(|finding| finding.subject == subject).unwrap().level
    }

    #[test]
    fn settings_are_judged() {
        use Level::{Good, Note, Warning};
        const FAST: &str = "batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1";
        let table = [
            ("pace", "SchedulerParameters", "(null)", Warning),
            ("pace", "SchedulerParameters", "batch_sched_delay=0", Note),
            ("pace", "SchedulerParameters", FAST, Good),
            ("backfill", "SchedulerParameters", "bf_interval=30", Note),
            ("backfill", "SchedulerParameters", FAST, Good),
            ("dependencies", "DependencyParameters", "kill_invalid_depend", Good),
            ("dependencies", "DependencyParameters", "(null)", Note),
            ("memory-of-jobs", "MinJobAge", "20 sec", Warning),
            ("memory-of-jobs", "MinJobAge", "300 sec", Good),
            ("sizes", "MaxJobCount", "500", Warning),
            ("sizes", "MaxArraySize", "1001", Good),
            ("memory", "SelectTypeParameters", "CR_CORE", Note),
            ("memory", "SelectTypeParameters", "CR_CORE_MEMORY", Warning),
            ("limits", "EnforcePartLimits", "ANY", Good),
            ("accounting", "AccountingStorageType", "accounting_storage/slurmdbd", Good),
        ];
        for (subject, key, value, expected) in table {
            assert_eq!(level(subject, &[(key, value)]), expected, "{key}={value}");
        }
        let memory = [("SelectTypeParameters", "CR_CORE_MEMORY"), ("DefMemPerCPU", "100")];
        assert_eq!(level("memory", &memory), Good);
    }

    #[test]
    fn what_is_not_good_has_a_remedy() {
        assert!(findings(&Config::new()).iter().all(|f| f.level == Level::Good || !f.remedy.is_empty()));
    }
}
