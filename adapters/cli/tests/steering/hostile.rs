//! Names, comments and scripts that somebody might choose to break what reads them.

use mdts_dag::generate::seeded;
use mdts_integration_tests::slurm::SlurmCluster;
use rand::Rng as _;

use crate::{fields, text, try_to_submit};

/// So many of each.
const MANY: usize = 100;

/// Pieces of which hostile texts are made.
const PIECES: [&str; 18] = [
    "a",
    " ",
    "=",
    "%",
    "%0A",
    "%n%s",
    "'",
    "\"",
    "\\",
    "$(reboot)",
    "`id`",
    "#",
    "é",
    "\u{202e}",
    "nodelist=slow",
    "mdts:",
    "\t",
    ";|&",
];

fn hostile(rng: &mut mdts_core::Rng) -> String {
    let length = rng.random_range(1..12);
    (0..length).map(|_| PIECES[rng.random_range(0..PIECES.len())]).collect()
}

/// Jobs with hostile names and comments are accepted, and their texts are what was given.
pub(crate) fn descriptions(cluster: &SlurmCluster) {
    let mut rng = seeded(7);
    for i in 0..MANY {
        let (name, comment) = (format!("n{}", hostile(&mut rng)), format!("c{}", hostile(&mut rng)));
        let (name_flag, comment_flag) = (format!("--job-name={name}"), format!("--comment={comment}"));
        let wild = [
            "--nice=2147483645",
            "--mem=0",
            "--mem-per-cpu=1",
            "-n1000000",
            "-N1-4",
            "--time=0",
            "--time=INFINITE",
            "-C",
            "--gres=none",
            "--dependency=singleton",
            "--begin=now+1year",
            "-c65533",
            "--exclusive",
            "--ntasks-per-node=1",
            "--reservation=none",
        ];
        let wild = if wild[i % wild.len()] == "-C" { "-Cnone[x|y]" } else { wild[i % wild.len()] };
        let output = try_to_submit(cluster, &["-H", &name_flag, &comment_flag, wild]);
        // Slurm and mdts may refuse it; then they say why.
        if !output.status.success() {
            assert!(text(&output.stderr).contains("error"), "{wild}: {}", text(&output.stderr));
            continue;
        }
        let job = text(&output.stdout).trim().parse().unwrap();
        // squeue shows some characters otherwise; the rest must be there.
        let found = fields(cluster, job, &["Name", "Comment"]);
        assert_eq!((found[0].trim_end(), found[1].trim_end()), (name.trim_end(), comment.trim_end()));
        cluster.ask("scancel", &[&job.to_string()]);
    }
    assert!(cluster.ask("scontrol", &["ping"]).contains("is UP"), "slurmctld has died");
}

/// Hostile batch scripts; most of them sbatch refuses.
pub(crate) fn scripts() -> Vec<Vec<u8>> {
    let mut rng = seeded(9);
    let options = [
        "-c 2",
        "--cpus-per-task=2",
        "-J",
        "--job-name=",
        "--comment",
        "-w slow",
        "--nodelist",
        "hetjob",
        "--",
        ":",
        "--foo",
        "--mem=1G",
        "-t 5",
        "--array=1-3",
        "-N x",
        "--nice",
        "-H",
        "#",
        "\\",
        "\"",
        "'",
    ];
    let script = |rng: &mut mdts_core::Rng| {
        let mut text = ["#!/bin/sh\n", "#!/bin/sh -e\n", "#!/bin/sh\r\n", "", "#!"][rng.random_range(0..5)]
            .as_bytes()
            .to_vec();
        for _ in 0..rng.random_range(0..8) {
            match rng.random_range(0..8) {
                0 => text.extend((0..rng.random_range(0..40)).map(|_| rng.random::<u8>())),
                1 => text.extend_from_slice(b"sleep 0\n"),
                2 => text.extend_from_slice(b"# a comment"),
                _ => {
                    text.extend_from_slice(b"#SBATCH ");
                    for _ in 0..rng.random_range(1..4) {
                        text.extend_from_slice(options[rng.random_range(0..options.len())].as_bytes());
                        text.push(b' ');
                        text.extend_from_slice(hostile(rng).as_bytes());
                    }
                }
            }
            text.push(b'\n');
        }
        text
    };
    (0..2 * MANY).map(|_| script(&mut rng)).collect()
}
