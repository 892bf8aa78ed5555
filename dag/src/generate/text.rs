//! Generators by name, for command lines: `name`, or `name:parameter=value,parameter=value`.
//!
//! Parameters are the public fields of the generator's struct, those of [`Costs`](super::Costs) included; `-` and `_`
//! are the same. Sizes and durations take units (`bandwidth=1GB`, `mean-seconds=2m`).

use std::fmt;
use std::str::FromStr;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check::bad;
use super::{
    Chain, Cholesky, Epigenomics, ErdosRenyi, Fft, ForkJoin, GaussianElimination, Independent, Layered,
    Montage,
};
use crate::text::nearest;
use crate::{JobGraph, Result, units};

/// A random generator that gives the same numbers for the same seed, on every machine.
pub fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Generates the graph that a text such as `layered:tasks=500,ccr=0.5` describes; see [`Generator`].
///
/// # Errors
/// [`crate::Error::BadParameter`] with the known names when the generator or a parameter is not known, or with what
/// was expected when a value is not right.
pub fn from_text(text: &str, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
    text.parse::<Generator>()?.generate(rng)
}

/// One line per generator: variant and struct, name, what it makes.
macro_rules! generators {
    ($($variant:ident, $name:literal, $about:literal;)+) => {
        /// Any generator with its parameters; reads from and writes to text.
        ///
        /// ```
        /// use mdts_dag::generate::Generator;
        /// let generator: Generator = "cholesky:tiles=5".parse()?;
        /// assert_eq!(generator.name(), "cholesky");
        /// assert!(generator.to_string().ends_with("spread=0.5,tiles=5"));
        /// let error = "choleski".parse::<Generator>().unwrap_err().to_string();
        /// assert!(error.contains("did you mean 'cholesky'?"), "{error}");
        /// # Ok::<(), mdts_dag::Error>(())
        /// ```
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Generator {
            $(#[doc = $about] #[serde(rename = $name)] $variant($variant),)+
        }

        impl Generator {
            /// All generators with their default parameters.
            pub fn all() -> Vec<Self> {
                vec![$(Self::$variant($variant::default()),)+]
            }

            /// Name in texts.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)+ }
            }

            /// What it makes, in one line.
            pub fn about(&self) -> &'static str {
                match self { $(Self::$variant(_) => $about,)+ }
            }

            /// Generates a graph. O(tasks + dependencies).
            ///
            /// # Errors
            /// [`crate::Error::BadParameter`].
            pub fn generate(&self, rng: &mut (impl Rng + ?Sized)) -> Result<JobGraph> {
                match self { $(Self::$variant(spec) => spec.generate(rng),)+ }
            }
        }
    };
}

generators! {
    Layered, "layered", "Random layers of tasks.";
    ErdosRenyi, "erdos-renyi", "Random pairs of tasks, no structure.";
    ForkJoin, "fork-join", "Stages of parallel tasks with barriers between them.";
    Fft, "fft", "Fast Fourier transform.";
    GaussianElimination, "gaussian-elimination", "Gaussian elimination of a matrix.";
    Cholesky, "cholesky", "Tiled Cholesky factorisation.";
    Montage, "montage", "Astronomical mosaic, with files and measured run times.";
    Epigenomics, "epigenomics", "DNA sequencing pipeline, with files and measured run times.";
    Chain, "chain", "Tasks one after the other.";
    Independent, "independent", "Tasks without dependencies.";
}

impl Generator {
    /// Names and values of the parameters, in alphabetical order.
    pub fn parameters(&self) -> Vec<(String, String)> {
        self.settings().into_iter().map(|(name, value)| (name, value.to_string())).collect()
    }

    fn settings(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(mut tagged)) => match tagged.remove(self.name()) {
                Some(Value::Object(settings)) => settings,
                _ => Map::new(),
            },
            _ => Map::new(), // cannot be: the specs are plain structs of numbers
        }
    }

    fn with(&self, settings: Map<String, Value>) -> Result<Self> {
        let tagged = Map::from_iter([(self.name().to_owned(), Value::Object(settings))]);
        serde_json::from_value(Value::Object(tagged)).map_err(|e| bad(self.name(), e.to_string()))
    }
}

impl FromStr for Generator {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, assignments) = text.split_once(':').unwrap_or((text, ""));
        let generator = find(name)?;
        let mut settings = generator.settings();
        for assignment in assignments.split(',').map(str::trim).filter(|a| !a.is_empty()) {
            set(&generator, &mut settings, assignment)?;
        }
        generator.with(settings)
    }
}

impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        for (i, (name, value)) in self.settings().into_iter().enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

fn find(name: &str) -> Result<Generator> {
    let wanted = name.trim().to_ascii_lowercase().replace('_', "-");
    let all = Generator::all();
    let names: Vec<&str> = all.iter().map(Generator::name).collect();
    let hint = did_you_mean(&wanted, &names);
    all.into_iter().find(|g| g.name() == wanted).ok_or_else(|| {
        bad(
            format!("generator '{}'", name.escape_debug()),
            format!("not known{hint}; there are {}", names.join(", ")),
        )
    })
}

/// Carries out one `parameter=value`.
fn set(generator: &Generator, settings: &mut Map<String, Value>, assignment: &str) -> Result<()> {
    let Some((key, text)) = assignment.split_once('=') else {
        let message = format!("'{}' is no parameter; expected name=value", assignment.escape_debug());
        return Err(bad(generator.name(), message));
    };
    let key = key.trim().to_ascii_lowercase().replace('-', "_");
    let names: Vec<&str> = settings.keys().map(String::as_str).collect();
    let Some(default) = settings.get(&key) else {
        let hint = did_you_mean(&key, &names);
        let message = format!("no parameter of this generator{hint}; it has {}", names.join(", "));
        return Err(bad(format!("{}:{}", generator.name(), key.escape_debug()), message));
    };
    let value = parse(&key, text.trim(), default.is_u64())
        .map_err(|message| bad(format!("{}:{key}", generator.name()), message))?;
    settings.insert(key, value);
    Ok(())
}

fn did_you_mean(name: &str, names: &[&str]) -> String {
    nearest(name, names.iter().copied()).map_or(String::new(), |near| format!("; did you mean '{near}'?"))
}

/// A whole number or a float with the unit that the parameter's name tells.
fn parse(key: &str, text: &str, whole: bool) -> Result<Value, String> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    let shown = text.escape_debug();
    let number = if key.ends_with("seconds") {
        units::parse_seconds(text)?
    } else if key == "bandwidth" {
        units::parse_bytes(text)?
    } else {
        text.parse::<f64>().map_err(|_| format!("'{shown}' is not a number"))?
    };
    if !whole {
        return serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or(format!("'{shown}' is not finite"));
    }
    if number.fract() == 0.0 && (0.0..=EXACT).contains(&number) {
        return Ok(Value::from(number as u64));
    }
    Err(format!("'{shown}' is not a whole number from 0"))
}
