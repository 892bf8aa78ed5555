//! Where the fields of Slurm's job description are, and what its numbers mean.

/// One field.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) offset: usize,
    /// In bytes.
    pub(crate) size: usize,
}

// Numbers in hexadecimal as Slurm's headers have them.
#[allow(clippy::unreadable_literal)]
mod found {
    use super::Field;

    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}

pub(crate) use found::*;

/// By this `mdts slurm doctor` knows an installed plugin's version.
#[used]
static VERSION_IN_FILE: &[u8] = &BUILT_FOR;

/// Marks memory that is meant for every CPU.
pub(crate) const MEMORY_PER_CPU: u64 = 1 << 63;
/// No limit, in 32 bits.
pub(crate) const INFINITE: u64 = 0xffff_ffff;

impl Field {
    /// What stands for "not set" in a number of this size.
    pub(crate) const fn unset(self) -> u64 {
        match self.size {
            1 => 0xfe,
            2 => 0xfffe,
            4 => NO_VAL as u64,
            _ => 0xffff_ffff_ffff_fffe,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// The layout that came with the source, against the headers of this machine, if they are of that version.
    #[test]
    fn the_layout_is_that_of_the_headers() {
        let committed = include_str!("../layout-22.05.8.txt");
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("probe");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("probe.c");
        let compiled = Command::new("cc").arg(source).arg("-o").arg(&program).output();
        if !compiled.is_ok_and(|compiled| compiled.status.success()) {
            eprintln!("skipped: the_layout_is_that_of_the_headers: no C compiler, or no slurm/slurm.h");
            return;
        }
        let probed = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();
        if probed.lines().next() == committed.lines().next() {
            assert_eq!(probed, committed);
        } else {
            eprintln!("skipped: the_layout_is_that_of_the_headers: the headers are of another version");
        }
    }

    #[test]
    fn fields_lie_inside() {
        for field in [USER_ID, ADMIN_COMMENT, TIME_LIMIT, PN_MIN_MEMORY, REQ_SWITCH] {
            assert!(field.offset + field.size <= SIZE);
            assert_eq!(field.offset % field.size, 0);
        }
        assert_eq!(VERSION >> 16, 22);
    }
}
