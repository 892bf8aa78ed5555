//! All jobs by number. Those that are forgotten take no room to speak of.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use super::state::Job;

/// Jobs in the order of their numbers; numbers are never given twice.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Jobs {
    /// All before this number are forgotten.
    first: usize,
    list: VecDeque<Option<Box<Job>>>,
}

impl Jobs {
    /// Those before `first` are forgotten.
    pub(super) fn beginning_at(first: usize) -> Self {
        Self { first, list: VecDeque::new() }
    }

    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// Number of the next job.
    pub(super) fn len(&self) -> usize {
        self.first + self.list.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&Job> {
        self.list.get(at.checked_sub(self.first)?)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Job> {
        self.list.get_mut(at.checked_sub(self.first)?)?.as_deref_mut()
    }

    /// Adds a job, or the gap that one left.
    pub(super) fn push(&mut self, job: Option<Job>) {
        self.list.push_back(job.map(Box::new));
    }

    pub(super) fn forget(&mut self, at: usize) {
        let Some(at) = at.checked_sub(self.first) else { return };
        if let Some(job) = self.list.get_mut(at) {
            *job = None;
        }
        while let Some(None) = self.list.front() {
            self.list.pop_front();
            self.first += 1;
        }
    }

    /// Those from the first one on, with gaps.
    pub(super) fn slots(&self) -> impl Iterator<Item = Option<&Job>> {
        self.list.iter().map(|job| job.as_deref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.list.iter_mut().filter_map(|job| job.as_deref_mut())
    }
}

impl Index<usize> for Jobs {
    type Output = Job;

    fn index(&self, at: usize) -> &Job {
        self.list[at - self.first].as_deref().expect("nobody asks for a job that was forgotten")
    }
}

impl IndexMut<usize> for Jobs {
    fn index_mut(&mut self, at: usize) -> &mut Job {
        self.list[at - self.first].as_deref_mut().expect("nobody asks for a job that was forgotten")
    }
}
