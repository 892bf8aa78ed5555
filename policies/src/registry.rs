//! The table of all policies, for command lines and documentation.

use std::fmt;

use mdts_core::roles::{Planned, Simulated};
use mdts_core::{Placer, Planner, Rng, Schedule};
use mdts_dag::text::nearest;
use rand::{Rng as _, SeedableRng};

use crate::{Error, Result, balance, learn, list, mdts, search};

/// Which of the two traits a policy implements itself; the adapters of core give it the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Plans whole jobs.
    Planner,
    /// Places ready tasks while a job runs.
    Placer,
    /// Either.
    Both,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Planner => "planner",
            Self::Placer => "placer",
            Self::Both => "both",
        })
    }
}

/// A policy in the role that is its own.
#[derive(Debug)]
pub enum AnyPolicy {
    /// Plans whole jobs.
    Planner(Box<dyn Planner>),
    /// Places ready tasks while a job runs.
    Placer(Box<dyn Placer>),
}

/// What the table says of a policy.
#[derive(Debug)]
pub struct PolicyInfo {
    /// Its name on the command line.
    pub name: &'static str,
    /// The role that is its own.
    pub role: Role,
    /// What it does, in one line.
    pub about: &'static str,
    /// Where it was published; empty for what everybody knows.
    pub source: &'static str,
    /// What it costs: n tasks, e dependencies, p nodes, g groups of ready tasks that differ in more than work.
    ///
    /// A search for a gap counts as log n, see [`mdts_core::Timeline`] for what it depends on. Nodes that run tasks
    /// side by side are searched that way by policies without insertion, too.
    pub complexity: &'static str,
    make: Make,
}

/// Only placers draw random numbers that are their own; planners are handed theirs.
#[derive(Debug)]
enum Make {
    Planner(fn() -> Box<dyn Planner>),
    Placer(fn(Rng) -> Box<dyn Placer>),
    Both(fn() -> Box<dyn Planner>, fn(Rng) -> Box<dyn Placer>),
}

impl PolicyInfo {
    /// The policy in its own role, as a planner if it has both. `seed` is for what it draws as a placer.
    pub fn build(&self, seed: u64) -> AnyPolicy {
        match self.make {
            Make::Planner(make) | Make::Both(make, _) => AnyPolicy::Planner(make()),
            Make::Placer(make) => AnyPolicy::Placer(make(Rng::seed_from_u64(seed))),
        }
    }

    /// The policy as a planner: itself, or [`Simulated`].
    pub fn planner(&self) -> Box<dyn Planner> {
        match self.make {
            Make::Planner(make) | Make::Both(make, _) => make(),
            Make::Placer(make) => {
                // The first plan draws what the placer of the same seed draws.
                Box::new(Simulated::new(move |rng: &mut Rng| {
                    let own = rng.clone();
                    rng.random::<u64>();
                    make(own)
                }))
            }
        }
    }

    /// The policy as a placer: itself, or [`Planned`], which plans anew when a task is late by a tenth of the first
    /// plan.
    pub fn placer(&self, seed: u64) -> Box<dyn Placer> {
        match self.make {
            Make::Planner(make) => {
                let planned = Planned::new(make(), Rng::seed_from_u64(seed));
                Box::new(planned.replan_when_late(LATE))
            }
            Make::Placer(make) | Make::Both(_, make) => make(Rng::seed_from_u64(seed)),
        }
    }

    /// A placer that follows a plan made by other means. When that is late or nodes change, the rest is planned by
    /// this policy.
    pub fn placer_with_plan(&self, plan: Schedule, seed: u64) -> Box<dyn Placer> {
        follow(plan, self.planner(), seed)
    }
}

/// A placer that follows a plan; when that is late or nodes change, `planner` plans the rest.
pub fn follow(plan: Schedule, planner: Box<dyn Planner>, seed: u64) -> Box<dyn Placer> {
    let planned = Planned::new(planner, Rng::seed_from_u64(seed));
    Box::new(planned.replan_when_late(LATE).beginning_with(plan))
}

/// A plan is made anew when a task is late by this part of the first plan's span.
const LATE: f64 = 0.1;

/// All policies.
pub fn policies() -> &'static [PolicyInfo] {
    POLICIES
}

/// The policy of this name.
///
/// ```
/// let heft = mdts_policies::find("heft")?;
/// assert_eq!(heft.role, mdts_policies::Role::Planner);
/// let message = mdts_policies::find("heftt").unwrap_err().to_string();
/// assert!(message.contains("did you mean 'heft'?"));
/// # Ok::<(), mdts_policies::Error>(())
/// ```
///
/// # Errors
/// [`Error::UnknownPolicy`] with the nearest name and all names.
pub fn find(name: &str) -> Result<&'static PolicyInfo> {
    POLICIES.iter().find(|p| p.name == name).ok_or_else(|| {
        let names = POLICIES.iter().map(|p| p.name);
        let hint = nearest(&name.replace(['_', ' '], "-"), names.clone());
        Error::UnknownPolicy {
            name: name.escape_debug().collect(),
            hint: hint.map_or(String::new(), |known| format!("; did you mean '{known}'?")),
            known: names.collect::<Vec<_>>().join(", "),
        }
    })
}

macro_rules! planner {
    ($name:literal, $policy:expr, $about:literal, $source:literal, $complexity:literal) => {
        PolicyInfo {
            name: $name,
            role: Role::Planner,
            about: $about,
            source: $source,
            complexity: $complexity,
            make: Make::Planner(|| Box::new($policy)),
        }
    };
}

macro_rules! placer {
    ($name:literal, $make:expr, $about:literal, $source:literal, $complexity:literal) => {
        PolicyInfo {
            name: $name,
            role: Role::Placer,
            about: $about,
            source: $source,
            complexity: $complexity,
            make: Make::Placer($make),
        }
    };
}

/// What the weights of this crate make. Should they not be readable, which a test rules out, a list policy stands in.
fn learned<P: ?Sized>(
    weights: learn::Result<mdts::Weights>,
    make: fn(mdts::Weights) -> Box<P>,
    stand_in: fn() -> Box<P>,
) -> Box<P> {
    match weights {
        Ok(weights) => make(weights),
        Err(error) => {
            tracing::warn!(%error, "the learned policy has no weights, HEFT and EFT stand in");
            stand_in()
        }
    }
}

fn guarded_planner(weights: learn::Result<mdts::Weights>) -> Box<dyn Planner> {
    learned::<dyn Planner>(weights, |weights| Box::new(mdts::Mdts::new(weights)), || Box::new(list::Heft))
}

fn raw_planner(weights: learn::Result<mdts::Weights>) -> Box<dyn Planner> {
    learned::<dyn Planner>(weights, |weights| Box::new(mdts::MdtsRaw::new(weights)), || Box::new(list::Heft))
}

fn learned_placer(weights: learn::Result<mdts::Weights>) -> Box<dyn Placer> {
    learned::<dyn Placer>(
        weights,
        |weights| Box::new(mdts::MdtsRaw::new(weights).placer()),
        || Box::<balance::Eft>::default(),
    )
}

static POLICIES: &[PolicyInfo] = &[
    planner!(
        "heft",
        list::Heft,
        "by upward rank, each task where it finishes first, gaps included",
        "Topcuoglu, Hariri, Wu 2002",
        "n p log n + e"
    ),
    planner!(
        "cpop",
        list::Cpop,
        "the critical path on the one node that runs it fastest, all else where it finishes first",
        "Topcuoglu, Hariri, Wu 2002",
        "n p log n + e"
    ),
    planner!(
        "peft",
        list::Peft,
        "earliest finish plus the least that the rest can take from there (optimistic cost table)",
        "Arabnejad, Barbosa 2014",
        "n p log n + e p"
    ),
    planner!(
        "lookahead",
        list::Lookahead,
        "HEFT that chooses the node from which the last child finishes first",
        "Bittencourt, Sakellariou, Madeira 2010",
        "e p^2 log n"
    ),
    planner!(
        "dls",
        list::Dls,
        "the pair of ready task and node with the highest dynamic level",
        "Sih, Lee 1993",
        "n (p + g)"
    ),
    planner!(
        "min-min",
        list::MinMin,
        "the ready task that can finish first, where it does",
        "Ibarra, Kim 1977",
        "n (p + g)"
    ),
    planner!(
        "max-min",
        list::MaxMin,
        "the ready task whose earliest finish is latest, where it finishes first",
        "Ibarra, Kim 1977",
        "n (p + g)"
    ),
    planner!(
        "sufferage",
        list::Sufferage,
        "the ready task that loses most if it does not get its best node",
        "Maheswaran et al. 1999",
        "n (p + g)"
    ),
    planner!(
        "mct",
        list::Mct,
        "in topological order, each task where it finishes first",
        "Armstrong, Hensgen, Kidd 1998",
        "n p + e"
    ),
    placer!(
        "eft",
        |_| Box::<balance::Eft>::default(),
        "online: ready tasks by upward rank, each where it is expected to finish first",
        "Topcuoglu, Hariri, Wu 2002",
        "n p + e"
    ),
    planner!(
        "olb",
        list::Olb,
        "in topological order, each task on the node that is free first",
        "Armstrong, Hensgen, Kidd 1998",
        "n p + e"
    ),
    planner!(
        "etf",
        list::Etf,
        "the pair of ready task and node that can start first",
        "Hwang, Chow, Anger, Lee 1989",
        "n (p + g)"
    ),
    planner!(
        "met",
        list::Met,
        "each task on the node that runs it fastest, whatever the load",
        "Armstrong, Hensgen, Kidd 1998",
        "n p + e"
    ),
    planner!(
        "fastest-node",
        list::FastestNode,
        "everything on the node that runs the whole job fastest",
        "",
        "n p + e"
    ),
    placer!(
        "random",
        |rng| Box::new(balance::Random::new(rng)),
        "each ready task on a random node that can run it",
        "",
        "n p"
    ),
    placer!("round-robin", |_| Box::<balance::RoundRobin>::default(), "nodes take turns", "", "n p"),
    placer!(
        "least-connection",
        |_| Box::<balance::LeastConnection>::default(),
        "each ready task on the node with the fewest unfinished tasks",
        "Zhang 2000",
        "n p"
    ),
    planner!(
        "search",
        search::Quick,
        "the best of the list policies, improved by a search of 20,000 iterations, fewer for many tasks; the same plan \
         on every machine; HEFT plans the rest of a job that has begun",
        "Kirkpatrick, Gelatt, Vecchi 1983; Hartmann 1998",
        "those of the list policies, and i (n + e)"
    ),
    PolicyInfo {
        name: "mdts",
        role: Role::Both,
        about: "plans: the shortest of mdts-raw's and the list policies', improved by a search of 200,000 iterations, fewer \
                for many tasks; runs: as mdts-raw",
        source: "Zhang, Qi, Wang, Sun, Liao 2019",
        complexity: "those of mdts-raw and search",
        make: Make::Both(
            || guarded_planner(mdts::Weights::shipped()),
            |_| learned_placer(mdts::Weights::shipped()),
        ),
    },
    PolicyInfo {
        name: "mdts-raw",
        role: Role::Both,
        about: "a trained network scores all nodes for all ready tasks in one call; plans fill gaps like HEFT, runs bind \
                late and learn from observed run times",
        source: "Zhang, Qi, Wang, Sun, Liao 2019",
        complexity: "n p log n + e p",
        make: Make::Both(
            || raw_planner(mdts::Weights::shipped()),
            |_| learned_placer(mdts::Weights::shipped()),
        ),
    },
];

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::{Arc, Mutex};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// Keeps the levels and fields of what is logged.
    #[derive(Debug, Clone, Default)]
    struct Log(Arc<Mutex<Vec<(Level, String)>>>);

    struct Fields<'a>(&'a mut String);

    impl tracing::field::Visit for Fields<'_> {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
            _ = write!(self.0, "{field}={value:?} ");
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut text = String::new();
            event.record(&mut Fields(&mut text));
            self.0.lock().unwrap().push((*event.metadata().level(), text));
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn list_policies_stand_in_for_weights_that_cannot_be_read() {
        let log = Log::default();
        let damaged = || mdts::Weights::from_bytes(b"no weights");
        let names = tracing::subscriber::with_default(log.clone(), || {
            [
                format!("{:?}", guarded_planner(damaged())),
                format!("{:?}", raw_planner(damaged())),
                format!("{:?}", learned_placer(damaged())),
            ]
        });
        assert_eq!(names[..2], ["Heft", "Heft"]);
        assert!(names[2].starts_with("Eft"), "{}", names[2]);
        let said = log.0.lock().unwrap();
        assert_eq!(said.len(), 3);
        for (level, text) in &*said {
            assert_eq!(*level, Level::WARN);
            assert!(text.contains("not a whole checkpoint") && text.contains("stand in"), "{text}");
        }
    }
}
