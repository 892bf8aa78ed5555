//! Free capacity of `K` resources as a step function of time.

/// What is taken or free of `K` resources.
pub(super) type Amounts<const K: usize> = [i64; K];

/// Fills up the missing resources with zeros.
pub(super) fn amounts<const K: usize>(values: impl Iterator<Item = i64>) -> Amounts<K> {
    let mut all = [0; K];
    all.iter_mut().zip(values).for_each(|(to, from)| *to = from);
    all
}

/// Steps, ascending; from the last one on everything is free. Finding and taking a place are linear in the steps
/// between.
#[derive(Debug, Clone)]
pub(super) struct Profile<const K: usize> {
    times: Vec<f64>,
    free: Vec<Amounts<K>>,
}

impl<const K: usize> Profile<K> {
    pub(super) fn new(capacity: Amounts<K>) -> Self {
        Self { times: vec![0.0], free: vec![capacity] }
    }

    /// Everything is free again. Keeps its memory.
    pub(super) fn reset(&mut self, capacity: Amounts<K>) {
        self.times.clear();
        self.free.clear();
        self.times.push(0.0);
        self.free.push(capacity);
    }

    pub(super) fn copy_from(&mut self, other: &Self) {
        self.times.clone_from(&other.times);
        self.free.clone_from(&other.free);
    }

    /// The earliest start, not before `ready`. `duration` is not 0 and `demand` is not more than the capacity.
    pub(super) fn earliest(&self, ready: f64, duration: f64, demand: &Amounts<K>) -> f64 {
        self.find(ready, duration, demand).0
    }

    /// Takes the earliest place and gives its start.
    pub(super) fn take_earliest(&mut self, ready: f64, duration: f64, demand: &Amounts<K>) -> f64 {
        let (start, first, last) = self.find(ready, duration, demand);
        self.take(first, start, last, start + duration, demand);
        start
    }

    /// The earliest start, the step that holds it, and the first step not before its finish.
    #[inline]
    fn find(&self, ready: f64, duration: f64, demand: &Amounts<K>) -> (f64, usize, usize) {
        let mut first = self.times.partition_point(|t| *t <= ready).saturating_sub(1);
        let mut start = ready;
        let mut step = first;
        while step < self.times.len() {
            if step > first && self.times[step] >= start + duration {
                break;
            }
            let free = &self.free[step];
            if (0..K).any(|k| free[k] < demand[k]) && step + 1 < self.times.len() {
                start = self.times[step + 1];
                first = step + 1;
            }
            step += 1;
        }
        (start, first, step)
    }

    /// Takes a given time.
    pub(super) fn take_at(&mut self, start: f64, finish: f64, demand: &Amounts<K>) {
        let first = self.times.partition_point(|t| *t <= start).saturating_sub(1);
        let last = self.times.partition_point(|t| *t < finish);
        self.take(first, start, last, finish, demand);
    }

    /// `first` is the step that holds `start`, `last` the first one not before `finish`.
    fn take(&mut self, mut first: usize, start: f64, mut last: usize, finish: f64, demand: &Amounts<K>) {
        if last == self.times.len() || self.times[last] > finish {
            self.times.insert(last, finish);
            self.free.insert(last, self.free[last - 1]);
        }
        if self.times[first] < start {
            first += 1;
            last += 1;
            self.times.insert(first, start);
            self.free.insert(first, self.free[first - 1]);
        }
        for free in &mut self.free[first..last] {
            for k in 0..K {
                free[k] -= demand[k];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_found_and_filled() {
        let mut profile = Profile::<1>::new([2]);
        assert_eq!(profile.take_earliest(0.0, 4.0, &[1]), 0.0);
        assert_eq!(profile.take_earliest(2.0, 3.0, &[1]), 2.0);
        assert_eq!(profile.take_earliest(0.0, 3.0, &[1]), 4.0); // two run from 2 to 4
        assert_eq!(profile.take_earliest(0.0, 2.0, &[1]), 0.0);
        assert_eq!(profile.take_earliest(1.0, 1.0, &[2]), 7.0);
    }
}
