//! States that branch and bound has searched, and whether one of them makes a new one needless.
//!
//! A state is a row of numbers that are good if they are small, and the nodes of tasks. Those of one set of placed tasks
//! lie one behind the other in memory, so that a look at many of them costs little.

use rustc_hash::FxHashMap;

/// Bytes for states in all, and states of one set of tasks; beyond, new ones take the place of old ones of their set.
const MOST_BYTES: usize = 64 << 20;
const MOST_PER_SET: usize = 1000;

/// What the future depends on, once a set of tasks is placed. Its last start comes first among the values.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) values: Vec<f64>,
    pub(super) tasks: Vec<Place>,
}

/// Where a placed task ran.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) node: u8,
    /// The finish, not before the last start.
    pub(super) finish: f64,
    /// Whether it makes a difference where the task ran even if it has ended at the last start.
    pub(super) stays: bool,
}

/// The states.
#[derive(Debug, Default)]
pub(super) struct Seen {
    sets: FxHashMap<u64, States>,
    bytes: usize,
}

/// Rows of numbers: the values, then the finish of every task.
#[derive(Debug, Default)]
struct States {
    rows: Vec<f64>,
    nodes: Vec<u8>,
    count: usize,
    /// The next to be replaced.
    next: usize,
}

impl Seen {
    /// Whether a state that was searched is as good in every respect; remembers this one otherwise. All states of a set
    /// have the same numbers of values and tasks.
    pub(super) fn dominates(&mut self, set: u64, state: &State) -> bool {
        let states = self.sets.entry(set).or_default();
        if states.dominate(state) {
            return true;
        }
        let bytes = size_of_val(&*state.values) + state.tasks.len() * (size_of::<f64>() + 1);
        if states.count < MOST_PER_SET && self.bytes + bytes <= MOST_BYTES {
            self.bytes += bytes;
            states.add(state);
        } else if states.count > 0 {
            states.replace(state);
        }
        false
    }
}

impl States {
    fn dominate(&self, state: &State) -> bool {
        let (values, tasks) = (state.values.len(), state.tasks.len());
        let last = state.values[0];
        (0..self.count).any(|i| {
            let row = &self.rows[i * (values + tasks)..(i + 1) * (values + tasks)];
            let (old, finish) = row.split_at(values);
            let nodes = &self.nodes[i * tasks..(i + 1) * tasks];
            let is_as_good = |((place, finish), node): ((&Place, &f64), &u8)| {
                *finish <= place.finish && (*node == place.node || !place.stays && *finish <= last)
            };
            old.iter().zip(&state.values).all(|(old, new)| old <= new)
                && state.tasks.iter().zip(finish).zip(nodes).all(is_as_good)
        })
    }

    fn add(&mut self, state: &State) {
        self.rows.extend(&state.values);
        self.rows.extend(state.tasks.iter().map(|place| place.finish));
        self.nodes.extend(state.tasks.iter().map(|place| place.node));
        self.count += 1;
    }

    fn replace(&mut self, state: &State) {
        let tasks = state.tasks.len();
        let row = self.next * (state.values.len() + tasks);
        let numbers = state.values.iter().copied().chain(state.tasks.iter().map(|place| place.finish));
        self.rows[row..].iter_mut().zip(numbers).for_each(|(old, new)| *old = new);
        let nodes = state.tasks.iter().map(|place| place.node);
        self.nodes[self.next * tasks..].iter_mut().zip(nodes).for_each(|(old, new)| *old = new);
        self.next = (self.next + 1) % self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(values: &[f64], tasks: &[(u8, f64, bool)]) -> State {
        let place =
            |(node, finish, stays): &(u8, f64, bool)| Place { node: *node, finish: *finish, stays: *stays };
        State { values: values.to_vec(), tasks: tasks.iter().map(place).collect() }
    }

    #[test]
    fn only_what_is_as_good_in_every_respect_dominates() {
        let mut seen = Seen::default();
        assert!(!seen.dominates(3, &state(&[2.0, 5.0], &[(0, 3.0, true), (1, 2.0, false)])));
        for (values, tasks, is_dominated) in [
            ([2.0, 5.0], [(0, 3.0, true), (1, 2.0, false)], true), // the same
            ([2.5, 6.0], [(0, 4.0, true), (1, 2.5, false)], true), // later
            ([2.0, 4.0], [(0, 3.0, true), (1, 2.0, false)], false), // shorter
            ([2.0, 5.0], [(1, 3.0, true), (1, 2.0, false)], false), // elsewhere
            ([2.5, 6.0], [(0, 4.0, true), (0, 2.5, false)], true), // elsewhere, where it makes no difference
            ([2.0, 5.0], [(0, 2.5, true), (1, 2.0, false)], false), // ends earlier
        ] {
            let mut seen = Seen::default();
            seen.dominates(3, &state(&[2.0, 5.0], &[(0, 3.0, true), (1, 2.0, false)]));
            assert!(!seen.dominates(2, &state(&values, &tasks)), "another set");
            assert_eq!(seen.dominates(3, &state(&values, &tasks)), is_dominated, "{values:?}, {tasks:?}");
        }
    }

    #[test]
    fn a_full_set_forgets_its_oldest_states() {
        let mut seen = Seen::default();
        // Each is better in one way and worse in the other than all before.
        let nth = |i: usize| state(&[i as f64, -(i as f64)], &[]);
        for i in 0..MOST_PER_SET + 2 {
            assert!(!seen.dominates(0, &nth(i)));
        }
        assert!(seen.dominates(0, &nth(MOST_PER_SET + 1)) && seen.dominates(0, &nth(2)));
        assert!(!seen.dominates(0, &nth(0)));
    }
}
