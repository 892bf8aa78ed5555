//! What a training leaves on disk: the best weights, the state to resume from, the curve and its picture.
//!
//! Every file is whole at any moment: it is written beside and renamed.

use std::path::{Path, PathBuf};

use mdts_dag::whole;
use mdts_policies::mdts::training::{Report, Trainer};
use mdts_policies::mdts::{Weights, save};

use super::show;
use crate::error::{Error, Result};
use crate::gantt::Form;
use crate::output::OutputFile;

/// The files of one training.
#[derive(Debug)]
pub(super) struct Files {
    out: PathBuf,
    state: PathBuf,
    curve: Option<OutputFile>,
    plot: Option<(OutputFile, Form)>,
}

impl Files {
    /// Makes sure that all of them can be written.
    ///
    /// # Errors
    /// [`Error::Output`] naming one that cannot; [`Error::Usage`] if two are the same, or if weights would go to
    /// something that is not a file.
    pub(super) fn create(out: &Path, curve: Option<&Path>, plot: Option<&Path>) -> Result<Self> {
        let mut state = out.as_os_str().to_owned();
        state.push(".state");
        let state = PathBuf::from(state);
        let all: Vec<&Path> = [Some(out), Some(state.as_path()), curve, plot].into_iter().flatten().collect();
        if let Some(twice) = all.iter().enumerate().find(|(i, path)| all[..*i].contains(path)) {
            let path = twice.1.display();
            return Err(Error::Usage(format!("{path}: is named twice; give each output a file of its own")));
        }
        for path in [out, state.as_path()] {
            OutputFile::create(path)?;
            whole::clear(path).map_err(|source| Error::Output { path: path.into(), source })?;
            if path.exists() && !path.is_file() {
                let path = path.display();
                return Err(Error::Usage(format!("{path}: is not a file; weights and state need one")));
            }
        }
        let form = plot.map(Form::of).transpose()?;
        let plot = OutputFile::create_if(plot)?.zip(form);
        Ok(Self { out: out.into(), state, curve: OutputFile::create_if(curve)?, plot })
    }

    /// Where the best weights are.
    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    /// Where the state is.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    /// The weights that are there from before.
    ///
    /// # Errors
    /// [`Error::Usage`] if they cannot be compared with new ones.
    pub(super) fn before(&self) -> Result<Option<Weights>> {
        if !self.out.exists() {
            return Ok(None);
        }
        Weights::read(&self.out).map(Some).map_err(|error| {
            let remedy = "so it cannot be compared with new weights; move it away, or name another file";
            Error::Usage(format!("{error}; {remedy}"))
        })
    }

    /// # Errors
    /// [`Error::Output`].
    pub(super) fn save_weights(&self, trainer: &Trainer) -> Result<()> {
        save(&self.out, trainer, &trainer.card()).map_err(Error::learning)
    }

    /// # Errors
    /// [`Error::Output`].
    pub(super) fn save_state(&self, trainer: &Trainer) -> Result<()> {
        trainer.save_state(&self.state).map_err(Error::learning)
    }

    /// # Errors
    /// [`Error::Output`] or [`Error::Plot`].
    pub(super) fn save_curve(&self, curve: &[Report]) -> Result<()> {
        if let Some(file) = &self.curve {
            file.update(&show::csv(curve))?;
        }
        if let Some((file, form)) = &self.plot {
            file.update(&show::picture(curve, *form)?)?;
        }
        Ok(())
    }

    /// The curve's last form, in devices too.
    ///
    /// # Errors
    /// [`Error::Output`] or [`Error::Plot`].
    pub(super) fn finish_curve(self, curve: &[Report]) -> Result<()> {
        if let Some(file) = self.curve {
            file.write(&show::csv(curve))?;
        }
        if let Some((file, form)) = self.plot {
            file.write(&show::picture(curve, form)?)?;
        }
        Ok(())
    }
}
