//! Seeded generators of job graphs: random ones, those of well-known algorithms and those of real workflows.
//!
//! Each generator is a struct of its parameters with a `generate` method; the same parameters and the same state
//! of the random generator give the same graph. [`Generator`] reads any of them from a text, for command lines.
//!
//! ```
//! use mdts_dag::generate::{self, Fft, Layered};
//! let mut rng = generate::seeded(42);
//! let random = Layered { tasks: 200, ..Layered::default() }.generate(&mut rng)?;
//! let fft = Fft { points: 16, ..Fft::default() }.generate(&mut rng)?;
//! let same_kind = generate::from_text("fft:points=16,ccr=5", &mut rng)?;
//! assert_eq!((random.len(), fft.len(), same_kind.len()), (200, 95, 95));
//! # Ok::<(), mdts_dag::Error>(())
//! ```

mod check;
mod cholesky;
mod costs;
mod epigenomics;
mod erdos_renyi;
mod fft;
mod fork_join;
mod gaussian_elimination;
mod layered;
mod lognormal;
mod montage;
mod plain;
mod sketch;
mod text;

pub use cholesky::Cholesky;
pub use costs::Costs;
pub use epigenomics::Epigenomics;
pub use erdos_renyi::ErdosRenyi;
pub use fft::Fft;
pub use fork_join::ForkJoin;
pub use gaussian_elimination::GaussianElimination;
pub use layered::Layered;
pub use montage::Montage;
pub use plain::{Chain, Independent};
pub use text::{Generator, from_text, seeded};
