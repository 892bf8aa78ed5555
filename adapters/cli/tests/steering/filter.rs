//! `mdts slurm filter`, alone and before a real sbatch.

use std::path::Path;
use std::process::Output;

use mdts_integration_tests::slurm::SlurmCluster;

use crate::{Sidecar, folder, give, hostile, mdts, mdts_on, node_of, program, text};

const SCRIPT: &str = "#!/bin/sh\n#SBATCH -c2 -t5 --output=/dev/null\nsleep 0.1\n";

fn sbatch(cluster: &SlurmCluster, script: &[u8]) -> Output {
    give(cluster.command("sbatch").args(["--parsable", "-H", "--output=/dev/null"]), script)
}

#[test]
fn without_slurm_the_script_passes_and_the_reason_is_told() {
    let folder = folder();
    // Programs that hang or fail must not keep it.
    program(&folder.path().join("scontrol"), "#!/bin/sh\nexit 1\n");
    let mut command = mdts(folder.path());
    command.env("PATH", folder.path()).args(["slurm", "filter"]);
    let output = give(&mut command, SCRIPT.as_bytes());
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), SCRIPT);
    assert!(text(&output.stderr).starts_with("mdts slurm filter: "), "{}", text(&output.stderr));
    let output = give(mdts(folder.path()).args(["slurm", "filter", "--socket", "absent"]), SCRIPT.as_bytes());
    assert!(output.status.success() && text(&output.stdout) == SCRIPT);
    assert!(text(&output.stderr).contains("does not answer"));
}

#[test]
fn what_is_no_script_passes() {
    let folder = folder();
    for script in [
        &b""[..],
        b"hello",
        b"\xff\xfe",
        b"#!/bin/sh\n#SBATCH foo\n",
        b"#!/bin/sh\n#SBATCH hetjob\n",
        b"#!/bin/sh\n\0",
    ] {
        let output = give(mdts(folder.path()).args(["slurm", "filter"]), script);
        assert!(output.status.success());
        assert_eq!(output.stdout, script);
        assert!(text(&output.stderr).contains("the script stays as it is"), "{}", text(&output.stderr));
        let output = give(mdts(folder.path()).args(["-q", "slurm", "filter"]), script);
        assert!(output.status.success() && output.stdout == script && output.stderr.is_empty());
    }
}

#[test]
fn scripts_go_to_the_best_node_of_a_real_cluster() {
    let folder = folder();
    let Some(cluster) = SlurmCluster::start("filter", &[]) else { return };
    let socket = folder.path().join("s");
    let sidecar = Sidecar::start(&cluster, folder.path(), &socket, &["--no-lead"]);
    let filter = |flags: &[&str], script: &[u8]| {
        let mut command = mdts_on(&cluster, folder.path());
        give(command.args(["slurm", "filter"]).args(flags), script)
    };
    let by_sidecar = ["--socket", socket.to_str().unwrap()];
    let output = filter(&by_sidecar, SCRIPT.as_bytes());
    assert!(text(&output.stdout).contains("\n#SBATCH --nodelist=fast\n"), "{output:?}");
    let submitted = give(cluster.command("sbatch").arg("--parsable"), &output.stdout);
    assert_eq!(node_of(&cluster, text(&submitted.stdout).trim().parse().unwrap()), "fast");
    // Without a sidecar it looks itself.
    let output = filter(&["--cluster", "speeds.toml"], SCRIPT.as_bytes());
    assert!(text(&output.stdout).contains("--nodelist=fast\n"), "{output:?}");
    // A filtered script is left alone, and so is what is fixed on the command line.
    assert_eq!(filter(&by_sidecar, &output.stdout).stdout, output.stdout);
    for options in [&["-w", "slow"][..], &["--nodelist=slow", "job.sh", "-c99"]] {
        let flags = [&by_sidecar[..], &["--"], options].concat();
        assert_eq!(text(&filter(&flags, SCRIPT.as_bytes()).stdout), SCRIPT, "{options:?}");
    }
    // Hopeless requests pass, unless they are not wanted.
    let hopeless = SCRIPT.replace("-c2", "-c99");
    let output = filter(&by_sidecar, hopeless.as_bytes());
    assert!(output.status.success() && text(&output.stdout) == hopeless);
    assert!(text(&output.stderr).contains("the largest, "), "{output:?}");
    let output = filter(&[&by_sidecar[..], &["--strict"]].concat(), hopeless.as_bytes());
    assert!(output.status.code() == Some(1) && output.stdout.is_empty());
    hostile_scripts_are_what_they_were(&cluster, folder.path(), &by_sidecar);
    sidecar.end();
}

/// What sbatch makes of a script it makes of the filtered one, too.
fn hostile_scripts_are_what_they_were(cluster: &SlurmCluster, folder: &Path, flags: &[&str]) {
    let mut accepted = 0;
    for script in hostile::scripts() {
        let mut command = mdts_on(cluster, folder);
        let output = give(command.args(["slurm", "filter"]).args(flags), &script);
        assert!(output.status.success(), "{output:?}");
        let added = text(&output.stdout).matches("# placed by mdts slurm filter").count();
        assert!(output.stdout == script || added == 1);
        let (before, after) = (sbatch(cluster, &script), sbatch(cluster, &output.stdout));
        assert_eq!(
            before.status.code(),
            after.status.code(),
            "{:?}\n{:?}\n{:?}",
            text(&script),
            text(&before.stderr),
            text(&after.stderr)
        );
        accepted += usize::from(after.status.success());
    }
    assert!(accepted > 5, "only {accepted} scripts were any good");
    cluster.ask("scancel", &["-u", "root"]);
}
