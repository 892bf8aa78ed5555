//! How much memory attempts use, from one look at all processes of the machine.
//!
//! An attempt's processes are those of its process group and all that descend from them. Their resident sets are added;
//! where that seems too much, each page that several of them share is counted once.

use std::fs;

use rustc_hash::{FxHashMap, FxHashSet};

/// A process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    group: i32,
    /// Resident memory in bytes.
    resident: u64,
}

/// All processes of the machine at one moment.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    by_number: FxHashMap<i32, Process>,
}

impl Processes {
    /// Looks at all that the system shows. O(processes).
    pub(crate) fn read() -> Self {
        let page = rustix::param::page_size() as u64;
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let process = |entry: fs::DirEntry| {
            let number: i32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((number, parse(&stat, page)?))
        };
        Self { by_number: entries.filter_map(process).collect() }
    }

    /// The processes of each of these groups, with all that descend from them; `adopted` tells the group of others. O(processes).
    pub(crate) fn members(
        &self,
        groups: &FxHashSet<i32>,
        adopted: &FxHashMap<i32, i32>,
    ) -> FxHashMap<i32, Vec<i32>> {
        let mut members: FxHashMap<i32, Vec<i32>> = FxHashMap::default();
        for number in self.by_number.keys() {
            if let Some(group) = self.group_of(*number, groups, adopted) {
                members.entry(group).or_default().push(*number);
            }
        }
        members
    }

    fn group_of(&self, number: i32, groups: &FxHashSet<i32>, adopted: &FxHashMap<i32, i32>) -> Option<i32> {
        /// Longer chains of parents are no longer followed.
        const LONGEST: usize = 1000;
        let mut at = number;
        for _ in 0..LONGEST {
            let process = self.by_number.get(&at)?;
            if groups.contains(&process.group) {
                return Some(process.group);
            }
            if let Some(group) = adopted.get(&at) {
                return Some(*group);
            }
            at = process.parent;
        }
        None
    }

    /// Bytes that these processes use, what several of them share counted for each.
    pub(crate) fn resident(&self, members: &[i32]) -> u64 {
        members.iter().map(|number| self.by_number.get(number).map_or(0, |process| process.resident)).sum()
    }

    /// Bytes that these processes use, if it is more than `limit`.
    pub(crate) fn excess(&self, members: &[i32], limit: u64) -> Option<u64> {
        let resident = |number: &i32| self.by_number.get(number).map_or(0, |process| process.resident);
        let used: u64 = members.iter().map(resident).sum();
        if used <= limit || members.len() < 2 {
            return Some(used).filter(|used| *used > limit);
        }
        let used: u64 = members.iter().map(|number| proportional(*number).unwrap_or(resident(number))).sum();
        Some(used).filter(|used| *used > limit)
    }
}

/// From `/proc/NUMBER/stat`: behind the name in brackets, the second and third field and the 22nd, in pages.
fn parse(stat: &str, page: u64) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let pages: u64 = fields.nth(18)?.parse().ok()?;
    Some(Process { parent, group, resident: pages * page })
}

/// Bytes of memory of a process, its share of what it shares with others.
fn proportional(number: i32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{number}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Bytes for people, in the unit that suits.
pub(crate) fn show(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_process_are_read() {
        let stat = "42 (a ) b) S 7 40 40 0 -1 4194560 105 0 0 0 0 0 0 0 20 0 1 0 12345 8192000 250 18446744073709551615 1";
        assert_eq!(parse(stat, 4096), Some(Process { parent: 7, group: 40, resident: 250 * 4096 }));
        assert_eq!(parse("42 (cut) S 7", 4096), None);
        let own = Processes::read();
        let own = own.by_number[&std::process::id().cast_signed()];
        assert!(own.resident > 100_000 && own.resident < 1 << 40, "{own:?}");
    }

    #[test]
    fn descendants_belong_to_the_attempt_even_in_groups_of_their_own() {
        let process = |parent, group, resident| Process { parent, group, resident };
        let table = [
            (1, process(0, 1, 10)),
            (5, process(1, 5, 20)),  // a leader
            (6, process(5, 5, 30)),  // of its group
            (7, process(6, 7, 40)),  // descends, in a group of its own
            (8, process(1, 8, 50)),  // adopted
            (9, process(1, 9, 60)),  // of nobody
            (10, process(1, 10, 5)), // another leader
        ];
        let processes = Processes { by_number: table.into_iter().collect() };
        let members = processes.members(&[5, 10].into_iter().collect(), &[(8, 5)].into_iter().collect());
        let mut of_five = members[&5].clone();
        of_five.sort_unstable();
        assert_eq!((of_five, &members[&10], members.len()), (vec![5, 6, 7, 8], &vec![10], 2));
        assert_eq!(processes.excess(&members[&10], 5), None);
        assert_eq!(processes.excess(&members[&10], 4), Some(5));
    }

    #[test]
    fn sizes_are_shown_in_the_unit_that_suits() {
        for (bytes, shown) in
            [(512, "0.5 KiB"), (1 << 20, "1.0 MiB"), (3 << 29, "1.5 GiB"), (u64::MAX, "16777216.0 TiB")]
        {
            assert_eq!(show(bytes), shown);
        }
    }
}
