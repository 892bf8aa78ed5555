//! Trained weights: a checkpoint, in a file or inside this crate.

use std::path::Path;
use std::sync::Arc;

use mdts_core::Rng;
use rand::SeedableRng;
use serde::{Deserialize, Serialize};

use super::network::{PairNetwork, Scorer, Scores};
use super::situation::{FEATURES, Situation};
use super::training::{Report, TrainConfig};
use crate::learn::{Checkpoint, Error, Header, Result, checkpoint};

/// What a checkpoint tells of its training.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Training {
    /// How it was trained.
    pub config: TrainConfig,
    /// Rounds until these weights.
    pub round: u64,
    /// The rounds that were measured on validation jobs, up to these weights.
    pub curve: Vec<Report>,
    /// Names of the graphs learnt from beside the generated ones.
    #[serde(default)]
    pub graphs: Vec<String>,
}

/// Weights of the network, ready to decide.
#[derive(Debug, Clone)]
pub struct Weights {
    pub(crate) scorer: Arc<Scorer>,
    training: Arc<Training>,
}

/// The weights that come with this crate.
const SHIPPED: &[u8] = include_bytes!("weights.safetensors");

impl Weights {
    /// The weights that come with this crate.
    ///
    /// # Errors
    /// As [`Weights::from_bytes`]; a test sees to it that there are none.
    pub fn shipped() -> Result<Self> {
        Self::from_bytes(SHIPPED)
    }

    /// Reads a checkpoint file.
    ///
    /// # Errors
    /// As [`checkpoint::read`] and [`Checkpoint::load`].
    pub fn read(path: &Path) -> Result<Self> {
        let in_file = |source| Error::InFile { path: path.into(), source: Box::new(source) };
        Self::new(&checkpoint::read(path, FEATURES)?).map_err(in_file)
    }

    /// Reads the bytes of a checkpoint.
    ///
    /// # Errors
    /// As [`Checkpoint::from_bytes`] and [`Checkpoint::load`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::new(&Checkpoint::from_bytes(bytes, FEATURES)?)
    }

    fn new(checkpoint: &Checkpoint<Training>) -> Result<Self> {
        let network = PairNetwork::new(&mut Rng::seed_from_u64(0))?;
        checkpoint.load(&[network.params()])?;
        let training = Arc::new(checkpoint.config.clone());
        Ok(Self { scorer: Arc::new(Scorer::new(network.params())?), training })
    }

    /// How they came about.
    pub fn training(&self) -> &Training {
        &self.training
    }
}

/// Writes a checkpoint of a network that is trained; the file is whole or not there.
///
/// # Errors
/// As [`checkpoint::save`].
pub fn save(path: &Path, trainer: &super::training::Trainer, training: &Training) -> Result<()> {
    let header = Header { features: FEATURES, config: training };
    checkpoint::save(path, &header, &[trainer.params()])
}

/// The network alone, on the features of one step that are made up: to measure what a call takes.
///
/// ```
/// use mdts_policies::mdts::{Probe, Weights};
/// let mut probe = Probe::new(&Weights::shipped()?, 64, 100);
/// assert_eq!(probe.call().len(), 64 * 100);
/// # Ok::<(), mdts_policies::learn::Error>(())
/// ```
#[derive(Debug)]
pub struct Probe {
    scorer: Arc<Scorer>,
    seen: Situation,
    scores: Scores,
}

impl Probe {
    /// A step of so many ready tasks on so many nodes.
    pub fn new(weights: &Weights, tasks: usize, nodes: usize) -> Self {
        Self {
            scorer: weights.scorer.clone(),
            seen: Situation::made_up(tasks, nodes),
            scores: Scores::default(),
        }
    }

    /// Calls the network; the scores of all pairs, by task, without what depends on the choices of a step.
    pub fn call(&mut self) -> &[f32] {
        self.scorer.score(&self.seen, &mut self.scores);
        &self.scores.fixed
    }
}
