//! The predictor: observes run times, and predicts them by kind, by name or by what tasks look like.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use mdts_core::{Cluster, NodeId, Rng};
use mdts_dag::generate::seeded;
use ndarray::{Array2, ArrayView1};
use serde::Serialize;

use super::features::{COLUMNS, Features, View};
use super::history::{History, Place, Sample, seconds};
use super::model::{Choice, Method, Samples};
use super::stem::stem;
use super::types::Types;
use super::{Error, Result};
use crate::mdts::Experience;

/// Fewest samples for a type of its own.
const FEWEST: usize = 3;
/// A type is fitted anew when it has grown by a fifth.
const GROWTH: f64 = 1.2;
/// Most samples that a fit looks at, evenly chosen.
const MOST_FITTED: usize = 2048;
/// Standard deviations on either side of the middle that hold 80 % of a normal distribution.
const FOUR_IN_FIVE: f64 = 1.281_551_565_544_6;

/// What a prediction rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Tasks of the same kind.
    Kind,
    /// Tasks whose kinds share a stem with it.
    Name,
    /// Tasks that look alike.
    Looks,
}

/// A predicted run time: lognormal around its median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Median seconds on the node.
    pub seconds: f64,
    /// Standard deviation of the logarithm of the run time, measured on samples that were left out.
    pub sigma: f64,
    /// What it rests on.
    pub source: Source,
    /// The model.
    pub method: Method,
}

impl Prediction {
    /// The seconds between which four of five run times are expected.
    pub fn interval(&self) -> (f64, f64) {
        let factor = (FOUR_IN_FIVE * self.sigma).exp();
        (self.seconds / factor, self.seconds * factor)
    }
}

/// Learns run times per kind of task and predicts them, with an uncertainty.
///
/// Models are fitted when they are first asked for, and again when their type has grown by a fifth; the same
/// observations in the same order give the same predictions.
///
/// ```
/// use mdts_policies::predict::{Features, Predictor};
/// let mut predictor = Predictor::new(0);
/// predictor.begin_run();
/// for bytes in 1..=40 {
///     let features = Features { input_bytes: f64::from(bytes) * 1e6, ..Features::default() };
///     predictor.observe("align", features, f64::from(bytes) * 2.0)?;
/// }
/// let large = Features { input_bytes: 30.5e6, ..Features::default() };
/// let prediction = predictor.predict("align", &large)?;
/// assert!((prediction.seconds - 61.0).abs() < 1.0, "{prediction:?}");
/// # Ok::<(), mdts_policies::predict::Error>(())
/// ```
#[derive(Debug)]
pub struct Predictor {
    seed: u64,
    methods: Vec<Method>,
    history: History,
    kinds: BTreeMap<String, Pool>,
    stems: BTreeMap<String, Pool>,
    samples: usize,
    looks: OnceLock<Looks>,
}

/// Kinds whose samples are fitted together.
#[derive(Debug, Default)]
struct Pool {
    kinds: Vec<String>,
    samples: usize,
    fitted: OnceLock<Fitted>,
}

/// One type: a model for each view of its samples.
#[derive(Debug)]
struct Fitted {
    samples: usize,
    /// The smallest value of every column.
    lowest: [f64; COLUMNS.len()],
    /// In the order of [`View::ALL`].
    choices: [Choice; View::ALL.len()],
}

/// Types by looks, and the number of samples that they were found among.
#[derive(Debug)]
struct Looks {
    samples: usize,
    types: Types,
    /// None where a type has no samples.
    fitted: Vec<Option<Fitted>>,
}

impl Predictor {
    /// A predictor that knows nothing; the seed is that of folds and of the search for types.
    pub fn new(seed: u64) -> Self {
        Self::with_methods(seed, &Method::ALL)
    }

    /// A predictor that chooses among some methods only, the simplest first.
    pub fn with_methods(seed: u64, methods: &[Method]) -> Self {
        Self {
            seed,
            methods: methods.into(),
            history: History::default(),
            kinds: BTreeMap::new(),
            stems: BTreeMap::new(),
            samples: 0,
            looks: OnceLock::new(),
        }
    }

    /// Reads a history.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::InFile`] if it is damaged or of another version.
    pub fn load(path: &Path, seed: u64) -> Result<Self> {
        Ok(Self::of(History::load(path)?, seed))
    }

    /// Reads a history from the text of a file.
    ///
    /// # Errors
    /// [`Error::Parse`] or [`Error::Version`] if it is damaged or of another version.
    pub fn from_json(text: &str, seed: u64) -> Result<Self> {
        Ok(Self::of(History::from_json(text)?, seed))
    }

    fn of(history: History, seed: u64) -> Self {
        let mut predictor = Self::new(seed);
        for (kind, samples) in &history.kinds {
            predictor.count(kind, samples.len());
        }
        predictor.history = history;
        predictor
    }

    /// The history as the text of a file.
    pub fn to_json(&self) -> String {
        self.history.to_json()
    }

    /// Writes the history; a file of that name is always whole.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        self.history.save(path)
    }

    /// Number of runs observed.
    pub fn runs(&self) -> usize {
        self.history.runs as usize
    }

    /// Number of run times known, of all kinds.
    pub fn samples(&self) -> usize {
        self.history.kinds.values().map(Vec::len).sum()
    }

    /// The kinds known, with the number of their samples.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = (&str, usize)> {
        self.history.kinds.iter().map(|(kind, samples)| (kind.as_str(), samples.len()))
    }

    /// What is observed from now on belongs to one run; models are judged by runs that they have not seen.
    pub fn begin_run(&mut self) {
        self.history.runs = self.history.runs.saturating_add(1);
    }

    /// Learns that a task of this kind ran for so many seconds on the node that its features name.
    ///
    /// # Errors
    /// [`Error::BadNumber`] if a number is NaN, infinite or negative; nothing is learnt then.
    pub fn observe(&mut self, kind: &str, features: Features, seconds: f64) -> Result<()> {
        self.observe_on(kind, features, seconds, None)
    }

    /// The same, with where it ran if that is known.
    pub(super) fn observe_on(
        &mut self,
        kind: &str,
        features: Features,
        seconds: f64,
        on: Option<Place>,
    ) -> Result<()> {
        self.history.add(kind, Sample { run: self.history.runs, seconds, features, on })?;
        self.count(kind, 1);
        Ok(())
    }

    /// What the learned policy can know of these nodes from runs that [`Predictor::learn_run`] learnt: by how much each of
    /// them is slower or faster with which kind of task than was expected there. Nodes are known by their names.
    ///
    /// ```
    /// # use mdts_core::{Cluster, SlotModel};
    /// # use mdts_policies::predict::Predictor;
    /// let cluster = Cluster::identical(2, SlotModel::Exclusive)?;
    /// assert!(Predictor::new(0).experience(&cluster).is_empty());
    /// # Ok::<(), mdts_core::Error>(())
    /// ```
    pub fn experience(&self, cluster: &Cluster) -> Experience {
        let ids: BTreeMap<&str, NodeId> =
            cluster.node_ids().map(|id| (cluster.node(id).name.as_str(), id)).collect();
        let mut experience = Experience::default();
        for (kind, samples) in &self.history.kinds {
            for sample in samples {
                if let Some(place) = &sample.on
                    && let Some(&node) = ids.get(&*place.node)
                {
                    experience.observe(kind, node, place.expected, sample.seconds);
                }
            }
        }
        experience
    }

    /// Predicts a run time on the node that the features name. The first call for a type fits its models.
    ///
    /// # Errors
    /// [`Error::BadNumber`] if a feature is NaN, infinite or negative; [`Error::Empty`] if nothing was learnt.
    pub fn predict(&self, kind: &str, features: &Features) -> Result<Prediction> {
        features.check(kind)?;
        let columns = features.columns();
        let (source, fitted) = self.type_of(kind, &columns).ok_or(Error::Empty)?;
        let view = View::of(&columns, &fitted.lowest);
        let choice = &fitted.choices[View::ALL.iter().position(|v| *v == view).unwrap_or(0)];
        let target = choice.predict(ArrayView1::from(&columns[..view.width()]));
        let seconds = seconds(target, features.speed);
        Ok(Prediction { seconds, sigma: choice.sigma, source, method: choice.method })
    }

    /// The kind if it has enough samples, else all of its stem, else what there is of either, else what looks alike.
    fn type_of(&self, kind: &str, columns: &[f64; COLUMNS.len()]) -> Option<(Source, &Fitted)> {
        let own = self.kinds.get(kind).map(|pool| (Source::Kind, pool));
        let named = self.stems.get(stem(kind)).map(|pool| (Source::Name, pool));
        let known = [own, named].into_iter().flatten();
        let enough = known.clone().find(|(_, pool)| pool.samples >= FEWEST);
        match enough.or_else(|| known.clone().next()) {
            Some((source, pool)) => Some((source, self.fitted(pool))),
            None => self.by_looks(columns).map(|fitted| (Source::Looks, fitted)),
        }
    }

    fn fitted<'a>(&self, pool: &'a Pool) -> &'a Fitted {
        pool.fitted.get_or_init(|| {
            let samples: Vec<&Sample> = self.history.of(&pool.kinds).collect();
            self.fit(&samples, pool.samples)
        })
    }

    fn by_looks(&self, columns: &[f64; COLUMNS.len()]) -> Option<&Fitted> {
        if self.samples == 0 {
            return None;
        }
        let looks = self.looks.get_or_init(|| self.find_looks());
        let width = View::Before.width();
        looks.fitted[looks.types.of(ArrayView1::from(&columns[..width]))].as_ref()
    }

    fn find_looks(&self) -> Looks {
        let all: Vec<&Sample> = self.history.kinds.values().flatten().collect();
        let all = thinned(&all);
        let x = matrix(&all, View::Before);
        let types = Types::discover(x.view(), &mut self.rng());
        let mut of_type: Vec<Vec<&Sample>> = vec![Vec::new(); types.count()];
        for (sample, row) in all.iter().zip(x.rows()) {
            of_type[types.of(row)].push(sample);
        }
        let fitted = of_type.iter().map(|of| (!of.is_empty()).then(|| self.fit(of, of.len()))).collect();
        Looks { samples: self.samples, types, fitted }
    }

    /// Fits the models of one type; there is at least one sample.
    fn fit(&self, samples: &[&Sample], count: usize) -> Fitted {
        let samples = thinned(samples);
        let choices = View::ALL.map(|view| {
            let of_view = Samples {
                x: matrix(&samples, view),
                y: samples.iter().map(|s| s.target()).collect(),
                run: samples.iter().map(|s| s.run).collect(),
            };
            Choice::fit(&of_view, &self.methods, &mut self.rng())
        });
        let lowest = samples.iter().map(|s| s.features.columns()).reduce(|mut least, row| {
            least.iter_mut().zip(row).for_each(|(a, b)| *a = a.min(b));
            least
        });
        Fitted { samples: count, lowest: lowest.unwrap_or_default(), choices }
    }

    /// Counts new samples of a kind, and drops models that have become stale.
    fn count(&mut self, kind: &str, new: usize) {
        let is_stale = |fitted: usize, now: usize| now as f64 >= fitted as f64 * GROWTH;
        self.samples += new;
        if self.looks.get().is_some_and(|looks| is_stale(looks.samples, self.samples)) {
            self.looks.take();
        }
        for (pools, name) in [(&mut self.kinds, kind), (&mut self.stems, stem(kind))] {
            if !pools.contains_key(name) {
                pools.insert(name.into(), Pool::default());
            }
            let Some(pool) = pools.get_mut(name) else { continue };
            if let Err(at) = pool.kinds.binary_search_by(|known| known.as_str().cmp(kind)) {
                pool.kinds.insert(at, kind.into());
            }
            pool.samples += new;
            if pool.fitted.get().is_some_and(|fitted| is_stale(fitted.samples, pool.samples)) {
                pool.fitted.take();
            }
        }
    }

    /// Every fit begins with the same numbers, so that the order of fits does not matter.
    fn rng(&self) -> Rng {
        seeded(self.seed)
    }
}

/// The samples themselves, or evenly chosen ones of very many.
fn thinned<'a>(samples: &[&'a Sample]) -> Vec<&'a Sample> {
    let step = samples.len().div_ceil(MOST_FITTED).max(1);
    samples.iter().step_by(step).copied().collect()
}

fn matrix(samples: &[&Sample], view: View) -> Array2<f64> {
    let mut x = Array2::zeros((samples.len(), view.width()));
    for (mut row, sample) in x.rows_mut().into_iter().zip(samples) {
        row.iter_mut().zip(sample.features.columns()).for_each(|(to, value)| *to = value);
    }
    x
}
