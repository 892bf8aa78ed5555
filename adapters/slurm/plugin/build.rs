//! Writes version and layout of Slurm's job description as constants: those of 22.05.8, which come with the source, or with the feature
//! `headers` those of the installed `slurm/slurm.h`, as `probe.c` finds them with the C compiler (`CC`, default `cc`).

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// From this version on `job_modify` has a place for a message.
const MODIFY_HAS_MESSAGE: u64 = 0x17_02_00;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=probe.c");
    println!("cargo::rerun-if-changed=layout-22.05.8.txt");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-env-changed=CPATH");
    println!("cargo::rustc-check-cfg=cfg(modify_has_message)");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let layout = match env::var_os("CARGO_FEATURE_HEADERS") {
        Some(_) => probe(&out)?,
        None => fs::read_to_string("layout-22.05.8.txt")?,
    };
    fs::write(out.join("layout.rs"), constants(&layout)?)?;
    Ok(())
}

/// What the installed headers say.
fn probe(out: &Path) -> Result<String, Box<dyn Error>> {
    let program = out.join("probe");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let compiled = Command::new(&compiler).arg("probe.c").arg("-o").arg(&program).output();
    let compiled = compiled.map_err(|error| format!("{compiler}: {error}; set CC to a C compiler"))?;
    if !compiled.status.success() {
        let told = String::from_utf8_lossy(&compiled.stderr).into_owned();
        return Err(
            format!("slurm/slurm.h is missing, or has other fields than this source knows:\n{told}").into()
        );
    }
    let probed = Command::new(program).output()?;
    Ok(String::from_utf8(probed.stdout)?)
}

fn constants(layout: &str) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for line in layout.lines() {
        let [name, value, size] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("the layout has a strange line: {line}").into());
        };
        let number: u64 = value.parse()?;
        match name {
            "VERSION" | "NO_VAL" | "NICE_OFFSET" => {
                writeln!(text, "pub(crate) const {name}: u32 = {number:#x};")?;
            }
            "CONFIG_UNAVAILABLE" => writeln!(text, "pub(crate) const {name}: i32 = {number};")?,
            "SIZE" => writeln!(text, "#[cfg(test)]\npub(crate) const {name}: usize = {number};")?,
            _ => {
                let constant = name.to_uppercase();
                writeln!(
                    text,
                    "pub(crate) const {constant}: Field = Field {{ offset: {number}, size: {size} }};"
                )?;
            }
        }
        if name == "VERSION" {
            let text_of = format!("{}.{:02}.{}", number >> 16, number >> 8 & 0xff, number & 0xff);
            let told = format!("mdts-plugin-for-slurm={text_of}\\0");
            let length = told.len() - 1;
            writeln!(text, "pub(crate) static BUILT_FOR: [u8; {length}] = *b\"{told}\";")?;
            if number >= MODIFY_HAS_MESSAGE {
                println!("cargo::rustc-cfg=modify_has_message");
            }
        }
    }
    Ok(text)
}
