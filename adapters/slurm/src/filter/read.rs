//! From a script, a command line and an environment to what the job asks for.

use super::Obstacle;
use super::getopt::{self, Given};
use super::options::{Name, TABLE};
use super::script::Script;
use super::words::split;
use crate::brain::{Memory, Request};
use crate::spell;

/// Where options come from besides the script; the command line comes first, then the environment.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// What stands behind `sbatch`.
    pub command_line: Vec<String>,
    /// `SBATCH_*` variables.
    pub variables: Vec<(String, String)>,
}

/// What the job asks for.
///
/// # Errors
/// [`Obstacle`] if the filter should leave the script alone.
pub fn read_request(script: &Script<'_>, sources: &Sources) -> Result<Request, Obstacle> {
    let line_zero: Vec<_> = sources.command_line.iter().map(|word| (0, word.clone())).collect();
    if sources.command_line.iter().any(|word| word == ":") {
        return Err(Obstacle::Heterogeneous { line: 0 });
    }
    let command_line =
        getopt::options(&line_zero, true).map_err(|(line, what)| Obstacle::Directive { line, what })?;
    let variables = from_environment(&sources.variables);
    let in_script = from_script(script)?;
    // The last one wins, so that those come last that win.
    let all: Vec<Given> = in_script.into_iter().chain(variables).chain(command_line).collect();
    if let Some(line) = script.foreign.filter(|_| !all.iter().any(|given| given.name == Name::IgnorePbs)) {
        return Err(Obstacle::Foreign { line });
    }
    if all.iter().any(|given| given.name == Name::Clusters) {
        return Err(Obstacle::Clusters);
    }
    Ok(request(&all))
}

fn from_environment(variables: &[(String, String)]) -> Vec<Given> {
    let found = variables.iter().filter_map(|(variable, value)| {
        let row = TABLE.iter().find(|row| row.variable == Some(variable))?;
        Some(Given { name: row.name, value: Some(value.clone()).filter(|v| !v.is_empty()), line: 0 })
    });
    found.collect()
}

fn from_script(script: &Script<'_>) -> Result<Vec<Given>, Obstacle> {
    let mut words = Vec::new();
    for directive in &script.directives {
        let line = directive.line;
        let found = split(directive.text).map_err(|what| Obstacle::Directive { line, what })?;
        if found.iter().any(|word| word == "hetjob" || word == "packjob") {
            return Err(Obstacle::Heterogeneous { line });
        }
        words.extend(found.into_iter().map(|word| (line, word)));
    }
    getopt::options(&words, false).map_err(|(line, what)| Obstacle::Directive { line, what })
}

/// What options ask for; a value that cannot be read makes the request opaque.
fn request(given: &[Given]) -> Request {
    let mut request = Request::default();
    for given in given {
        let value = given.value.as_deref();
        if set(&mut request, given.name, value).is_none() {
            request.opaque = true;
        }
    }
    request
}

/// None if the value cannot be read.
fn set(request: &mut Request, name: Name, value: Option<&str>) -> Option<()> {
    let text = || value.map(str::to_owned);
    let count = || value.and_then(|value| value.trim().parse::<u64>().ok());
    match name {
        Name::Array => request.array = text(),
        Name::Comment => request.comment = text(),
        Name::Constraint => request.features = text(),
        Name::CpusPerGpu => request.cpus_per_gpu = Some(count()?),
        Name::CpusPerTask => request.cpus_per_task = Some(count()?),
        Name::Dependency => request.dependency = text(),
        Name::Exclude => request.exclude = text(),
        Name::Exclusive => request.exclusive = true,
        Name::Gpus => request.gpus = Some(gpus(value?)?),
        Name::GpusPerNode => {
            let gpus = spell::gres(&format!("gpu:{}", value?))?;
            request.gres.extend(gpus);
        }
        Name::GpusPerTask => request.gpus_per_task = Some(gpus(value?)?),
        Name::Gres => request.gres = spell::gres(value?)?,
        Name::Begin => request.waits = true,
        Name::Hold => (request.waits, request.has_priority) = (true, true),
        Name::Nice | Name::Priority => request.has_priority = true,
        Name::JobName => request.name = text(),
        Name::Memory => request.memory = Memory::PerNode(spell::mebibytes(value?)?),
        Name::MemoryPerCpu => request.memory = Memory::PerCpu(spell::mebibytes(value?)?),
        Name::MemoryPerGpu => request.memory = Memory::PerGpu(spell::mebibytes(value?)?),
        Name::MinCpus => request.cpus_per_node = Some(count()?),
        Name::NodeFile | Name::NodeList => request.nodelist = text(),
        Name::Nodes => request.nodes = Some(spell::range(value?.trim())?),
        Name::Tasks => request.tasks = Some(count()?),
        Name::TasksPerNode => request.tasks_per_node = Some(count()?),
        Name::Partition => request.partition = text(),
        Name::Prefer => request.prefer = text(),
        Name::Reservation => request.reservation = text(),
        Name::Time => request.minutes = spell::minutes(value?.trim()),
        Name::Build | Name::Contiguous | Name::GpusPerSocket | Name::Switches => request.opaque = true,
        Name::Clusters | Name::IgnorePbs | Name::Other => {}
    }
    Some(())
}

/// `2`, or of a type: `tesla:2`, `tesla:2,volta:1`.
fn gpus(text: &str) -> Option<u64> {
    let counts = text.split(',').map(|part| {
        let count = part.rsplit_once(':').map_or(part, |(_, count)| count);
        count.trim().parse::<u64>().ok()
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str, command_line: &str, variables: &[(&str, &str)]) -> Result<Request, Obstacle> {
        let sources = Sources {
            command_line: command_line.split_whitespace().map(str::to_owned).collect(),
            variables: variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        };
        let text = format!("#!/bin/sh\n{script}\nhostname\n");
        read_request(&Script::scan(text.as_bytes()).unwrap(), &sources)
    }

    #[test]
    fn the_command_line_comes_before_the_environment_and_that_before_the_last_directive() {
        let of = |command_line: &str, variables: &[(&str, &str)]| {
            let script = "#SBATCH -p a -t 10\n#SBATCH --partition=b -c 2";
            read(script, command_line, variables).unwrap().partition.unwrap()
        };
        assert_eq!(of("", &[]), "b");
        assert_eq!(of("", &[("SBATCH_PARTITION", "c")]), "c");
        assert_eq!(of("-pd job.sh -p e", &[("SBATCH_PARTITION", "c")]), "d");
        assert_eq!(of("", &[("SBATCH_OTHER", "c"), ("PATH", "x")]), "b");
    }

    #[test]
    fn options_become_a_request() {
        let script = "#SBATCH -J x -n4 -c2 -N1-2 --mem-per-cpu=2G --gres=gpu:tesla:2 -t 1:00:00 -C fast\n#SBATCH -a1-3 --nice=5";
        let got = read(script, "", &[]).unwrap();
        let expected = Request {
            name: Some("x".into()),
            tasks: Some(4),
            cpus_per_task: Some(2),
            nodes: Some((1, 2)),
            memory: Memory::PerCpu(2048),
            gres: spell::gres("gpu:tesla:2").unwrap(),
            minutes: Some(60),
            features: Some("fast".into()),
            array: Some("1-3".into()),
            has_priority: true,
            ..Request::default()
        };
        assert_eq!(got, expected);
        assert_eq!(read("#SBATCH -G tesla:2,volta:1", "", &[]).unwrap().gpus, Some(3));
    }

    #[test]
    fn what_cannot_be_read_is_opaque() {
        for text in ["-n many", "--mem=lots", "-N x", "--gres=gpu:a:b:c:!", "-B 2:4", "--switches=1", "-c 3x"]
        {
            assert!(read(&format!("#SBATCH {text}"), "", &[]).unwrap().opaque, "{text}");
        }
    }

    #[test]
    fn what_is_not_the_filters_is_an_obstacle() {
        let is = |script: &str, expected: &str| {
            let told = read(script, "", &[]).unwrap_err().to_string();
            assert!(told.contains(expected), "{script}: {told}");
        };
        is("#SBATCH -c2\n#SBATCH hetjob\n#SBATCH -c3", "line 3");
        is("#SBATCH -c2\n#PBS -N x", "another batch system");
        is("#SBATCH -M other", "clusters");
        is("#SBATCH foo", "line 2: 'foo' is no option");
        is("#SBATCH -J \"a", "does not end");
        is("#SBATCH -c", "lacks its value");
        assert!(read("#SBATCH --ignore-pbs\n#PBS -N x", "", &[]).is_ok());
        assert!(read("", "-c2 a.sh : -c3 b.sh", &[]).is_err());
    }
}
