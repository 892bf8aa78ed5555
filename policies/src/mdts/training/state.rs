//! A training that can be resumed: everything that the next round depends on, in one checkpoint file.
//!
//! Lessons are not in it but can be made again: they follow from the configuration, the round and the weights that gave
//! them, and those weights are kept for every round whose lessons are still in the memory (27 kB each). So the file
//! is small, resuming takes as long as those rounds took, and what is learnt then is bit for bit what would have been
//! learnt without the interruption.

use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use mdts_core::Rng;
use mdts_dag::{DataModel, FlatGraph};
use rand::SeedableRng;
use serde::{Deserialize, Serialize};

use super::evolution::Evolution;
use super::{Best, Report, TrainConfig, Trainer, teach};
use crate::learn::{Checkpoint, Error, Header, Init, Params, Result, checkpoint};
use crate::mdts::network::Scorer;
use crate::mdts::situation::FEATURES;

/// The weights behind the lessons in the memory: one row per round.
const TEACHERS: &str = "teachers";

/// What is saved beside numbers of networks.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Saved {
    config: TrainConfig,
    /// Name and digest of every graph learnt from.
    graphs: Vec<(String, String)>,
    round: u64,
    curve: Vec<Report>,
    /// The latest rounds, whose lessons are in the memory.
    taught: usize,
    /// How good the best plans were, over HEFT's.
    best: Option<f64>,
    /// Whether runs are learnt already.
    evolves: bool,
}

/// A training as it was saved by [`Trainer::save_state`].
#[derive(Debug)]
pub struct State {
    checkpoint: Checkpoint<Saved>,
}

impl State {
    /// Reads a state file.
    ///
    /// # Errors
    /// As [`checkpoint::read`].
    pub fn read(path: &Path) -> Result<Self> {
        Ok(Self { checkpoint: checkpoint::read(path, FEATURES)? })
    }

    /// How it trains.
    pub fn config(&self) -> &TrainConfig {
        &self.checkpoint.config.config
    }

    /// Rounds so far.
    pub fn round(&self) -> u64 {
        self.checkpoint.config.round
    }
}

impl Trainer {
    /// Writes all that is needed to resume; the file is whole or not there.
    ///
    /// # Errors
    /// As [`checkpoint::save`].
    pub fn save_state(&self, path: &Path) -> Result<()> {
        let config = Saved {
            config: self.config.clone(),
            graphs: self.graphs.iter().map(|graph| (graph.name().to_owned(), digest(graph))).collect(),
            round: self.round,
            curve: self.curve.clone(),
            taught: self.taught.len(),
            best: self.best.as_ref().map(|best| best.plan),
            evolves: self.evolution.is_some(),
        };
        let learnt = prefixed("learnt", self.network.params())?;
        let average = prefixed("average", &self.average)?;
        let optimizer = self.optimizer.state(self.network.params())?;
        let teachers = teachers(self.taught.len(), self.average.count())?;
        if let Some(var) = teachers.get(TEACHERS) {
            let rows: Vec<f32> = self.taught.iter().flat_map(|t| t.weights.iter().copied()).collect();
            var.set(&Tensor::from_vec(rows, var.shape(), &Device::Cpu)?)?;
        }
        let best = prefixed("best", &self.average)?;
        if let Some(found) = &self.best {
            fill(&best, &found.weights)?;
        }
        let evolution = self.evolution.as_ref().map_or_else(Evolution::empty, Evolution::to_params)?;
        let header = Header { features: FEATURES, config };
        checkpoint::save(path, &header, &[&learnt, &average, &best, &optimizer, &evolution, &teachers])
    }

    /// Continues a training as if it had not been interrupted; the lessons that are in the memory are made again on so
    /// many threads, and `observe` is told how many of how many rounds of them are done.
    ///
    /// # Errors
    /// [`Error::Size`] naming a setting or the graphs if they are not those of the state; those of
    /// [`Checkpoint::load`] if the file is damaged.
    pub fn resume(
        config: TrainConfig,
        graphs: Vec<Arc<FlatGraph>>,
        state: &State,
        threads: usize,
        observe: &mut dyn FnMut(usize, usize),
    ) -> Result<Self> {
        let saved = &state.checkpoint.config;
        check_same(&config, &saved.config)?;
        check_graphs(&graphs, &saved.graphs)?;
        let mut trainer = Self::new(config, graphs)?;
        let learnt = prefixed("learnt", trainer.network.params())?;
        let average = prefixed("average", &trainer.average)?;
        let optimizer = trainer.optimizer.state(trainer.network.params())?;
        let teachers = teachers(saved.taught, average.count())?;
        let (best, evolution) = (prefixed("best", &trainer.average)?, Evolution::empty()?);
        state.checkpoint.load(&[&learnt, &average, &best, &optimizer, &evolution, &teachers])?;
        fill(trainer.network.params(), &flat(&learnt)?)?;
        trainer.optimizer.restore(&optimizer)?;
        trainer.curve.clone_from(&saved.curve);
        trainer.best = match saved.best {
            Some(plan) => Some(Best { plan, weights: flat(&best)? }),
            None => None,
        };
        trainer.evolution = if saved.evolves { Some(Evolution::of_params(&evolution)?) } else { None };
        let first = saved.round.saturating_sub(saved.taught as u64);
        let rows = flat(&teachers)?;
        for (i, weights) in rows.chunks_exact(average.count()).enumerate() {
            observe(i, saved.taught);
            fill(&trainer.average, weights)?;
            let scorer = Arc::new(Scorer::new(&trainer.average)?);
            let lessons = teach(&trainer.config, &trainer.learnt, first + i as u64, &scorer, threads);
            trainer.remember(weights.to_vec(), lessons);
        }
        fill(&trainer.average, &flat(&average)?)?;
        trainer.round = saved.round;
        Ok(trainer)
    }
}

/// Names the first graph that differs.
fn check_graphs(own: &[Arc<FlatGraph>], saved: &[(String, String)]) -> Result<()> {
    let refuse = |what: String, found: String, expected: String| Err(Error::Size { what, found, expected });
    if own.len() != saved.len() {
        let what = "number of graphs that the resumed training learns from".into();
        return refuse(what, own.len().to_string(), saved.len().to_string());
    }
    for (i, (graph, (name, expected))) in own.iter().zip(saved).enumerate() {
        let found = digest(graph);
        if found != *expected {
            let what = format!("digest of graph {} ('{name}') that the resumed training learns from", i + 1);
            return refuse(what, format!("{found} ('{}')", graph.name()), expected.clone());
        }
    }
    Ok(())
}

/// Tells graphs apart that are not learnt from in the same way: kinds, work, demands, dependencies and their bytes.
fn digest(graph: &FlatGraph) -> String {
    let mut hasher = blake3::Hasher::new();
    for kind in graph.kinds() {
        hasher.update(&(kind.len() as u64).to_le_bytes()).update(kind.as_bytes());
    }
    for task in graph.tasks() {
        hasher.update(&(graph.kind(task).index() as u64).to_le_bytes());
        hasher.update(&graph.work(task).to_bits().to_le_bytes());
        hasher.update(format!("{:?}", graph.demands()[graph.demand(task).index()]).as_bytes());
        hasher.update(&(graph.parents(task).len() as u64).to_le_bytes());
        for (parent, bytes) in graph.parents(task).iter().zip(graph.parent_bytes(task, DataModel::Edges)) {
            hasher.update(&parent.get().to_le_bytes()).update(&bytes.to_bits().to_le_bytes());
        }
    }
    for times in graph.per_node_times() {
        hasher.update(format!("{times:?}").as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

/// Names the first setting that differs.
fn check_same(wanted: &TrainConfig, saved: &TrainConfig) -> Result<()> {
    let text = |config| serde_json::to_value(config).map_err(|e| Error::Malformed(e.to_string()));
    let (wanted, saved) = (text(wanted)?, text(saved)?);
    for (name, expected) in saved.as_object().into_iter().flatten() {
        let found = wanted.get(name).unwrap_or_default();
        if found != expected {
            let what = format!("setting '{name}' of the resumed training");
            return Err(Error::Size { what, found: found.to_string(), expected: expected.to_string() });
        }
    }
    Ok(())
}

/// An independent copy under other names.
fn prefixed(prefix: &str, params: &Params) -> Result<Params> {
    let (mut copy, mut rng) = (Params::default(), Rng::seed_from_u64(0));
    for (name, var) in params.iter() {
        let (rows, columns) = var.dims2()?;
        copy.add(format!("{prefix}.{name}"), rows, columns, Init::Constant(0.0), &mut rng)?;
    }
    fill(&copy, &flat(params)?)?;
    Ok(copy)
}

/// One row of weights per round; nothing for no rounds.
fn teachers(rounds: usize, count: usize) -> Result<Params> {
    let mut params = Params::default();
    if rounds > 0 {
        params.add(TEACHERS, rounds, count, Init::Constant(0.0), &mut Rng::seed_from_u64(0))?;
    }
    Ok(params)
}

/// All numbers in order.
pub(super) fn flat(params: &Params) -> Result<Vec<f32>> {
    let mut all = Vec::with_capacity(params.count());
    for (_, var) in params.iter() {
        all.extend(var.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(all)
}

/// Takes over what [`flat`] gave for parameters of the same shapes.
pub(super) fn fill(params: &Params, values: &[f32]) -> Result<()> {
    let mut rest = values;
    for (_, var) in params.iter() {
        let (own, others) = rest.split_at(var.elem_count());
        var.set(&Tensor::from_slice(own, var.shape(), &Device::Cpu)?)?;
        rest = others;
    }
    Ok(())
}
