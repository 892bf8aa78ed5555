//! Checkpoints: weights with the configuration that made them and the version of the features that they read.
//!
//! A safetensors file (or its bytes, embedded in a program) whose metadata holds one JSON object, `mdts`. The same weights
//! and configuration give the same bytes. Reading checks everything before any weight is changed.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;

use candle_core::{Device, Tensor};
use mdts_dag::whole;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::params::Params;
use super::storage::with_values;

/// The key of the metadata.
const KEY: &str = "mdts";

/// What a checkpoint says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header<C> {
    /// Counts up whenever the meaning of the network's inputs changes.
    pub features: u32,
    /// What is needed to build the network, and how it was trained.
    pub config: C,
}

/// A checkpoint that has been read: build the network from its configuration, then load the weights.
#[derive(Debug, Clone)]
pub struct Checkpoint<C> {
    /// The configuration.
    pub config: C,
    tensors: BTreeMap<String, Matrix>,
}

#[derive(Debug, Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
}

/// A checkpoint of all these parameters.
///
/// # Errors
/// [`Error::NotFinite`] naming a weight that is not finite, [`Error::Setting`] if a name occurs twice.
pub fn to_bytes<C: Serialize>(header: &Header<C>, params: &[&Params]) -> Result<Vec<u8>> {
    let mut all: BTreeMap<&str, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    for (name, var) in params.iter().flat_map(|p| p.iter()) {
        let bytes = with_values(var, |values: &[f32]| {
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
            check_finite(name, values).map(|()| bytes)
        })??;
        if all.insert(name, (var.dims().to_vec(), bytes)).is_some() {
            let expected = "each name once";
            return Err(Error::Setting { what: "names of parameters", found: name.into(), expected });
        }
    }
    let view =
        |(name, (shape, bytes))| Ok((name, TensorView::new(Dtype::F32, shape, bytes).map_err(malformed)?));
    let views = all.iter().map(|(name, (shape, bytes))| view((*name, (shape.clone(), bytes.as_slice()))));
    let views = views.collect::<Result<Vec<_>>>()?;
    let header = serde_json::to_string(header).map_err(malformed)?;
    safetensors::serialize(views, Some(HashMap::from([(KEY.to_owned(), header)]))).map_err(malformed)
}

/// Writes a checkpoint file that is always whole.
///
/// # Errors
/// As [`to_bytes`]; [`Error::Io`] if the file cannot be written.
pub fn save<C: Serialize>(path: &Path, header: &Header<C>, params: &[&Params]) -> Result<()> {
    let bytes = to_bytes(header, params)?;
    let written = whole::write(path, |file| file.write_all(&bytes));
    written.map_err(|source| Error::Io { path: path.into(), source })
}

/// Reads a checkpoint file.
///
/// # Errors
/// [`Error::Io`] if it cannot be read; what [`Checkpoint::from_bytes`] refuses, with the path.
pub fn read<C: DeserializeOwned>(path: &Path, features: u32) -> Result<Checkpoint<C>> {
    let bytes = std::fs::read(path).map_err(|source| Error::Io { path: path.into(), source })?;
    Checkpoint::from_bytes(&bytes, features)
        .map_err(|source| Error::InFile { path: path.into(), source: Box::new(source) })
}

impl<C: DeserializeOwned> Checkpoint<C> {
    /// Reads the bytes of a checkpoint for a program of this feature version.
    ///
    /// # Errors
    /// [`Error::Malformed`] for bytes that are no whole checkpoint, [`Error::FeatureVersion`] for another version,
    /// [`Error::NotFinite`] naming a tensor with NaN or infinite weights.
    pub fn from_bytes(bytes: &[u8], features: u32) -> Result<Self> {
        let file = SafeTensors::deserialize(bytes).map_err(malformed)?;
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(malformed)?;
        let text = metadata.metadata().as_ref().and_then(|entries| entries.get(KEY));
        let text = text.ok_or_else(|| Error::Malformed(format!("no metadata '{KEY}'")))?;
        // The version first: the configuration of another version may have another form.
        let header: Header<serde_json::Value> = serde_json::from_str(text).map_err(malformed)?;
        if header.features != features {
            return Err(Error::FeatureVersion { found: header.features, expected: features });
        }
        let config = serde_json::from_value(header.config).map_err(malformed)?;
        let tensors = file.iter().map(|(name, view)| Ok((name.to_owned(), Matrix::read(name, &view)?)));
        Ok(Self { config, tensors: tensors.collect::<Result<_>>()? })
    }
}

impl<C> Checkpoint<C> {
    /// Loads all weights into these parameters.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::UnknownTensor`] or [`Error::Size`] naming a tensor that does not fit; no weight
    /// has changed then.
    pub fn load(&self, params: &[&Params]) -> Result<()> {
        let mut unknown: Vec<&str> = self.tensors.keys().map(String::as_str).collect();
        let mut all = Vec::with_capacity(self.tensors.len());
        for (name, var) in params.iter().flat_map(|p| p.iter()) {
            let matrix = self.tensors.get(name).ok_or_else(|| Error::MissingTensor { name: name.into() })?;
            let shape = [matrix.rows, matrix.columns];
            if var.dims() != shape {
                let (found, expected) = (format!("{shape:?}"), format!("{:?}", var.dims()));
                return Err(Error::size(format!("shape of tensor '{name}'"), found, expected));
            }
            all.push((var, Tensor::from_slice(&matrix.values, &shape[..], &Device::Cpu)?));
            unknown.retain(|other| *other != name);
        }
        if let Some(name) = unknown.first() {
            return Err(Error::UnknownTensor { name: (*name).into() });
        }
        for (var, tensor) in all {
            var.set(&tensor)?;
        }
        Ok(())
    }
}

impl Matrix {
    fn read(name: &str, view: &TensorView<'_>) -> Result<Self> {
        let (Dtype::F32, &[rows, columns]) = (view.dtype(), view.shape()) else {
            let found = format!("{:?} {:?}", view.dtype(), view.shape());
            return Err(Error::size(format!("tensor '{name}'"), found, "a matrix of F32"));
        };
        let values: Vec<f32> =
            view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        check_finite(name, &values)?;
        Ok(Self { rows, columns, values })
    }
}

fn check_finite(name: &str, values: &[f32]) -> Result<()> {
    if values.iter().all(|v| v.is_finite()) {
        return Ok(());
    }
    Err(Error::not_finite(format!("a weight of tensor '{name}'")))
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::Malformed(error.to_string())
}

#[cfg(test)]
mod tests {
    use mdts_core::Rng;
    use rand::SeedableRng;

    use super::*;
    use crate::learn::params::Init;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Config {
        width: usize,
    }

    const FEATURES: u32 = 3;

    fn params(seed: u64, sizes: &Sizes) -> Params {
        let (mut params, mut rng) = (Params::default(), Rng::seed_from_u64(seed));
        for (name, rows, columns) in sizes {
            params.add(*name, *rows, *columns, Init::Uniform { bound: 1.0 }, &mut rng).unwrap();
        }
        params
    }

    type Sizes = [(&'static str, usize, usize)];

    const SIZES: [(&str, usize, usize); 2] = [("w", 2, 3), ("b", 1, 3)];

    fn header() -> Header<Config> {
        Header { features: FEATURES, config: Config { width: 3 } }
    }

    fn bytes() -> Vec<u8> {
        to_bytes(&header(), &[&params(1, &SIZES)]).unwrap()
    }

    fn values(params: &Params) -> Vec<f32> {
        params.iter().flat_map(|(_, v)| v.flatten_all().unwrap().to_vec1::<f32>().unwrap()).collect()
    }

    fn parse(bytes: &[u8]) -> Result<Checkpoint<Config>> {
        Checkpoint::from_bytes(bytes, FEATURES)
    }

    #[test]
    fn there_and_back() {
        let checkpoint = parse(&bytes()).unwrap();
        assert_eq!(checkpoint.config, Config { width: 3 });
        let loaded = params(2, &SIZES);
        checkpoint.load(&[&loaded]).unwrap();
        assert_eq!(values(&loaded), values(&params(1, &SIZES)));
        assert_eq!(to_bytes(&header(), &[&loaded]).unwrap(), bytes(), "same weights, same bytes");
    }

    #[test]
    fn several_stores_share_a_file() {
        let (net, state) = (params(1, &SIZES), params(2, &[("adam.w", 2, 3)]));
        let checkpoint = parse(&to_bytes(&header(), &[&net, &state]).unwrap()).unwrap();
        let (a, b) = (params(3, &SIZES), params(4, &[("adam.w", 2, 3)]));
        checkpoint.load(&[&a, &b]).unwrap();
        assert_eq!((values(&a), values(&b)), (values(&net), values(&state)));
        assert!(matches!(checkpoint.load(&[&a]), Err(Error::UnknownTensor { name }) if name == "adam.w"));
        assert!(to_bytes(&header(), &[&net, &net]).is_err());
    }

    #[test]
    fn files_are_written_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.safetensors");
        for seed in [1, 2] {
            save(&path, &header(), &[&params(seed, &SIZES)]).unwrap();
            let loaded = params(9, &SIZES);
            read::<Config>(&path, FEATURES).unwrap().load(&[&loaded]).unwrap();
            assert_eq!(values(&loaded), values(&params(seed, &SIZES)));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
        let nowhere = folder.path().join("none/a.safetensors");
        assert!(matches!(save(&nowhere, &header(), &[&params(1, &SIZES)]), Err(Error::Io { .. })));
        assert!(matches!(read::<Config>(&nowhere, FEATURES), Err(Error::Io { .. })));
        std::fs::write(&path, b"nothing").unwrap();
        let text = read::<Config>(&path, FEATURES).unwrap_err().to_string();
        assert!(text.contains("a.safetensors: not a whole checkpoint"), "{text}");
    }

    #[test]
    fn another_feature_version_is_refused_whatever_its_configuration() {
        let other = Header { features: 4, config: "of another form" };
        let other = to_bytes(&other, &[&params(1, &SIZES)]).unwrap();
        let text = parse(&other).unwrap_err().to_string();
        assert!(text.contains("version 4") && text.contains("version 3"), "{text}");
        let same = Header { features: FEATURES, config: "of another form" };
        assert!(matches!(parse(&to_bytes(&same, &[]).unwrap()), Err(Error::Malformed(_))));
    }

    #[test]
    fn every_truncation_and_extension_is_refused() {
        let whole = bytes();
        for length in 0..whole.len() {
            assert!(matches!(parse(&whole[..length]), Err(Error::Malformed(_))), "{length}");
        }
        assert!(matches!(parse(&[whole.as_slice(), b"x"].concat()), Err(Error::Malformed(_))));
        let foreign = safetensors::serialize(Vec::<(&str, TensorView<'_>)>::new(), None).unwrap();
        assert!(parse(&foreign).unwrap_err().to_string().contains("no metadata 'mdts'"));
    }

    #[test]
    fn weights_that_are_not_finite_are_refused() {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut broken = bytes();
            let end = broken.len();
            broken[end - 4..].copy_from_slice(&bad.to_le_bytes());
            assert!(parse(&broken).unwrap_err().to_string().contains("tensor 'w'"));
            let params = Params::default();
            let mut copy = params.clone();
            copy.insert("w".into(), 1, 1, vec![bad]).unwrap();
            assert!(matches!(to_bytes(&header(), &[&copy]), Err(Error::NotFinite { .. })));
        }
    }

    #[test]
    fn tensors_that_do_not_fit_are_named_and_nothing_is_loaded() {
        let checkpoint = parse(&bytes()).unwrap();
        let cases: [(&Sizes, &str); 4] = [
            (&[("w", 2, 3), ("b", 1, 4)], "shape of tensor 'b': found [1, 3], expected [1, 4]"),
            (&[("w", 2, 3), ("b", 3, 1)], "shape of tensor 'b': found [1, 3], expected [3, 1]"),
            (&[("w", 2, 3)], "tensor 'b' of the checkpoint is unknown"),
            (&[("w", 2, 3), ("b", 1, 3), ("c", 1, 1)], "tensor 'c' is missing"),
        ];
        for (sizes, expected) in cases {
            let own = params(5, sizes);
            let before = values(&own);
            let text = checkpoint.load(&[&own]).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
            assert_eq!(values(&own), before);
        }
    }
}
