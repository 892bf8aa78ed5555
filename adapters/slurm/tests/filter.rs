//! Laws of the rewriter: whatever the script, nothing of it is lost or altered, and a second pass changes nothing.

use mdts_slurm::brain::{Decision, Request, Verdict};
use mdts_slurm::filter::{Script, Sources, filter};
use proptest::prelude::*;

fn decide(_: &Request) -> Verdict {
    let decision = Decision {
        nodelist: Some("n1,n2".into()),
        prefer: None,
        partition: Some("main".into()),
        nice: Some(3),
        note: String::new(),
    };
    Verdict::Go(decision)
}

/// What `sbatch` gets: the rewritten script, or the script itself.
fn pass(script: &[u8]) -> Vec<u8> {
    match filter(script, &Sources::default(), decide) {
        Ok(Ok((text, _))) => text,
        Ok(Err(message)) => panic!("refused: {message}"),
        Err(_) => script.to_vec(),
    }
}

/// Cuts out what was added; what is left must be the script.
fn check(script: &[u8]) {
    let rewritten = pass(script);
    let added = rewritten.len() - script.len();
    if added > 0 {
        let second_line = Script::scan(script).unwrap().second_line;
        let (before, rest) = rewritten.split_at(second_line);
        let (lines, after) = rest.split_at(added);
        assert_eq!([before, after].concat(), script, "bytes were lost or altered");
        let lines = String::from_utf8(lines.to_vec()).unwrap();
        let expected = [
            "# placed by mdts slurm filter",
            "#SBATCH --nodelist=n1,n2",
            "#SBATCH --partition=main",
            "#SBATCH --nice=3",
        ];
        assert_eq!(lines.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), expected);
    } else {
        assert_eq!(rewritten, script);
    }
    assert_eq!(pass(&rewritten), rewritten, "a second pass changes something");
}

/// Lines as they are met, and as somebody would write who wants to break the filter.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let plain = prop_oneof![
        Just("#SBATCH --cpus-per-task=2".to_owned()),
        Just("#SBATCH -J \"my job\" -c2 # comment".to_owned()),
        Just("#SBATCH -J 'unclosed".to_owned()),
        Just("#SBATCH hetjob".to_owned()),
        Just("#SBATCH --nodelist".to_owned()),
        Just("#PBS -N x".to_owned()),
        Just("#SBATCH -w n9".to_owned()),
        Just("# placed by mdts slurm filter".to_owned()),
        Just("hostname".to_owned()),
        Just(String::new()),
        "#SBATCH [ -~]{0,40}",
        "[ -~]{0,40}",
    ];
    prop_oneof![8 => plain.prop_map(String::into_bytes), 1 => proptest::collection::vec(any::<u8>(), 0..60)]
}

fn script() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![8 => Just(b"#!/bin/sh".to_vec()), 1 => Just(b"#!".to_vec()), 1 => line()];
    let end = prop_oneof![Just(&b"\n"[..]), Just(&b"\r\n"[..]), Just(&b"\r"[..])];
    (first, proptest::collection::vec(line(), 0..12), end, any::<bool>()).prop_map(
        |(first, lines, end, ends)| {
            let mut text = first;
            for line in lines {
                text.extend_from_slice(end);
                text.extend_from_slice(&line);
            }
            if ends {
                text.extend_from_slice(end);
            }
            text
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn scripts_keep_every_byte(script in script()) {
        check(&script);
    }

    #[test]
    fn any_bytes_keep_every_byte(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }
}

#[test]
fn large_and_odd_scripts_keep_every_byte() {
    let long = "x".repeat(10_000_000);
    let scripts = [
        String::new(),
        "#!".into(),
        "#!/bin/sh".into(),
        "#!/bin/sh\n".into(),
        format!("#!/bin/sh\n#SBATCH --comment={long}\nls\n"),
        format!("#!/bin/sh\n# {long}\n#SBATCH -c2\nls\n"),
        format!("#!/bin/sh\nls\n{long}"),
        format!("#!/bin/sh\n{}ls\n", "#SBATCH -c2\n".repeat(100_000)),
        format!("#!/bin/sh\n{}", "\\\n".repeat(100_000)),
        "#!/bin/sh\n#SBATCH -c2\0\nls\n".into(),
        "\u{feff}#!/bin/sh\n#SBATCH -c2\nls\n".into(),
    ];
    for script in &scripts {
        check(script.as_bytes());
    }
}
