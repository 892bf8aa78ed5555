//! Which ways to the sidecar are installed, and whether it answers.

use super::{Facts, Finding, Level};

/// An answer should come in so many milliseconds.
const PROMPT_MS: f64 = 5.0;

/// Plugin, Lua, filter of the client.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let plugins = |key: &str| {
        let value = facts.config.get(key).map(String::as_str).unwrap_or_default();
        value.split(',').map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    let (submit, client) = (plugins("JobSubmitPlugins"), plugins("CliFilterPlugins"));
    let has = |of: &[String], name: &str| of.iter().any(|plugin| plugin == name);
    let mut all = Vec::new();
    if has(&submit, "mdts") {
        all.push(of_plugin(facts));
    }
    if has(&submit, "lua") {
        all.push(of_lua(facts, "lua", "job_submit.lua"));
    }
    if has(&client, "lua") {
        all.push(of_lua(facts, "cli-filter", "cli_filter.lua"));
    }
    if all.is_empty() {
        let found = "no plugin shows submissions to the sidecar";
        all.push(Finding::new(
            "steering",
            Level::Note,
            found,
            "see docs/slurm-admin.md; JobSubmitPlugins=lua with adapters/slurm/lua is the simplest",
        ));
    }
    all
}

fn of_plugin(facts: &Facts) -> Finding {
    let server = facts.config.get("SLURM_VERSION").map(String::as_str).unwrap_or_default();
    let remedy = "build adapters/slurm/plugin with --features headers against this Slurm, and put it into PluginDir as job_submit_mdts.so";
    match &facts.plugin_version {
        None => Finding::new(
            "plugin",
            Level::Broken,
            "job_submit_mdts.so is in no folder of PluginDir that can be read here",
            remedy,
        ),
        Some(version) if version == server => {
            Finding::good("plugin", format!("job_submit_mdts.so is built for {version}"))
        }
        Some(version) => {
            let found = format!(
                "job_submit_mdts.so is built for {version}, slurmctld is {server}: it will not start again"
            );
            Finding::new("plugin", Level::Broken, found, remedy)
        }
    }
}

fn of_lua(facts: &Facts, subject: &'static str, file: &'static str) -> Finding {
    let text = facts.scripts.get(file);
    let Some(text) = text else {
        return Finding::new(
            subject,
            Level::Broken,
            format!("{file} is not beside slurm.conf, or cannot be read"),
            format!("copy adapters/slurm/lua/{file} and mdts.lua there"),
        );
    };
    if !text.contains("mdts") {
        return Finding::new(
            subject,
            Level::Note,
            format!("{file} does not ask mdts"),
            "call mdts.job_submit from it, see the head of adapters/slurm/lua/mdts.lua",
        );
    }
    if !facts.scripts.contains_key("mdts.lua") {
        return Finding::new(
            subject,
            Level::Broken,
            format!("{file} needs mdts.lua beside it"),
            "copy adapters/slurm/lua/mdts.lua there",
        );
    }
    if !facts.has_lua_socket {
        return Finding::new(
            subject,
            Level::Broken,
            "LuaSocket with socket.unix is not installed here: every job passes unchanged",
            "install lua-socket",
        );
    }
    Finding::good(subject, format!("{file} asks mdts"))
}

/// The sidecar itself.
pub(super) fn of_sidecar(facts: &Facts) -> Finding {
    let start = "start it: mdts serve --slurm; until then every job passes unchanged";
    let sidecar = match &facts.sidecar {
        Err(error) => {
            let is_asked = ["mdts", "lua"].iter().any(|plugin| {
                facts.config.get("JobSubmitPlugins").is_some_and(|plugins| plugins.contains(plugin))
            });
            let level = if is_asked { Level::Broken } else { Level::Note };
            return Finding::new("sidecar", level, format!("{}: {error}", facts.socket.display()), start);
        }
        Ok(sidecar) => sidecar,
    };
    let found = format!(
        "version {} answers in {:.1} ms; it saw the cluster {} ago",
        sidecar.version,
        sidecar.milliseconds,
        sidecar.age.map_or_else(|| "never".to_owned(), |age| format!("{age:.1} s"))
    );
    if sidecar.age.is_none_or(|age| age > 60.0) {
        return Finding::new(
            "sidecar",
            Level::Broken,
            found,
            "its log says why it does not see Slurm; until then every job passes unchanged",
        );
    }
    if sidecar.version != env!("CARGO_PKG_VERSION") {
        return Finding::new(
            "sidecar",
            Level::Warning,
            found,
            format!("this program is version {}; restart the sidecar", env!("CARGO_PKG_VERSION")),
        );
    }
    if sidecar.milliseconds > PROMPT_MS {
        return Finding::new(
            "sidecar",
            Level::Warning,
            found,
            "give its machine more room; submissions wait for it, 20 ms at most",
        );
    }
    Finding::good("sidecar", found)
}
