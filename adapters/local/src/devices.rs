//! Which processors and GPUs attempts have, by index: disjoint as long as there are enough.
//!
//! O(devices) per attempt.

use std::ops::Range;

/// Thousandths of one device.
pub(crate) const WHOLE: u32 = 1000;

/// A demand in thousandths, rounded up.
pub(crate) fn thousandths(amount: f64) -> u32 {
    (amount * f64::from(WHOLE)).ceil() as u32 // saturates
}

/// Devices of one sort, and how much of each is free.
#[derive(Debug, Clone, Default)]
pub(crate) struct Devices {
    /// Thousandths; less than 0 where more was asked for than there is.
    free: Vec<i64>,
}

/// What one attempt has of each device that it was given.
pub(crate) type Held = Vec<(usize, u32)>;

impl Devices {
    pub(crate) fn new(count: usize) -> Self {
        Self { free: vec![WHOLE.into(); count] }
    }

    /// Gives so many thousandths of the devices in `range`: whole devices that nobody has where possible, and for a rest the
    /// device that it fills best. If there is not enough, what is least in use is shared.
    pub(crate) fn take(&mut self, range: Range<usize>, wanted: u32) -> Held {
        if self.free.len() < range.end {
            self.free.resize(range.end, WHOLE.into());
        }
        let mut held = Held::new();
        let pieces = std::iter::repeat_n(WHOLE, (wanted / WHOLE) as usize).chain([wanted % WHOLE]);
        for piece in pieces.filter(|piece| *piece > 0) {
            let others = range.clone().filter(|device| held.iter().all(|(taken, _)| taken != device));
            let best = others.min_by_key(|device| {
                let left = self.free[*device] - i64::from(piece);
                (left < 0, left.abs())
            });
            let Some(device) = best else { break };
            self.free[device] -= i64::from(piece);
            held.push((device, piece));
        }
        held.sort_unstable();
        held
    }

    /// Takes devices back.
    pub(crate) fn give_back(&mut self, held: &Held) {
        for (device, piece) in held {
            self.free[*device] += i64::from(*piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(held: &Held) -> Vec<usize> {
        held.iter().map(|(device, _)| *device).collect()
    }

    #[test]
    fn devices_are_disjoint_while_they_last() {
        let mut devices = Devices::new(4);
        let a = devices.take(0..4, 2000);
        let half = devices.take(0..4, 500);
        let other_half = devices.take(0..4, 500);
        let last = devices.take(0..4, 1000);
        assert_eq!(indices(&a), [0, 1]);
        assert_eq!((indices(&half), indices(&other_half)), (vec![2], vec![2]), "halves share one");
        assert_eq!(indices(&last), [3]);
        let fifth = devices.take(0..4, 1000);
        assert_eq!(fifth.len(), 1, "what is not there is shared");
        devices.give_back(&fifth);
        devices.give_back(&a);
        assert_eq!(indices(&devices.take(0..4, 1500)), [0, 1]);
    }

    #[test]
    fn nodes_have_their_own_devices() {
        let mut devices = Devices::default();
        assert_eq!(indices(&devices.take(2..4, 2000)), [2, 3]);
        assert_eq!(indices(&devices.take(0..2, 3000)), [0, 1], "no more than there are");
        assert!(devices.take(0..2, 0).is_empty());
        assert!(devices.take(4..4, 1000).is_empty());
    }

    #[test]
    fn demands_are_rounded_up() {
        for (amount, expected) in [(0.0, 0), (0.0001, 1), (1.0, 1000), (2.5, 2500), (1e18, u32::MAX)] {
            assert_eq!(thousandths(amount), expected, "{amount}");
        }
    }
}
