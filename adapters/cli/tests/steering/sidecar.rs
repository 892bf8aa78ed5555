//! The sidecar alone: broken messages, slow clients, many of them, and no Slurm.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};

use mdts_dag::generate::seeded;
use rand::Rng as _;

use crate::{Sidecar, folder, mdts, text};

/// One that never sees a Slurm.
fn blind(folder: &std::path::Path) -> Sidecar {
    let mut command = mdts(folder);
    command.env("PATH", folder);
    Sidecar::start_blind(command, folder, &folder.join("s"), &[])
}

#[test]
fn without_slurm_every_job_passes() {
    let folder = folder();
    let sidecar = blind(folder.path());
    let answer = sidecar.ask("name=x\ncpus_per_task=99999\n\n").unwrap();
    assert_eq!(answer, "note=the view of the cluster is missing or too old");
    assert!(sidecar.status().contains("age=none\n"));
    let mode = fs::metadata(&sidecar.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    sidecar.end();
}

#[test]
fn broken_messages_are_answered_or_cut_off() {
    let folder = folder();
    let sidecar = blind(folder.path());
    let mut rng = seeded(3);
    for _ in 0..200 {
        let mut stream = UnixStream::connect(&sidecar.socket).unwrap();
        let message: Vec<u8> = (0..rng.random_range(0..400)).map(|_| rng.random::<u8>()).collect();
        _ = stream.write_all(&message);
        _ = stream.write_all(b"\n\n");
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.ends_with(b"\n\n"), "{message:?} {answer:?}");
    }
    // Too long a message ends the connection.
    let mut stream = UnixStream::connect(&sidecar.socket).unwrap();
    let sent = stream.write_all(&vec![b'x'; 1 << 20]);
    let mut answer = Vec::new();
    assert!(sent.is_err() || stream.read_to_end(&mut answer).is_err() || answer.is_empty());
    assert!(sidecar.status().contains("malformed="));
    sidecar.end();
}

#[test]
fn many_and_slow_clients_keep_nobody_waiting() {
    let folder = folder();
    let sidecar = blind(folder.path());
    // More than it takes at a time, and silent; those in excess are closed at once.
    let silent: Vec<UnixStream> =
        (0..3000).filter_map(|_| UnixStream::connect(&sidecar.socket).ok()).collect();
    assert!(silent.len() > 500);
    drop(silent);
    for i in 0..10_000 {
        let mut stream = UnixStream::connect(&sidecar.socket).unwrap();
        if i % 2 == 0 {
            _ = stream.write_all(b"name=half");
        }
    }
    crate::wait_until("it answers again", || sidecar.ask("ask=status\n\n").is_ok());
    // Several messages on one connection, in pieces.
    let mut stream = UnixStream::connect(&sidecar.socket).unwrap();
    for piece in ["name=a\n", "\nname=b", "\n\n"] {
        stream.write_all(piece.as_bytes()).unwrap();
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("\n\n").count(), 2, "{answers}");
    let memory = fs::read_to_string(format!("/proc/{}/status", sidecar.child.id())).unwrap();
    let peak = memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kilobytes < 400_000, "{peak}");
    sidecar.end();
}

#[test]
fn the_socket_is_taken_over_from_the_dead_only() {
    let folder = folder();
    let socket = folder.path().join("s");
    drop(UnixListener::bind(&socket).unwrap()); // left behind
    let sidecar = blind(folder.path());
    let second = mdts(folder.path()).args(["serve", "--slurm", "--socket", "s"]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(text(&second.stderr).contains("another sidecar listens there"));
    assert!(sidecar.status().contains("version="));
    sidecar.end();
    fs::write(&socket, "something of somebody's").unwrap();
    let refused = mdts(folder.path()).args(["serve", "--slurm", "--socket", "s"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(!fs::metadata(&socket).unwrap().file_type().is_socket());
}
