//! One finding, and those about the installation itself.

use serde::Serialize;

use super::Facts;

/// How good or bad something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// Works, but slowly or with surprises.
    Warning,
    /// Does not work.
    Broken,
}

/// What was found about one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject, in one word.
    pub subject: &'static str,
    /// How good or bad.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if nothing.
    pub remedy: String,
}

impl Finding {
    pub(super) fn good(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, level: Level::Good, found: found.into(), remedy: String::new() }
    }

    pub(super) fn new(
        subject: &'static str,
        level: Level,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { subject, level, found: found.into(), remedy: remedy.into() }
    }
}

/// Programs, controller, authentication, rights.
pub(super) fn of_installation(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    for (program, fault) in &facts.missing {
        let remedy = "install Slurm's client (Debian: slurm-client) and put it into PATH";
        all.push(Finding::new(
            "programs",
            Level::Broken,
            format!("{program} cannot be run: {fault}"),
            remedy,
        ));
    }
    if facts.missing.is_empty() {
        all.push(Finding::good("programs", format!("{} is installed", facts.version)));
    }
    if let Some(error) = &facts.unreachable {
        let remedy = "see that slurmctld runs (scontrol ping), that SLURM_CONF or /etc/slurm/slurm.conf is the cluster's, and that \
                      munged runs with the cluster's key (munge -n | unmunge)";
        all.push(Finding::new("controller", Level::Broken, error.clone(), remedy));
        return all;
    }
    let setting = |key: &str| facts.config.get(key).map(String::as_str).unwrap_or_default();
    let server = setting("SLURM_VERSION");
    let client = facts.version.rsplit(' ').next().unwrap_or_default();
    let series = |version: &str| version.split('.').take(2).map(str::to_owned).collect::<Vec<_>>();
    all.push(if series(server) == series(client) {
        Finding::good("controller", format!("answers; version {server}, {}", setting("AuthType")))
    } else {
        let found = format!("slurmctld is {server}, the programs here are {client}");
        Finding::new("controller", Level::Warning, found, "use programs of the controller's version")
    });
    all.push(of_rights(facts));
    all
}

fn of_rights(facts: &Facts) -> Finding {
    let owner = facts.config.get("SlurmUser").map(String::as_str).unwrap_or_default();
    let is_owner =
        owner.rsplit_once('(').is_some_and(|(_, id)| id.trim_end_matches(')') == facts.user.to_string());
    if facts.user == 0 || is_owner || facts.is_operator {
        return Finding::good("rights", "this user may change the jobs of others");
    }
    let found = "this user may change its own jobs only; a sidecar of this user leads no others";
    let remedy = format!(
        "run mdts serve --slurm as {owner}, or make this user an operator (sacctmgr modify user NAME set adminlevel=operator)"
    );
    Finding::new("rights", Level::Note, found, remedy)
}
