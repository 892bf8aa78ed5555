//! The policies that pick the best pair of ready task and node keep offers in groups and renew few of them. Here
//! they are held against their definitions, which look at every pair anew in every step.

mod common;

use common::plan;
use common::random::{models, random_instance};
use mdts_core::{Arrival, Instance, PartialSchedule, Schedule, Slot};
use mdts_dag::{TaskId, analysis};
use proptest::prelude::*;

/// The slots of a ready task behind all others, by node.
type Slots = Vec<Slot>;

fn best_finish(slots: &Slots) -> Slot {
    slots.iter().copied().reduce(|a, b| if b.finish < a.finish { b } else { a }).unwrap()
}

/// Always the task with the highest score; between equals the first in topological order.
fn naive(instance: &Instance, waves: bool, score: impl Fn(TaskId, &Slots) -> ((f64, f64), Slot)) -> Schedule {
    let graph = instance.graph();
    let mut partial = PartialSchedule::new(instance).unwrap();
    let mut wave: Vec<TaskId> = Vec::new();
    loop {
        let placed = |p: &PartialSchedule<'_>, t: TaskId| graph.parents(t).iter().all(|t| !p.is_open(*t));
        let ready = |t: &TaskId| partial.is_open(*t) && placed(&partial, *t);
        if !waves || wave.is_empty() {
            wave = graph.topological_order().iter().copied().filter(ready).collect();
        }
        let offers = wave.iter().map(|&task| {
            let mut arrival = Arrival::default();
            partial.gather(task, &mut arrival);
            let slots: Slots =
                instance.cluster().node_ids().filter_map(|n| partial.append(task, n, &arrival)).collect();
            (task, score(task, &slots))
        });
        let best = offers.reduce(|a, b| if b.1.0 > a.1.0 { b } else { a });
        let Some((task, (_, slot))) = best else { return partial.finish() };
        wave.retain(|t| *t != task);
        partial.place(task, slot);
    }
}

fn level(instance: &Instance, exec: impl Fn(TaskId) -> f64) -> Vec<f64> {
    analysis::upward_rank(instance.graph(), instance.data(), exec, |_| 0.0)
}

fn median(instance: &Instance, task: TaskId) -> f64 {
    let all = instance.cluster().node_ids().map(|n| instance.exec(task, n));
    let mut times: Vec<f64> = all.filter(|t| t.is_finite()).collect();
    times.sort_by(f64::total_cmp);
    f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn min_min((slots, data) in models(), seed: u64) {
        let instance = random_instance(seed, slots, data);
        let expected = naive(&instance, true, |_, slots| {
            let best = best_finish(slots);
            ((-best.finish, 0.0), best)
        });
        prop_assert_eq!(plan("min-min", &instance), expected);
    }

    #[test]
    fn max_min((slots, data) in models(), seed: u64) {
        let instance = random_instance(seed, slots, data);
        let expected = naive(&instance, true, |_, slots| {
            let best = best_finish(slots);
            ((best.finish, 0.0), best)
        });
        prop_assert_eq!(plan("max-min", &instance), expected);
    }

    #[test]
    fn sufferage((slots, data) in models(), seed: u64) {
        let instance = random_instance(seed, slots, data);
        let expected = naive(&instance, false, |_, slots| {
            let best = best_finish(slots);
            let others = slots.iter().filter(|s| s.node != best.node).map(|s| s.finish);
            ((others.fold(f64::INFINITY, f64::min) - best.finish, 0.0), best)
        });
        prop_assert_eq!(plan("sufferage", &instance), expected);
    }

    #[test]
    fn etf((slots, data) in models(), seed: u64) {
        let instance = random_instance(seed, slots, data);
        let level = level(&instance, |t| instance.mean_exec(t));
        let expected = naive(&instance, false, |task, slots| {
            let earlier = |a: Slot, b: Slot| (b.start, b.finish) < (a.start, a.finish);
            let best = slots.iter().copied().reduce(|a, b| if earlier(a, b) { b } else { a }).unwrap();
            ((-best.start, level[task.index()]), best)
        });
        prop_assert_eq!(plan("etf", &instance), expected);
    }

    #[test]
    fn dls((slots, data) in models(), seed: u64) {
        let instance = random_instance(seed, slots, data);
        let level = level(&instance, |t| median(&instance, t));
        let expected = naive(&instance, false, |task, slots| {
            let fixed = level[task.index()] + median(&instance, task);
            let best = best_finish(slots);
            ((fixed - best.finish, 0.0), best)
        });
        prop_assert_eq!(plan("dls", &instance), expected);
    }
}
