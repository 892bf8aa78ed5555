//! One request, one verdict: earliest finish time over the nodes that fit, with what runs and what was promised.
//!
//! The choice of a node is HEFT's for a single task (Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002): on every node the earliest gap
//! that is long enough, plus the run time there; the earliest finish wins, of equals Slurm's lower weight. A node is named only if
//! the job can start there at once: a job that has to wait is left to Slurm, which knows better who is next. O(nodes log jobs).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use mdts_core::Timeline;

use super::demand::{Demand, demand};
use super::features::Features;
use super::{Decision, Node, Partition, Request, Running, Standing, Tag, Verdict, View, hopeless};
use crate::spell;

/// Seconds that a job is taken to run if nothing says how long.
const UNKNOWN_SECONDS: f64 = 3600.0;
/// Seconds that stand for ever.
const FOR_EVER: f64 = 1e9;
/// A promise is kept so long after the view should show its job.
const SETTLING: f64 = 3.0;
/// No more promises are kept; the oldest go first.
const MOST_PROMISES: usize = 10_000;
/// A node that is free in so many seconds is free.
const SOON: f64 = 1.0;

/// How jobs are led to their nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Steering {
    /// By naming the node, if the job can start there at once.
    #[default]
    Pin,
    /// By naming a feature that its nodes should have.
    Prefer,
    /// Not at all.
    Off,
}

/// What a site decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How jobs are led to their nodes.
    pub steering: Steering,
    /// How far the priority of a workflow's least urgent task is lowered.
    pub nice_range: u32,
    /// Whether hopeless requests are refused.
    pub refuses: bool,
    /// Seconds after which a view is too old to decide on.
    pub longest_age: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { steering: Steering::Pin, nice_range: 100, refuses: true, longest_age: 60.0 }
    }
}

/// Decides; knows the cluster as it was seen last, and what it has promised since.
#[derive(Debug)]
pub struct Brain {
    settings: Settings,
    view: View,
    seen_at: Option<f64>,
    /// The kinds of generic resources, in the order of the timelines' dimensions behind CPUs and memory.
    kinds: Vec<String>,
    timelines: Vec<Timeline>,
    promises: Vec<(f64, Running)>,
}

impl Brain {
    /// A brain that has seen nothing yet: every job passes.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            view: View::default(),
            seen_at: None,
            kinds: Vec::new(),
            timelines: Vec::new(),
            promises: Vec::new(),
        }
    }

    /// What it decides by.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When the look at the cluster began that is decided on.
    pub fn seen_at(&self) -> Option<f64> {
        self.seen_at
    }

    /// The cluster as it was seen last.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Takes a new view of the cluster, whose gathering began at `began`. Times are seconds of any clock that does not go back.
    pub fn refresh(&mut self, view: View, began: f64) {
        self.kinds = view.nodes.iter().flat_map(|n| n.gres.keys().cloned()).collect();
        self.kinds.sort_unstable();
        self.kinds.dedup();
        let same_nodes = self.view.nodes.len() == view.nodes.len()
            && self.view.nodes.iter().zip(&view.nodes).all(|(a, b)| a.name == b.name);
        self.promises.retain(|(at, _)| same_nodes && *at > began - SETTLING);
        self.view = view;
        self.seen_at = Some(began);
        self.timelines =
            self.view.nodes.iter().map(|n| Timeline::shared(&capacity(n, &self.kinds))).collect();
        let running = std::mem::take(&mut self.view.running);
        self.hold_what_runs(&running);
        self.view.running = running;
        for (at, promise) in &std::mem::take(&mut self.promises) {
            // What is seen running is held already; at worst it is held twice for a moment.
            self.hold(promise);
            self.promises.push((*at, promise.clone()));
        }
    }

    fn hold_what_runs(&mut self, running: &[Running]) {
        let mut told = vec![0; self.view.nodes.len()];
        for job in running {
            self.hold(job);
            for at in job.nodes.iter().filter(|_| job.start == 0.0) {
                if let Some(cpus) = told.get_mut(*at) {
                    *cpus += job.cpus;
                }
            }
        }
        // CPUs that a node says are held, though no job is known that holds them: for ever, as far as is known.
        for (at, told) in told.iter().enumerate() {
            let cpus = self.view.nodes[at].cpus_held.saturating_sub(*told);
            if cpus > 0 {
                self.hold(&Running { nodes: vec![at], cpus, seconds: FOR_EVER, ..Running::default() });
            }
        }
    }

    fn hold(&mut self, job: &Running) {
        for &at in &job.nodes {
            let Some(node) = self.view.nodes.get(at) else { continue };
            let capacity = capacity(node, &self.kinds);
            let mut wanted = vec![job.cpus, job.memory];
            wanted.extend(self.kinds.iter().map(|kind| job.gres.get(kind).copied().unwrap_or(0)));
            // What does not add up must not break the timeline: never more than there is, and where it fits.
            wanted.iter_mut().zip(&capacity).for_each(|(wanted, has)| *wanted = (*wanted).min(*has));
            let seconds = job.seconds.clamp(1.0, FOR_EVER);
            let start = self.timelines[at].earliest(job.start, seconds, &wanted);
            self.timelines[at].reserve(start, start + seconds, &wanted);
        }
    }

    /// Decides on a request that comes at `now`; nothing is set if the view is too old or the request is not for the brain.
    ///
    /// # Panics
    /// Never on what comes from outside.
    pub fn decide(&mut self, request: &Request, standing: &Standing, now: f64) -> Verdict {
        let Some(since) = self.seen_at.map(|at| now - at).filter(|age| *age <= self.settings.longest_age)
        else {
            return Verdict::Go(Decision::none("the view of the cluster is missing or too old"));
        };
        if request.component {
            return Verdict::Go(Decision::none("one of several components: Slurm places them together"));
        }
        if request.comment.as_deref().and_then(Tag::read) == Some(Tag::Run) {
            return Verdict::Go(Decision::none("a run of mdts has placed it"));
        }
        let mut decision = Decision::default();
        let partitions = match self.partitions(request, &mut decision) {
            Ok(partitions) => partitions,
            Err(message) if self.settings.refuses => return Verdict::Hopeless(message),
            Err(message) => {
                return Verdict::Go(Decision::none(format!("hopeless, but refused by nobody: {message}")));
            }
        };
        if !request.has_priority {
            decision.nice = standing.nice(self.settings.nice_range);
        }
        match self.place(request, standing, &partitions, since.max(0.0)) {
            Ok((nodes, promise, note)) => {
                match self.settings.steering {
                    Steering::Pin => {
                        decision.nodelist = Some(nodes);
                        self.promise(promise, now);
                    }
                    Steering::Prefer => decision.prefer = Some(nodes),
                    Steering::Off => {}
                }
                decision.note = note;
            }
            Err(why) => why.clone_into(&mut decision.note),
        }
        Verdict::Go(decision)
    }

    /// The partitions that the job may come to, by position.
    fn partitions(&self, request: &Request, decision: &mut Decision) -> Result<Vec<usize>, String> {
        let all = || self.view.partitions.iter().enumerate();
        if let Some(names) = &request.partition {
            let named: Vec<usize> = names
                .split(',')
                .filter_map(|name| all().find(|(_, p)| p.name == name.trim()).map(|(i, _)| i))
                .collect();
            // An unknown name is refused by Slurm itself.
            if request.opaque || named.len() < names.split(',').count() {
                return Ok(named);
            }
            let mut reasons =
                named.iter().map(|i| hopeless::reason(request, &self.view.partitions[*i], &self.view));
            let first = reasons.next().flatten();
            return match first {
                Some(reason) if reasons.all(|reason| reason.is_some()) => Err(reason),
                _ => Ok(named),
            };
        }
        let Some((default, partition)) = all().find(|(_, p)| p.is_default) else { return Ok(Vec::new()) };
        let reason = hopeless::reason(request, partition, &self.view).filter(|_| !request.opaque);
        let Some(reason) = reason else { return Ok(vec![default]) };
        let other =
            all().find(|(_, p)| p.is_open && p.is_up && hopeless::reason(request, p, &self.view).is_none());
        let (at, other) = other.ok_or(reason)?;
        decision.partition = Some(other.name.clone());
        Ok(vec![at])
    }

    /// The nodes (or, when they are only preferred, a feature of theirs), what they are promised, and why.
    fn place(
        &self,
        request: &Request,
        standing: &Standing,
        partitions: &[usize],
        now: f64,
    ) -> Result<(String, Running, String), &'static str> {
        if self.settings.steering == Steering::Off {
            return Err("places are Slurm's to choose here");
        }
        let fixed = [&request.nodelist, &request.reservation, &request.prefer];
        if fixed.iter().any(|fixed| fixed.is_some()) {
            return Err("its author has chosen where it runs");
        }
        if request.array.is_some() {
            return Err("the jobs of an array go where there is room");
        }
        if request.waits || request.dependency.is_some() {
            return Err(
                "it does not start now; if the sidecar leads jobs that wait, it is placed when its time comes",
            );
        }
        if request.opaque {
            return Err("it asks for what only Slurm can judge");
        }
        let wanted = request.nodes.map_or(1, |(least, _)| least.max(1));
        let mut offers = self.offers(request, standing, partitions, wanted, now)?;
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        if offers.len() < wanted {
            return Err("too few nodes that fit are in service");
        }
        if self.settings.steering == Steering::Pin {
            // Who is next on a node that is taken Slurm knows better.
            offers.retain(|offer| offer.start <= now + SOON);
            if offers.len() < wanted {
                return Err("all nodes that fit are taken; Slurm knows who is next");
            }
        }
        offers.sort_by(|a, b| self.compare(a, b));
        let total = offers.len();
        offers.truncate(wanted);
        let nodes: Vec<usize> = offers.iter().map(|offer| offer.node).collect();
        let promise = Running {
            nodes,
            seconds: offers.iter().fold(0.0, |l, o| o.seconds.max(l)),
            ..offers[0].holds.clone()
        };
        if self.settings.steering == Steering::Prefer {
            let feature = self.feature(offers[0].node).ok_or("no feature tells its best node from others")?;
            return Ok((
                feature.to_owned(),
                promise,
                format!("of {total} nodes the best has the feature {feature}"),
            ));
        }
        let names: Vec<&str> = promise.nodes.iter().map(|at| self.view.nodes[*at].name.as_str()).collect();
        let speed = self.view.nodes[offers[0].node].speed;
        let names = names.join(",");
        let note = format!("{names}: of {total} free nodes expected to finish it first (speed {speed})");
        Ok((names, promise, note))
    }

    /// The earlier finish first; of those that are equal to a millisecond, the lower weight.
    fn compare(&self, a: &Offer, b: &Offer) -> Ordering {
        let finish = |offer: &Offer| (offer.finish * 1e3).round();
        let then = |offer: &Offer| (self.view.nodes[offer.node].weight, offer.node);
        finish(a).total_cmp(&finish(b)).then(then(a).cmp(&then(b)))
    }

    fn offers(
        &self,
        request: &Request,
        standing: &Standing,
        partitions: &[usize],
        wanted: u64,
        now: f64,
    ) -> Result<Vec<Offer>, &'static str> {
        let features = match request.features.as_deref() {
            None => None,
            Some(text) => {
                Some(Features::read(text).ok_or("its constraint is one that only Slurm can judge")?)
            }
        };
        let excluded = match request.exclude.as_deref() {
            None => Vec::new(),
            Some(text) => spell::hosts(text).ok_or("its list of excluded nodes cannot be read")?,
        };
        let mut offers = Vec::new();
        for partition in partitions.iter().map(|at| &self.view.partitions[*at]).filter(|p| p.is_up) {
            let need = demand(request, wanted, partition.default_memory.unwrap_or(self.view.default_memory));
            let seconds = seconds_of(request, standing, partition);
            let fits = |at: &&usize| {
                let node = &self.view.nodes[**at];
                node.is_usable
                    && need.fits(node)
                    && features.as_ref().is_none_or(|f| f.fit(&node.features))
                    && !excluded.contains(&node.name)
            };
            for &at in partition.nodes.iter().filter(|at| **at < self.view.nodes.len()).filter(fits) {
                if !offers.iter().any(|offer: &Offer| offer.node == at) {
                    offers.push(self.offer(at, &need, seconds, partition.is_exclusive, now));
                }
            }
        }
        Ok(offers)
    }

    fn offer(&self, at: usize, need: &Demand, seconds: f64, whole: bool, now: f64) -> Offer {
        let node = &self.view.nodes[at];
        let mut wanted = capacity(node, &self.kinds);
        let mut holds =
            Running { cpus: node.cpus, memory: node.memory, gres: node.gres.clone(), ..Running::default() };
        if !(need.is_exclusive || whole) {
            holds.cpus = need.cpus;
            holds.memory = need.memory.unwrap_or(node.memory);
            holds.gres.clone_from(&need.gres);
            wanted[0] = holds.cpus;
            wanted[1] = holds.memory;
            for (wanted, kind) in wanted[2..].iter_mut().zip(&self.kinds) {
                *wanted = need.gres.get(kind).copied().unwrap_or(0);
            }
        }
        let seconds = (seconds / node.speed).clamp(1e-3, FOR_EVER);
        let start = self.timelines[at].earliest(now, seconds, &wanted);
        Offer { node: at, start, finish: start + seconds, seconds, holds }
    }

    /// The feature of a node whose bearers are the fastest, and then the fewest; none if all nodes are equally fast.
    fn feature(&self, at: usize) -> Option<&str> {
        let nodes = &self.view.nodes;
        if nodes.iter().all(|n| n.speed == nodes[at].speed) {
            return None;
        }
        let mut speeds: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
        for node in nodes {
            for feature in node.features.iter().filter(|f| nodes[at].features.contains(f)) {
                let (sum, count) = speeds.entry(feature).or_default();
                *sum += node.speed;
                *count += 1;
            }
        }
        let mean = |(sum, count): &(f64, u32)| sum / f64::from(*count);
        let best = speeds.iter().max_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)).then(b.1.cmp(&a.1)));
        best.map(|(feature, _)| *feature)
    }

    fn promise(&mut self, mut promise: Running, now: f64) {
        promise.start = (now - self.seen_at.unwrap_or(now)).max(0.0);
        self.hold(&promise);
        promise.start = 0.0;
        if self.promises.len() == MOST_PROMISES {
            self.promises.remove(0);
        }
        self.promises.push((now, promise));
    }
}

/// The nodes on which a job of one node could run some day, by position; none if only Slurm can judge. O(nodes).
pub fn eligible(request: &Request, view: &View) -> Vec<usize> {
    let features = match request.features.as_deref().map(Features::read) {
        Some(None) => return Vec::new(),
        features => features.flatten(),
    };
    let names = request.partition.as_deref().unwrap_or_default();
    let named =
        |p: &&Partition| names.split(',').any(|name| name == p.name) || names.is_empty() && p.is_default;
    let partitions = view.partitions.iter().filter(named).filter(|p| p.is_up);
    let mut found: Vec<usize> = partitions
        .flat_map(|partition| {
            let need = demand(request, 1, partition.default_memory.unwrap_or(view.default_memory));
            let fits = |at: &usize| {
                let node = &view.nodes[*at];
                need.fits(node) && features.as_ref().is_none_or(|f| f.fit(&node.features))
            };
            partition.nodes.iter().copied().filter(fits).collect::<Vec<_>>()
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// What a node offers to a job.
#[derive(Debug)]
struct Offer {
    node: usize,
    start: f64,
    finish: f64,
    seconds: f64,
    holds: Running,
}

fn capacity(node: &Node, kinds: &[String]) -> Vec<u64> {
    let gres = kinds.iter().map(|kind| node.gres.get(kind).copied().unwrap_or(0));
    [node.cpus, node.memory].into_iter().chain(gres).collect()
}

/// How long the job runs at speed 1.
fn seconds_of(request: &Request, standing: &Standing, partition: &Partition) -> f64 {
    let known = standing.seconds.filter(|seconds| *seconds >= 0.0 && seconds.is_finite());
    let limit = request.minutes.or(partition.default_minutes).map(|minutes| minutes as f64 * 60.0);
    known.or(limit).unwrap_or(UNKNOWN_SECONDS)
}

#[cfg(test)]
mod tests;
