//! The network: encoders for tasks and nodes with shared weights, a pooled context as trunk, and per child task one
//! branch that scores every node.
//!
//! ```text
//! t_i = relu(T task_i)    n_j = relu(N node_j)    c = relu(C [mean t, mean n, all])    value = v c
//! score_ij = o relu(A pair_ij + B t_i + D n_j + E c) + (b + L c) live_ij
//! ```
//! Plans and runs share all but the last layers: o, b and L are their own. The live term tells how late a pair is. It
//! begins as earliest finish time, and the rest learns what to change about
//! it. Weights are the same for all tasks and for all nodes, so any number of both will do, in any order. O(pairs).

mod head;

use std::sync::Arc;

use candle_core::{D, Device, Tensor};
use mdts_core::Rng;
use wide::f32x8;

use super::situation::{LIVE, OF_ALL, PER_NODE, PER_PAIR, PER_TASK, Situation};
use crate::learn::{Activation, Error, Init, Linear, Params, Result};

pub(crate) use head::{RUN_HEAD, set_run_head};

/// Width of all layers.
pub(crate) const WIDTH: usize = 32;
/// Weights of the live term at the beginning, in a plan and in a run: a choice whose end is late by one run time is e^6
/// times less likely.
const BEGIN: [[f32; LIVE]; MODES] = [[-6.0, 0.0], [-3.0, -3.0]];
/// By how much the score is lower where there is no candidate.
const ABSENT: f64 = 1e9;
/// Plans and runs.
const MODES: usize = 2;
/// Nodes compared per lesson at most.
pub(crate) const CANDIDATES: usize = 6;

/// What tasks and nodes of a step looked like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    task: Vec<f32>,
    node: Vec<f32>,
    all: [f32; OF_ALL],
}

impl Seen {
    pub(crate) fn of(situation: &Situation) -> Arc<Self> {
        let Situation { task, node, all, .. } = situation;
        Arc::new(Self { task: task.clone(), node: node.clone(), all: *all })
    }

    fn mode(&self) -> usize {
        mode(&self.all)
    }
}

/// 0 for a plan, 1 for a run.
fn mode(all: &[f32; OF_ALL]) -> usize {
    usize::from(all[4] <= 0.5)
}

/// A task of a step, some nodes it could go to, and what came of each.
#[derive(Debug, Clone)]
pub(crate) struct Lesson {
    pub(crate) seen: Arc<Seen>,
    /// Position of the task.
    pub(crate) task: usize,
    pub(crate) candidates: Vec<Candidate>,
    /// How much longer the job took from here than was seen to be necessary, as a logarithm.
    pub(crate) outcome: f32,
}

/// A node and what comes of it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) node: usize,
    pub(crate) pair: [f32; PER_PAIR],
    pub(crate) live: [f32; LIVE],
    /// By how many percent the job gets longer than with the best candidate.
    pub(crate) cost: f32,
}

/// The network as it learns.
#[derive(Debug)]
pub(crate) struct PairNetwork {
    params: Params,
    task: Linear,
    node: Linear,
    trunk: Linear,
    value: Linear,
    from_pair: Linear,
    from_task: Linear,
    from_node: Linear,
    from_trunk: Linear,
    out: Linear,
    live: Linear,
}

/// A batch as tensors.
struct Batch {
    task: Tensor,
    task_share: Tensor,
    node: Tensor,
    node_share: Tensor,
    all: Tensor,
    own_task: Tensor,
    own_node: Tensor,
    pair: Tensor,
    live: Tensor,
    begin: Tensor,
    /// By lesson and mode: 1 for the lesson's.
    mode: Tensor,
    /// 1 where there is a candidate, 0 elsewhere.
    present: Tensor,
}

/// What the network says of a batch.
pub(crate) struct Output {
    /// Lessons x candidates; very low where there is none.
    pub(crate) scores: Tensor,
    /// The part of the scores that was learnt, as opposed to what the network began with.
    pub(crate) learnt: Tensor,
    /// By lesson.
    pub(crate) values: Tensor,
}

impl PairNetwork {
    pub(crate) fn new(rng: &mut Rng) -> Result<Self> {
        let mut params = Params::default();
        let mut linear = |name: &str, inputs: usize, outputs: usize, gain: f32| {
            let init = if gain > 0.0 { Init::Orthogonal { gain } } else { Init::Constant(0.0) };
            Linear::new(&mut params, name, inputs, outputs, init, rng)
        };
        let relu = Activation::Relu.gain();
        let (task, node) = (linear("task", PER_TASK, WIDTH, relu)?, linear("node", PER_NODE, WIDTH, relu)?);
        let trunk = linear("trunk", 2 * WIDTH + OF_ALL, WIDTH, relu)?;
        let value = linear("value", WIDTH, 1, 0.1)?;
        let from_pair = linear("from_pair", PER_PAIR, WIDTH, relu)?;
        let from_task = linear("from_task", WIDTH, WIDTH, 0.5)?;
        let from_node = linear("from_node", WIDTH, WIDTH, 0.5)?;
        let from_trunk = linear("from_trunk", WIDTH, WIDTH, 0.5)?;
        let out = linear("out", WIDTH, MODES, 0.0)?;
        let live = linear("live", WIDTH, MODES * LIVE, 0.0)?;
        Ok(Self { params, task, node, trunk, value, from_pair, from_task, from_node, from_trunk, out, live })
    }

    pub(crate) fn params(&self) -> &Params {
        &self.params
    }

    /// Scores and values.
    pub(crate) fn forward(&self, lessons: &[&Lesson]) -> Result<Output> {
        let b = lessons.len();
        let batch = Batch::new(lessons)?;
        let relu = Activation::Relu;
        let pool = |rows: Tensor, share: &Tensor| -> Result<Tensor> {
            Ok(share.matmul(&rows.reshape((b, (), WIDTH))?)?.reshape((b, WIDTH))?)
        };
        let tasks = pool(self.task.activated(&batch.task, relu)?, &batch.task_share)?;
        let nodes = pool(self.node.activated(&batch.node, relu)?, &batch.node_share)?;
        let trunk = self.trunk.activated(&Tensor::cat(&[&tasks, &nodes, &batch.all], 1)?, relu)?;
        let own = self.from_task.forward(&self.task.activated(&batch.own_task, relu)?)?;
        let shared = (own + self.from_trunk.forward(&trunk)?)?.unsqueeze(1)?;
        let node = self.from_node.forward(&self.node.activated(&batch.own_node, relu)?)?;
        let pair = (self.from_pair.forward(&batch.pair)? + node)?.reshape((b, CANDIDATES, WIDTH))?;
        let hidden = pair.broadcast_add(&shared)?.relu()?.reshape((b * CANDIDATES, WIDTH))?;
        let late = |weights: &Tensor| batch.live.broadcast_mul(&weights.unsqueeze(1)?)?.sum(D::Minus1);
        let out = self.out.forward(&hidden)?.reshape((b, CANDIDATES, MODES))?;
        let out = out.broadcast_mul(&batch.mode.unsqueeze(1)?)?.sum(D::Minus1)?;
        let weights = self.live.forward(&trunk)?.reshape((b, MODES, LIVE))?;
        let weights = weights.broadcast_mul(&batch.mode.unsqueeze(2)?)?.sum(1)?;
        let learnt = (out + late(&weights)?)?;
        let learnt = (learnt * &batch.present)?;
        let absent = ((batch.present.clone() - 1.0)? * ABSENT)?;
        let scores = ((&learnt + late(&batch.begin)?)? + absent)?;
        Ok(Output { scores, learnt, values: self.value.forward(&trunk)?.reshape(b)? })
    }
}

impl Batch {
    fn new(lessons: &[&Lesson]) -> Result<Self> {
        let b = lessons.len();
        let tensor = |values: Vec<f32>, columns: usize| -> Result<Tensor> {
            let rows = values.len() / columns.max(1);
            Ok(Tensor::from_vec(values, (rows, columns), &Device::Cpu)?)
        };
        let pooled = |width: usize, rows: &dyn Fn(&Seen) -> &[f32]| -> Result<(Tensor, Tensor)> {
            let most = lessons.iter().map(|l| rows(&l.seen).len() / width).max().unwrap_or(0);
            let (mut all, mut share) = (Vec::with_capacity(b * most * width), Vec::with_capacity(b * most));
            for lesson in lessons {
                let rows = rows(&lesson.seen);
                let count = rows.len() / width;
                all.extend_from_slice(rows);
                all.resize(all.len() + (most - count) * width, 0.0);
                share.extend((0..most).map(|i| if i < count { 1.0 / count as f32 } else { 0.0 }));
            }
            Ok((tensor(all, width)?, Tensor::from_vec(share, (b, 1, most), &Device::Cpu)?))
        };
        let (task, task_share) = pooled(PER_TASK, &|s| &s.task)?;
        let (node, node_share) = pooled(PER_NODE, &|s| &s.node)?;
        let (mut all, mut own_task, mut own_node) = (Vec::new(), Vec::new(), Vec::new());
        let (mut pair, mut live, mut present) = (Vec::new(), Vec::new(), Vec::new());
        let (mut begin, mut mode) = (Vec::new(), Vec::new());
        for Lesson { seen, task, candidates, .. } in lessons {
            all.extend(seen.all);
            own_task.extend_from_slice(&seen.task[task * PER_TASK..(task + 1) * PER_TASK]);
            begin.extend(BEGIN[seen.mode()]);
            mode.extend((0..MODES).map(|m| f32::from(u8::from(m == seen.mode()))));
            for j in 0..CANDIDATES {
                if let Some(c) = candidates.get(j) {
                    own_node.extend_from_slice(&seen.node[c.node * PER_NODE..(c.node + 1) * PER_NODE]);
                    pair.extend(c.pair);
                    live.extend(c.live);
                    present.push(1.0);
                } else {
                    own_node.extend([0.0; PER_NODE]);
                    pair.extend([0.0; PER_PAIR]);
                    live.extend([0.0; LIVE]);
                    present.push(0.0);
                }
            }
        }
        Ok(Self {
            task,
            task_share,
            node,
            node_share,
            all: tensor(all, OF_ALL)?,
            own_task: tensor(own_task, PER_TASK)?,
            own_node: tensor(own_node, PER_NODE)?,
            pair: tensor(pair, PER_PAIR)?,
            live: Tensor::from_vec(live, (b, CANDIDATES, LIVE), &Device::Cpu)?,
            begin: tensor(begin, LIVE)?,
            mode: tensor(mode, MODES)?,
            present: tensor(present, CANDIDATES)?,
        })
    }
}

/// A linear layer on slices; weights as [inputs, outputs].
#[derive(Debug, Clone)]
struct Layer {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    fn of(params: &Params, name: &str) -> Result<Self> {
        let values = |part: &str| -> Result<Vec<f32>> {
            let name = format!("{name}.{part}");
            let missing = || Error::MissingTensor { name: name.clone() };
            Ok(params.get(&name).ok_or_else(missing)?.flatten_all()?.to_vec1()?)
        };
        Ok(Self { weight: values("weight")?, bias: values("bias")? })
    }

    /// `into` += the bias and x times the weights.
    #[inline]
    fn add_to(&self, x: &[f32], into: &mut [f32; WIDTH]) {
        into.iter_mut().zip(&self.bias).for_each(|(y, b)| *y += b);
        for (x, row) in x.iter().zip(self.weight.as_chunks::<WIDTH>().0) {
            into.iter_mut().zip(row).for_each(|(y, w)| *y += x * w);
        }
    }

    /// Output `j` alone.
    fn one(&self, x: &[f32], j: usize) -> f32 {
        let column = self.weight.iter().skip(j).step_by(self.bias.len());
        x.iter().zip(column).map(|(x, w)| x * w).sum::<f32>() + self.bias[j]
    }
}

#[inline]
fn relu(x: [f32; WIDTH]) -> [f32; WIDTH] {
    x.map(|x| x.max(0.0))
}

/// The network as it decides: the same arithmetic without tensors.
#[derive(Debug, Clone)]
pub(crate) struct Scorer {
    task: Layer,
    node: Layer,
    trunk: Layer,
    value: Layer,
    from_pair: Layer,
    from_task: Layer,
    from_node: Layer,
    from_trunk: Layer,
    /// Weights of the last layer, by mode.
    out_of: [[f32; WIDTH]; MODES],
    /// Those of `from_pair`, in a size that the compiler knows.
    of_pair: [[f32; WIDTH]; PER_PAIR],
    live: Layer,
}

/// A row of numbers as vectors.
type Row = [f32x8; WIDTH / 8];

#[inline]
fn row(values: &[f32; WIDTH]) -> Row {
    let parts = values.as_chunks::<8>().0;
    std::array::from_fn(|i| f32x8::new(parts[i]))
}

/// The score of a pair from what its task and its node add.
#[inline]
fn score_pair(task: &Row, node: &Row, pair: &[f32; PER_PAIR], weights: &[Row; PER_PAIR], out: &Row) -> f32 {
    let mut hidden: Row = std::array::from_fn(|i| task[i] + node[i]);
    for (x, weights) in pair.iter().zip(weights) {
        let x = f32x8::splat(*x);
        for (h, w) in hidden.iter_mut().zip(weights) {
            *h += x * *w;
        }
    }
    let mut sums = f32x8::splat(0.0);
    for (h, o) in hidden.iter().zip(out) {
        sums += h.max(f32x8::splat(0.0)) * *o;
    }
    sums.to_array().iter().sum()
}

/// What the network says of one step, and buffers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scores {
    tasks: Vec<[f32; WIDTH]>,
    nodes: Vec<[f32; WIDTH]>,
    rows: Vec<Row>,
    /// By task and node, without the live term.
    pub(crate) fixed: Vec<f32>,
    /// The weights of the live term.
    pub(crate) live: [f32; LIVE],
    /// How much longer the job may take than what is seen to be necessary, as a logarithm.
    pub(crate) value: f32,
}

impl Scores {
    /// Leaves this part of the difference to what the network began with.
    pub(crate) fn weaken(&mut self, strength: f32, is_plan: bool) {
        if strength == 1.0 {
            return;
        }
        self.fixed.iter_mut().for_each(|score| *score *= strength);
        let begin = BEGIN[usize::from(!is_plan)];
        self.live.iter_mut().zip(begin).for_each(|(live, begin)| *live = begin + strength * (*live - begin));
    }
}

impl Scorer {
    pub(crate) fn new(params: &Params) -> Result<Self> {
        let layer = |name| Layer::of(params, name);
        let out = layer("out")?.weight;
        let column = |mode| std::array::from_fn(|i| out.get(i * MODES + mode).copied().unwrap_or(0.0));
        let from_pair = layer("from_pair")?;
        let rows = from_pair.weight.as_chunks().0;
        let of_pair = std::array::from_fn(|i| rows.get(i).copied().unwrap_or([0.0; WIDTH]));
        Ok(Self {
            task: layer("task")?,
            node: layer("node")?,
            trunk: layer("trunk")?,
            value: layer("value")?,
            from_pair,
            of_pair,
            from_task: layer("from_task")?,
            from_node: layer("from_node")?,
            from_trunk: layer("from_trunk")?,
            out_of: std::array::from_fn(column),
            live: layer("live")?,
        })
    }

    /// Scores of all pairs.
    pub(crate) fn score(&self, seen: &Situation, scores: &mut Scores) {
        self.score_rows((&seen.task, &seen.node, &seen.pair, &seen.all), scores);
    }

    fn score_rows(
        &self,
        (task, node, pair, all): (&[f32], &[f32], &[f32], &[f32; OF_ALL]),
        scores: &mut Scores,
    ) {
        let encode = |layer: &Layer, rows: &[f32], width: usize, into: &mut Vec<[f32; WIDTH]>| {
            into.clear();
            into.extend(rows.chunks_exact(width).map(|row| {
                let mut code = [0.0; WIDTH];
                layer.add_to(row, &mut code);
                relu(code)
            }));
        };
        encode(&self.task, task, PER_TASK, &mut scores.tasks);
        encode(&self.node, node, PER_NODE, &mut scores.nodes);
        let trunk = self.pool(&scores.tasks, &scores.nodes, all);
        let mode = mode(all);
        scores.live = std::array::from_fn(|j| BEGIN[mode][j] + self.live.one(&trunk, mode * LIVE + j));
        scores.value = self.value.one(&trunk, 0);
        let mut shared = [0.0; WIDTH];
        self.from_trunk.add_to(&trunk, &mut shared);
        for code in &mut scores.tasks {
            // What all pairs of the task have in common.
            let mut base = shared;
            self.from_task.add_to(code, &mut base);
            base.iter_mut().zip(&self.from_pair.bias).for_each(|(y, b)| *y += b);
            *code = base;
        }
        for code in &mut scores.nodes {
            let mut base = [0.0; WIDTH];
            self.from_node.add_to(code, &mut base);
            *code = base;
        }
        self.score_pairs(pair, mode, scores);
    }

    fn score_pairs(&self, pair: &[f32], mode: usize, scores: &mut Scores) {
        let weights = self.of_pair.each_ref().map(row);
        let out = row(&self.out_of[mode]);
        let Scores { tasks, nodes, rows, fixed, .. } = scores;
        rows.clear();
        rows.extend(nodes.iter().map(row));
        fixed.clear();
        let pairs = pair.as_chunks::<PER_PAIR>().0.chunks(rows.len().max(1));
        for (task, pairs) in tasks.iter().zip(pairs) {
            let task = row(task);
            let of_node = rows.iter().zip(pairs);
            fixed.extend(of_node.map(|(node, pair)| score_pair(&task, node, pair, &weights, &out)));
        }
    }

    /// The trunk.
    fn pool(&self, tasks: &[[f32; WIDTH]], nodes: &[[f32; WIDTH]], all: &[f32; OF_ALL]) -> [f32; WIDTH] {
        let mut pooled = [0.0; 2 * WIDTH + OF_ALL];
        for (codes, into) in [tasks, nodes].into_iter().zip(pooled.chunks_mut(WIDTH)) {
            for code in codes {
                into.iter_mut().zip(code).for_each(|(sum, x)| *sum += x);
            }
            for sum in into.iter_mut() {
                *sum /= codes.len().max(1) as f32;
            }
        }
        pooled[2 * WIDTH..].copy_from_slice(all);
        let mut trunk = [0.0; WIDTH];
        self.trunk.add_to(&pooled, &mut trunk);
        relu(trunk)
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng};

    use super::*;

    const TASKS: usize = 3;
    const NODES: usize = 4;

    /// A network all of whose weights matter.
    fn network(rng: &mut Rng) -> PairNetwork {
        let network = PairNetwork::new(rng).unwrap();
        for (_, var) in network.params().iter() {
            let values: Vec<f32> = (0..var.elem_count()).map(|_| rng.random_range(-0.5..0.5)).collect();
            var.set(&Tensor::from_vec(values, var.dims(), &Device::Cpu).unwrap()).unwrap();
        }
        network
    }

    struct Step {
        seen: Seen,
        pair: Vec<f32>,
        live: Vec<[f32; LIVE]>,
    }

    fn step(is_plan: bool, rng: &mut Rng) -> Step {
        let mut numbers =
            |count: usize| -> Vec<f32> { (0..count).map(|_| rng.random_range(-1.0..1.0)).collect() };
        let (task, node) = (numbers(TASKS * PER_TASK), numbers(NODES * PER_NODE));
        let pair = numbers(TASKS * NODES * PER_PAIR);
        let live = numbers(TASKS * NODES * LIVE).as_chunks().0.to_vec();
        let mut all: [f32; OF_ALL] = numbers(OF_ALL).try_into().unwrap();
        all[4] = f32::from(u8::from(is_plan));
        Step { seen: Seen { task, node, all }, pair, live }
    }

    fn scores(scorer: &Scorer, step: &Step) -> Scores {
        let mut scores = Scores::default();
        let Seen { task, node, all } = &step.seen;
        scorer.score_rows((task, node, &step.pair, all), &mut scores);
        for (score, live) in scores.fixed.iter_mut().zip(&step.live) {
            *score += live.iter().zip(scores.live).map(|(l, w)| l * w).sum::<f32>();
        }
        scores
    }

    #[test]
    fn slices_compute_what_tensors_do() {
        let mut rng = Rng::seed_from_u64(3);
        let network = network(&mut rng);
        let scorer = Scorer::new(network.params()).unwrap();
        let steps = [step(true, &mut rng), step(false, &mut rng)];
        let lesson = |(step, task): (&Step, usize)| Lesson {
            seen: Arc::new(step.seen.clone()),
            task,
            candidates: (0..NODES)
                .map(|node| {
                    let at = task * NODES + node;
                    let pair = step.pair.as_chunks().0[at];
                    Candidate { node, pair, live: step.live[at], cost: 0.0 }
                })
                .collect(),
            outcome: 0.0,
        };
        let lessons: Vec<Lesson> =
            steps.iter().flat_map(|s| (0..TASKS).map(move |t| (s, t))).map(lesson).collect();
        let output = network.forward(&lessons.iter().collect::<Vec<_>>()).unwrap();
        let (tensors, values) =
            (output.scores.to_vec2::<f32>().unwrap(), output.values.to_vec1::<f32>().unwrap());
        for (s, step) in steps.iter().enumerate() {
            let slices = scores(&scorer, step);
            for task in 0..TASKS {
                let row = &tensors[s * TASKS + task];
                assert!((values[s * TASKS + task] - slices.value).abs() < 1e-4);
                for node in 0..NODES {
                    // The bias of the last layer is the same for all and left out on slices.
                    let difference =
                        row[node] - row[0] - slices.fixed[task * NODES + node] + slices.fixed[task * NODES];
                    assert!(difference.abs() < 1e-4, "{difference}");
                }
                assert!(row[NODES..].iter().all(|score| *score < -1e8), "no candidate, no score");
            }
        }
    }

    #[test]
    fn the_weights_of_runs_leave_plans_alone() {
        let mut rng = Rng::seed_from_u64(5);
        let network = network(&mut rng);
        let scorer = Scorer::new(network.params()).unwrap();
        assert_eq!(scorer.with_run_head(&scorer.run_head()).run_head(), scorer.run_head());
        let head: Vec<f32> = (0..RUN_HEAD).map(|_| rng.random_range(-1.0..1.0)).collect();
        let on_slices = scorer.with_run_head(&head);
        set_run_head(network.params(), &head).unwrap();
        let as_tensors = Scorer::new(network.params()).unwrap();
        let [plan, run] = [true, false].map(|is_plan| step(is_plan, &mut rng));
        for other in [&on_slices, &as_tensors] {
            assert_eq!(other.run_head(), head);
            assert_eq!(scores(other, &plan).fixed, scores(&scorer, &plan).fixed);
        }
        assert_eq!(scores(&on_slices, &run).fixed, scores(&as_tensors, &run).fixed);
        assert_ne!(scores(&on_slices, &run).fixed, scores(&scorer, &run).fixed);
    }

    #[test]
    fn the_order_of_tasks_and_nodes_does_not_matter() {
        let mut rng = Rng::seed_from_u64(4);
        let scorer = Scorer::new(network(&mut rng).params()).unwrap();
        let step = step(true, &mut rng);
        let turned =
            |rows: &[f32], width: usize| rows.chunks(width).rev().flatten().copied().collect::<Vec<f32>>();
        let other = Step {
            seen: Seen {
                task: turned(&step.seen.task, PER_TASK),
                node: turned(&step.seen.node, PER_NODE),
                all: step.seen.all,
            },
            pair: turned(&step.pair, PER_PAIR),
            live: step.live.iter().rev().copied().collect(),
        };
        let (a, b) = (scores(&scorer, &step), scores(&scorer, &other));
        assert!((a.value - b.value).abs() < 1e-5);
        assert!(a.fixed.iter().zip(b.fixed.iter().rev()).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}
