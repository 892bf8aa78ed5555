//! The parameters of a network: named matrices in the order in which they were made.
//!
//! All randomness comes from the generator that is handed in, and everything that walks the parameters (clipping,
//! optimizer, checkpoints) does so in this order, so that a run can be repeated bit for bit.
//! Source of the orthogonal start: Saxe et al.: Exact solutions to the nonlinear dynamics of learning
//! in deep linear neural networks, ICLR 2014; of the scaled one: He et al.: Delving deep into rectifiers, ICCV 2015.

use candle_core::{Device, Tensor, Var};
use mdts_core::Rng;
use rand::Rng as _;

use super::error::{Error, Result};

/// How a matrix starts. Rows are inputs, columns outputs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// The same number everywhere.
    Constant(f32),
    /// Uniform in `-bound..bound`.
    Uniform {
        /// The largest absolute value.
        bound: f32,
    },
    /// Normal with standard deviation gain / sqrt(inputs). Gain sqrt 2 suits layers with [`super::Activation::Relu`].
    Kaiming {
        /// Factor of all values.
        gain: f32,
    },
    /// Orthonormal rows or columns, whichever are fewer, times gain. A small gain suits the last layer of a policy:
    /// all options then begin nearly equally likely.
    Orthogonal {
        /// Factor of all values.
        gain: f32,
    },
}

/// Named matrices in a fixed order.
///
/// A clone shares its numbers with the original; [`Params::snapshot`] makes an independent copy.
///
/// ```
/// use mdts_core::Rng;
/// use mdts_policies::learn::{Init, Params};
/// use rand::SeedableRng;
/// let mut params = Params::default();
/// params.add("weight", 3, 2, Init::Orthogonal { gain: 1.0 }, &mut Rng::seed_from_u64(1))?;
/// params.add("bias", 1, 2, Init::Constant(0.0), &mut Rng::seed_from_u64(1))?;
/// assert_eq!(params.count(), 8);
/// # Ok::<(), mdts_policies::learn::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Params {
    entries: Vec<(String, Var)>,
}

impl Params {
    /// Adds a matrix and gives the tensor that layers compute with. It sees every later change of the parameter.
    ///
    /// # Errors
    /// [`Error::Setting`] if the name is taken.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        rows: usize,
        columns: usize,
        init: Init,
        rng: &mut Rng,
    ) -> Result<Tensor> {
        self.insert(name.into(), rows, columns, init.values(rows, columns, rng))
    }

    /// Adds a matrix with these values, row by row.
    pub(super) fn insert(
        &mut self,
        name: String,
        rows: usize,
        columns: usize,
        values: Vec<f32>,
    ) -> Result<Tensor> {
        if self.get(&name).is_some() {
            let expected = "a name that is not used yet";
            return Err(Error::Setting { what: "name of a parameter", found: name, expected });
        }
        let var = Var::from_vec(values, (rows, columns), &Device::Cpu)?;
        let tensor = var.as_tensor().clone();
        self.entries.push((name, var));
        Ok(tensor)
    }

    /// The parameters in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Var)> {
        self.entries.iter().map(|(name, var)| (name.as_str(), var))
    }

    /// The parameter of this name.
    pub fn get(&self, name: &str) -> Option<&Var> {
        self.entries.iter().find(|entry| entry.0 == name).map(|entry| &entry.1)
    }

    /// How many matrices there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many numbers all matrices hold.
    pub fn count(&self) -> usize {
        self.iter().map(|(_, var)| var.elem_count()).sum()
    }

    /// A copy that later changes do not reach.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the copy fails.
    pub fn snapshot(&self) -> Result<Self> {
        let copy = |(name, var): &(String, Var)| Ok((name.clone(), Var::from_tensor(&var.copy()?)?));
        Ok(Self { entries: self.entries.iter().map(copy).collect::<Result<_>>()? })
    }

    /// Takes over all values of another store with the same names and shapes: a target network, a local copy.
    ///
    /// # Errors
    /// [`Error::Size`] if names or shapes differ; nothing has changed then.
    pub fn copy_from(&self, other: &Self) -> Result<()> {
        self.check_same(other)?;
        for ((_, own), (_, new)) in self.iter().zip(other.iter()) {
            own.set(&new.as_detached_tensor())?;
        }
        Ok(())
    }

    /// Moves towards another store: own = (1 - share) * own + share * other. A soft target update.
    ///
    /// # Errors
    /// [`Error::Size`] if names or shapes differ; nothing has changed then.
    pub fn blend_from(&self, other: &Self, share: f64) -> Result<()> {
        self.check_same(other)?;
        for ((_, own), (_, new)) in self.iter().zip(other.iter()) {
            let old = own.as_detached_tensor().affine(1.0 - share, 0.0)?;
            own.set(&(old + new.as_detached_tensor().affine(share, 0.0)?)?)?;
        }
        Ok(())
    }

    fn check_same(&self, other: &Self) -> Result<()> {
        if self.len() != other.len() {
            return Err(Error::size("parameters", other.len(), self.len()));
        }
        for ((name, own), (other_name, new)) in self.iter().zip(other.iter()) {
            if name != other_name || own.shape() != new.shape() {
                let text = |name: &str, var: &Var| format!("'{name}' {:?}", var.shape());
                return Err(Error::size("parameter", text(other_name, new), text(name, own)));
            }
        }
        Ok(())
    }
}

impl Init {
    fn values(self, rows: usize, columns: usize, rng: &mut Rng) -> Vec<f32> {
        let count = rows * columns;
        match self {
            Self::Constant(value) => vec![value; count],
            Self::Uniform { bound } => (0..count).map(|_| bound * rng.random_range(-1.0..1.0_f32)).collect(),
            Self::Kaiming { gain } => {
                let deviation = f64::from(gain) / (rows as f64).sqrt();
                (0..count).map(|_| (deviation * normal(rng)) as f32).collect()
            }
            Self::Orthogonal { gain } => {
                let (many, few) = (rows.max(columns), rows.min(columns));
                let basis = orthonormal(few, many, rng);
                let at = |i: usize| {
                    let (row, column) = (i / columns, i % columns);
                    if rows > columns { basis[column][row] } else { basis[row][column] }
                };
                (0..count).map(|i| (f64::from(gain) * at(i)) as f32).collect()
            }
        }
    }
}

/// A standard normal number (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// Random orthonormal vectors, by Gram and Schmidt; the second pass removes what rounding left in the first.
fn orthonormal(vectors: usize, length: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(vectors);
    while basis.len() < vectors {
        let mut vector: Vec<f64> = (0..length).map(|_| normal(rng)).collect();
        for _ in 0..2 {
            for other in &basis {
                let along = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(a, b)| *a -= along * b);
            }
        }
        let norm = dot(&vector, &vector).sqrt();
        // A draw within the span of the others, practically impossible, is drawn again.
        if norm > 1e-6 {
            basis.push(vector.iter().map(|a| a / norm).collect());
        }
    }
    basis
}

/// Eight sums run side by side.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let ((front, rest), (other_front, other_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in front.iter().zip(other_front) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().zip(other_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn params(seed: u64) -> Params {
        let mut rng = Rng::seed_from_u64(seed);
        let mut params = Params::default();
        params.add("w", 4, 3, Init::Kaiming { gain: 1.0 }, &mut rng).unwrap();
        params.add("b", 1, 3, Init::Uniform { bound: 0.5 }, &mut rng).unwrap();
        params
    }

    fn values(params: &Params) -> Vec<f32> {
        params.iter().flat_map(|(_, v)| v.flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
    }

    #[test]
    fn same_seed_same_values_in_the_same_order() {
        let names: Vec<String> = params(1).iter().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(names, ["w", "b"]);
        assert_eq!(values(&params(1)), values(&params(1)));
        assert_ne!(values(&params(1)), values(&params(2)));
        assert_eq!(params(1).count(), 15);
    }

    #[test]
    fn a_name_is_used_once() {
        let mut params = params(1);
        let again = params.add("w", 1, 1, Init::Constant(0.0), &mut Rng::seed_from_u64(1));
        assert!(matches!(again, Err(Error::Setting { .. })));
    }

    #[test]
    fn tensors_see_changes_and_snapshots_do_not() {
        let (a, b) = (params(1), params(2));
        let seen = a.get("w").unwrap().as_tensor().clone();
        let old = a.snapshot().unwrap();
        let before = values(&a);
        a.copy_from(&b).unwrap();
        assert_eq!(values(&a), values(&b));
        assert_eq!(values(&old), before);
        assert_eq!(seen.flatten_all().unwrap().to_vec1::<f32>().unwrap(), values(&b)[..12]);
        b.copy_from(&old).unwrap();
        assert_ne!(values(&a), values(&b), "a copy must not share its numbers");
    }

    #[test]
    fn blending_moves_by_the_share() {
        let (a, b) = (params(1), params(2));
        let expected: Vec<f32> =
            values(&a).iter().zip(values(&b)).map(|(a, b)| 0.75 * a + 0.25 * b).collect();
        a.blend_from(&b, 0.25).unwrap();
        for (found, expected) in values(&a).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn stores_of_other_shapes_are_refused() {
        let mut other = Params::default();
        other.add("w", 4, 2, Init::Constant(0.0), &mut Rng::seed_from_u64(1)).unwrap();
        other.add("b", 1, 3, Init::Constant(0.0), &mut Rng::seed_from_u64(1)).unwrap();
        let own = params(1);
        let before = values(&own);
        assert!(own.copy_from(&other).unwrap_err().to_string().contains("'w' [4, 2]"));
        assert!(own.copy_from(&Params::default()).is_err());
        assert_eq!(values(&own), before);
    }

    #[test]
    fn orthogonal_matrices_keep_lengths() {
        for (rows, columns) in [(5, 5), (7, 3), (3, 7)] {
            let m = Init::Orthogonal { gain: 2.0 }.values(rows, columns, &mut Rng::seed_from_u64(3));
            let (many, few) = (rows.max(columns), rows.min(columns));
            let at = |i: usize, j: usize| {
                f64::from(if rows > columns { m[j * columns + i] } else { m[i * columns + j] })
            };
            for i in 0..few {
                for j in 0..few {
                    let product: f64 = (0..many).map(|k| at(i, k) * at(j, k)).sum();
                    let expected = if i == j { 4.0 } else { 0.0 };
                    assert!((product - expected).abs() < 1e-5, "{rows}x{columns} {i} {j}: {product}");
                }
            }
        }
    }

    #[test]
    fn spread_follows_the_gain() {
        let draw = |init: Init| init.values(64, 200, &mut Rng::seed_from_u64(4));
        let deviation = |v: &[f32]| (v.iter().map(|x| f64::from(x * x)).sum::<f64>() / v.len() as f64).sqrt();
        let normal = draw(Init::Kaiming { gain: 2.0 });
        assert!((deviation(&normal) - 0.25).abs() < 0.01);
        let uniform = draw(Init::Uniform { bound: 0.3 });
        assert!(uniform.iter().all(|x| x.abs() <= 0.3));
        assert!((deviation(&uniform) - 0.3 / 3.0_f64.sqrt()).abs() < 0.01);
    }
}
