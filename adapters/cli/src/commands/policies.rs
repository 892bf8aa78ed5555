//! `mdts policies`: the registry as a table.

use serde::Serialize;

use crate::error::Result;
use crate::output;
use crate::text::Table;

/// Arguments of `mdts policies`.
#[derive(Debug, clap::Args)]
pub(crate) struct Policies {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    policies: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    role: String,
    about: &'static str,
    complexity: &'static str,
    source: &'static str,
}

impl Policies {
    pub(super) fn carry_out(&self) -> Result<()> {
        let row = |p: &'static mdts_policies::PolicyInfo| Row {
            name: p.name,
            role: p.role.to_string(),
            about: p.about,
            complexity: p.complexity,
            source: p.source,
        };
        let policies: Vec<Row> = mdts_policies::policies().iter().map(row).collect();
        if self.json {
            return output::print_json(&Report { policies });
        }
        let mut table = Table::new(["policy", "role", "what it does", "source", "cost"]);
        for row in policies {
            table.row([
                row.name.into(),
                row.role,
                row.about.into(),
                row.source.into(),
                row.complexity.into(),
            ]);
        }
        output::print(&table.show())
    }
}
