//! Submissions through Lua and through the plugin: placed, refused with a message, and let through whatever becomes of the sidecar.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mdts_integration_tests::slurm::SlurmCluster;

use crate::hostile;
use crate::{Sidecar, fields, folder, node_of, plugin, submit, text, try_to_submit, version};

/// A sidecar that was too slow is left alone for a second.
const REST: Duration = Duration::from_millis(1100);

fn lua_source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../slurm/lua")
}

/// The module that asks at `socket`.
fn lua_module(folder: &Path, socket: &Path) -> PathBuf {
    let text = fs::read_to_string(lua_source().join("mdts.lua")).unwrap();
    let path = folder.join("mdts.lua");
    fs::write(&path, text.replace("/run/mdts/slurm.sock", socket.to_str().unwrap())).unwrap();
    path
}

/// A cluster that asks at `socket` through Lua.
fn with_lua(name: &str, folder: &Path, socket: &Path) -> Option<SlurmCluster> {
    let (module, script) = (lua_module(folder, socket), lua_source().join("job_submit.lua"));
    let files = ["--file", module.to_str()?, "--file", script.to_str()?];
    SlurmCluster::start(
        name,
        &[&files[..], &["--package", "lua-socket", "--line", "JobSubmitPlugins=lua"]].concat(),
    )
}

/// The same through the plugin.
fn with_plugin(name: &str, socket: &Path) -> Option<SlurmCluster> {
    let file: PathBuf = plugin(&version()?)?;
    let file = format!("job_submit_mdts.so={}", file.display());
    let variable = format!("MDTS_SLURM_SOCKET={}", socket.display());
    let flags = ["--plugin", &file, "--variable", &variable, "--line", "JobSubmitPlugins=mdts"];
    SlurmCluster::start(name, &flags)
}

#[test]
fn lua_places_and_refuses() {
    let folder = folder();
    let socket = folder.path().join("s");
    let Some(cluster) = with_lua("lua", folder.path(), &socket) else { return };
    all(&cluster, folder.path(), &socket);
}

#[test]
fn the_plugin_places_and_refuses() {
    let folder = folder();
    let socket = folder.path().join("s");
    let Some(cluster) = with_plugin("plugin", &socket) else { return };
    all(&cluster, folder.path(), &socket);
}

#[test]
fn the_filter_of_the_commands_places_and_refuses() {
    let folder = folder();
    let socket = folder.path().join("s");
    let module = lua_module(folder.path(), &socket);
    let script = lua_source().join("cli_filter.lua");
    let files = ["--file", module.to_str().unwrap(), "--file", script.to_str().unwrap()];
    let flags = [&files[..], &["--package", "lua-socket", "--line", "CliFilterPlugins=lua"]].concat();
    let Some(cluster) = SlurmCluster::start("clients", &flags) else { return };
    // Without a sidecar everything passes.
    submit(&cluster, &["-H", "-c2"]);
    let sidecar = Sidecar::start(&cluster, folder.path(), &socket, &["--no-lead", "--mode", "0666"]);
    // On a busy machine an answer may come after the 20 ms in which it counts; the job then passes as it is.
    let placed = (0..10).any(|_| {
        let job = submit(&cluster, &["-c2", "-t5"]);
        fields(&cluster, job, &["ReqNodes", "Nice"]) == ["fast", "0"]
    });
    assert!(placed, "none of ten jobs was placed");
    let job = submit(&cluster, &["-c2", "-N1", "-w", "slow", "--nice=7"]);
    assert_eq!(fields(&cluster, job, &["ReqNodes", "Nice"]), ["slow", "7"]);
    refuses(&cluster);
    let told = cluster.ask("srun", &["-c2", "-t5", "printenv", "SLURMD_NODENAME"]);
    assert_eq!(told.trim(), "fast");
    sidecar.end();
}

/// What both ways must do.
fn all(cluster: &SlurmCluster, folder: &Path, socket: &Path) {
    passes_without_a_sidecar(cluster, socket);
    std::thread::sleep(REST);
    let sidecar = Sidecar::start(cluster, folder, socket, &["--no-lead"]);
    places(cluster, folder);
    refuses(cluster);
    hostile::descriptions(cluster);
    sidecar.end();
    assert!(cluster.ask("scontrol", &["ping"]).contains("is UP"));
}

fn places(cluster: &SlurmCluster, folder: &Path) {
    let job = submit(cluster, &["-c2", "-t5"]);
    assert_eq!(node_of(cluster, job), "fast");
    assert_eq!(fields(cluster, job, &["ReqNodes", "admin_comment"]), ["fast", "mdts:placed"]);
    // What the user fixes stays.
    let job = submit(cluster, &["-c2", "-t5", "-w", "slow", "--nice=7"]);
    assert_eq!(node_of(cluster, job), "slow");
    assert_eq!(fields(cluster, job, &["Nice", "admin_comment"]), ["7", "(null)"]);
    let job = submit(cluster, &["-c2", "-t5", "-x", "fast"]);
    assert_eq!(node_of(cluster, job), "middle");
    // Several nodes, arrays and components are no less jobs.
    let job = submit(cluster, &["-N2", "-n2", "-t5"]);
    assert_eq!(fields(cluster, job, &["ReqNodes"]), ["fast,middle"]);
    submit(cluster, &["-a1-3", "-t5"]);
    submit(cluster, &["-c1", "-t5", ":", "-c1"]);
    // Its place in a workflow tells its priority.
    let flow = folder.join("flow.yaml");
    fs::write(&flow, "name: f\ntasks:\n  - {name: a, work: 9}\n  - {name: b, work: 1, after: [a]}\n")
        .unwrap();
    let nice = |task: &str| {
        let comment = format!("--comment=mdts:graph={}:task={task}", flow.display());
        let job = submit(cluster, &["-t5", "--begin=now+1hour", &comment]);
        fields(cluster, job, &["Nice"]).remove(0)
    };
    assert_eq!((nice("a"), nice("b"), nice("unknown")), ("0".into(), "90".into(), "0".into()));
}

fn refuses(cluster: &SlurmCluster) {
    let table = [
        (&["-c99"][..], "mdts: no node in partition main has 99 CPUs; the largest, "),
        (&["--gres=gpu:9"], "of the generic resource gpu"),
        (&["-N99"], "99 nodes are asked for, and there are 4"),
        (&["--mem=9T"], "MiB of memory; the largest, big, has "),
    ];
    for (options, expected) in table {
        let output = try_to_submit(cluster, options);
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(expected), "{options:?}: {told}");
    }
}

/// No sidecar, one that never answers, one that answers nonsense, one that trickles, one that hangs up.
fn passes_without_a_sidecar(cluster: &SlurmCluster, socket: &Path) {
    let passes = |what: &str| {
        let output = try_to_submit(cluster, &["-c1", "-t5", "-H", "-J", what]);
        assert!(output.status.success(), "{what}: {}", text(&output.stderr));
        let job = text(&output.stdout).trim().parse().unwrap();
        assert_eq!(fields(cluster, job, &["Name", "ReqNodes", "Nice"]), [what, "", "0"]);
    };
    passes("absent");
    fs::write(socket, "no socket").unwrap();
    passes("file");
    fs::remove_file(socket).unwrap();
    let endless = "x".repeat(200_000);
    let answers: [(&str, &[u8]); 5] = [
        ("silent", b""),
        ("nonsense", b"\xff\x00\n=\n\n\n"),
        ("wrong", b"nice=many\nnodelist\n\n"),
        ("trickling", b"nodelist=slow"),
        ("endless", endless.as_bytes()),
    ];
    for (what, answer) in answers {
        let listener = UnixListener::bind(socket).unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                _ = stream.read(&mut [0; 4096]);
                for byte in answer.chunks(if what == "trickling" { 1 } else { answer.len().max(1) }) {
                    if stream.write_all(byte).is_err() {
                        break;
                    }
                    if what == "trickling" {
                        std::thread::sleep(Duration::from_millis(15));
                    }
                }
                // Until the other side gives up.
                _ = stream.read(&mut [0; 1]);
            });
            std::thread::sleep(REST);
            passes(what);
            server.join().unwrap();
        });
        fs::remove_file(socket).unwrap();
    }
}
