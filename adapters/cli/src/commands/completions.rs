//! `mdts completions SHELL`: a script that completes commands and flags.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Args;
use crate::error::Result;
use crate::output;

/// Arguments of `mdts completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn carry_out(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Args::command(), "mdts", &mut script);
        output::print_as_is(&String::from_utf8_lossy(&script))
    }
}
