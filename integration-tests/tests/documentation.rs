//! The list of policies in the documentation is that of the registry.

use std::fmt::Write as _;

use mdts_policies::policies;

#[test]
fn the_policy_page_is_the_registry() -> Result<(), Box<dyn std::error::Error>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/policies.md");
    let expected = page()?;
    if std::env::var_os("MDTS_WRITE_DOCS").is_some() {
        std::fs::write(path, &expected)?;
    }
    let found = std::fs::read_to_string(path)?;
    assert!(found == expected, "docs/policies.md is out of date: run this test with MDTS_WRITE_DOCS=1");
    Ok(())
}

fn page() -> Result<String, std::fmt::Error> {
    let mut page = String::from(
        "# Policies\n\n\
         A planner plans whole jobs; a placer places ready tasks while the job runs. Every policy can take either\n\
         role. This page is written from the registry, as is `mdts policies`.\n\n\
         | name | role | what it does | source | cost |\n|---|---|---|---|---|\n",
    );
    for p in policies() {
        let cost = if p.complexity.is_empty() { String::new() } else { format!("`{}`", p.complexity) };
        writeln!(page, "| `{}` | {} | {} | {} | {cost} |", p.name, p.role, p.about, p.source)?;
    }
    page.push_str(
        "\nn tasks, e dependencies, p nodes, g groups of ready tasks that differ in more than work.\n",
    );
    Ok(page)
}
