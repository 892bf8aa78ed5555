//! The time of one node: what is taken, and the earliest moment at which a task fits.

use super::resources::fits;

/// What a node has promised to run, for planners.
#[derive(Debug, Clone)]
pub enum Timeline {
    /// One task at a time: only the free gaps are kept.
    Exclusive(Gaps),
    /// Several tasks side by side: free capacity as a step function.
    Shared(Profile),
}

impl Timeline {
    /// An exclusive node, free from 0 on.
    pub fn exclusive() -> Self {
        Self::Exclusive(Gaps::default())
    }

    /// A node with this capacity, free from 0 on.
    pub fn shared(capacity: &[u64]) -> Self {
        Self::Shared(Profile::new(capacity))
    }

    /// The earliest start, not before `ready`, of a task that takes `duration` and occupies `demand`.
    #[inline]
    pub fn earliest(&self, ready: f64, duration: f64, demand: &[u64]) -> f64 {
        match self {
            Self::Exclusive(gaps) => gaps.earliest(ready, duration),
            Self::Shared(profile) => profile.earliest(ready, duration, demand),
        }
    }

    /// The earliest start behind everything that was reserved on an exclusive node; like
    /// [`Timeline::earliest`] on a shared one.
    #[inline]
    pub fn append(&self, ready: f64, duration: f64, demand: &[u64]) -> f64 {
        match self {
            Self::Exclusive(gaps) => gaps.tail.max(ready),
            Self::Shared(profile) => profile.earliest(ready, duration, demand),
        }
    }

    /// Takes the time from `start` to `finish`, as offered by [`Timeline::earliest`].
    pub fn reserve(&mut self, start: f64, finish: f64, demand: &[u64]) {
        match self {
            Self::Exclusive(gaps) => gaps.reserve(start, finish),
            Self::Shared(profile) => profile.reserve(start, finish, demand),
        }
    }

    /// From here on nothing is reserved.
    #[inline]
    pub fn end(&self) -> f64 {
        match self {
            Self::Exclusive(gaps) => gaps.tail,
            Self::Shared(profile) => *profile.times.last().unwrap_or(&0.0),
        }
    }
}

/// Free gaps of an exclusive node, ascending, and the open end.
///
/// A search looks only at gaps that end after the task is ready; the history is never walked.
#[derive(Debug, Clone, Default)]
pub struct Gaps {
    free: Vec<(f64, f64)>,
    /// No gap is longer than this.
    longest: f64,
    tail: f64,
}

impl Gaps {
    fn earliest(&self, ready: f64, duration: f64) -> f64 {
        if duration > self.longest || self.tail <= ready {
            return self.tail.max(ready);
        }
        let first = self.free.partition_point(|(_, end)| *end < ready + duration);
        for (start, end) in &self.free[first..] {
            let begin = start.max(ready);
            if begin + duration <= *end {
                return begin;
            }
        }
        self.tail.max(ready)
    }

    fn reserve(&mut self, start: f64, finish: f64) {
        if start >= self.tail {
            if start > self.tail {
                self.free.push((self.tail, start));
                self.longest = self.longest.max(start - self.tail);
            }
            self.tail = finish;
            return;
        }
        let at = self.free.partition_point(|(_, end)| *end < finish);
        let Some(&(from, to)) = self.free.get(at) else {
            self.tail = self.tail.max(finish); // started tasks may be reported to overlap
            return;
        };
        let (before, after) = ((from, start), (finish, to));
        match (before.1 > before.0, after.1 > after.0) {
            (true, true) => {
                self.free[at] = before;
                self.free.insert(at + 1, after);
            }
            (true, false) => self.free[at] = before,
            (false, true) => self.free[at] = after,
            (false, false) => drop(self.free.remove(at)),
        }
    }
}

/// Free capacity of a shared node as a step function of time.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Where the function changes, ascending; the first is 0.
    times: Vec<f64>,
    /// Free capacity from each of `times` on, one row of all dimensions per step.
    free: Vec<u64>,
    dimensions: usize,
}

impl Profile {
    fn new(capacity: &[u64]) -> Self {
        Self { times: vec![0.0], free: capacity.to_vec(), dimensions: capacity.len() }
    }

    fn free(&self, step: usize) -> &[u64] {
        &self.free[step * self.dimensions..(step + 1) * self.dimensions]
    }

    /// The step that holds `time`.
    fn step(&self, time: f64) -> usize {
        self.times.partition_point(|t| *t <= time).saturating_sub(1)
    }

    fn earliest(&self, ready: f64, duration: f64, demand: &[u64]) -> f64 {
        let mut start = ready;
        let mut step = self.step(ready);
        while step < self.times.len() {
            if !fits(demand, self.free(step)) {
                step += 1;
                start = self.times.get(step).copied().unwrap_or(start);
                continue;
            }
            // Does it fit until the end?
            let finish = start + duration;
            let mut look = step + 1;
            while look < self.times.len() && self.times[look] < finish {
                if !fits(demand, self.free(look)) {
                    break;
                }
                look += 1;
            }
            if look >= self.times.len() || self.times[look] >= finish {
                return start;
            }
            step = look;
            start = self.times[step];
        }
        start
    }

    fn reserve(&mut self, start: f64, finish: f64, demand: &[u64]) {
        if finish <= start {
            return;
        }
        let from = self.cut(start);
        let to = self.cut(finish);
        for step in from..to {
            let row = &mut self.free[step * self.dimensions..(step + 1) * self.dimensions];
            for (free, taken) in row.iter_mut().zip(demand) {
                *free = free.saturating_sub(*taken);
            }
        }
    }

    /// Makes `time` the beginning of a step and returns its index.
    fn cut(&mut self, time: f64) -> usize {
        let step = self.step(time);
        if self.times[step] == time {
            return step;
        }
        let d = self.dimensions;
        self.times.insert(step + 1, time);
        let row: Vec<u64> = self.free(step).to_vec();
        self.free.splice((step + 1) * d..(step + 1) * d, row);
        step + 1
    }
}
