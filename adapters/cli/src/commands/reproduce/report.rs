//! What a comparison found, as one JSON object and as text.

use std::collections::BTreeMap;

use mdts_policies::mdts::paper::Summary;
use serde::Serialize;

/// Both forms.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) report: Report,
    pub(super) text: String,
}

/// A paper's comparison.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    pub(super) name: &'static str,
    pub(super) seeds: u64,
    pub(super) settings: Vec<Setting>,
}

/// All policies in one setting.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Setting {
    /// Its name.
    pub(super) setting: String,
    /// What it was made of.
    pub(super) parameters: serde_json::Value,
    pub(super) rows: Vec<Row>,
    /// By how much the method is above its main rival when both have learnt from the same number of steps.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) equal_steps: BTreeMap<&'static str, Summary>,
}

/// One policy over all seeds.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) policy: &'static str,
    pub(super) metrics: BTreeMap<&'static str, Summary>,
    /// By how much the method of the paper is above this policy, as a share; below 0 it is better.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) change: BTreeMap<&'static str, Summary>,
    /// Mean steps that were learnt from.
    pub(super) steps: f64,
    /// Mean wall seconds of learning, or of deciding.
    pub(super) wall_seconds: f64,
    /// The same in processor seconds of the thread: what equal time goes by, since others may use the machine, too.
    pub(super) cpu_seconds: f64,
}
