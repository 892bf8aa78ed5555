//! Jobs that wait are led: pinned when their time comes, ranked by their workflow, released if they ask for it, and left as they were.

use mdts_integration_tests::slurm::SlurmCluster;

use crate::{Sidecar, fields, folder, node_of, submit, wait_until};

#[test]
fn workflows_in_the_queue_are_led() {
    let folder = folder();
    let Some(cluster) = SlurmCluster::start("leading", &[]) else { return };
    let socket = folder.path().join("s");
    let sidecar = Sidecar::start(&cluster, folder.path(), &socket, &[]);
    // first --> long --> last
    //      '--> short
    let first = submit(&cluster, &["-t2", "-w", "slow", "-H", "-J", "first"]);
    let after = |job: u32| format!("--dependency=afterok:{job}");
    let long = submit(&cluster, &["-t60", &after(first), "-J", "long"]);
    let short = submit(&cluster, &["-t1", &after(first), "-J", "short"]);
    let last = submit(&cluster, &["-t30", &after(long), "-J", "last"]);
    let nice = |job| fields(&cluster, job, &["Nice"])[0].parse::<i64>().unwrap();
    wait_until("priorities follow the ranks", || nice(short) > nice(last) && nice(last) > nice(long));
    assert_eq!(fields(&cluster, first, &["ReqNodes", "Nice"]), ["slow", "0"]);
    // Nothing waits for a node yet.
    assert_eq!(fields(&cluster, long, &["ReqNodes"]), [""]);
    cluster.ask("scontrol", &["release", &first.to_string()]);
    for job in [long, last] {
        assert_eq!(node_of(&cluster, job), "fast");
    }
    // A held job that asks for it is placed and released; another one is not touched.
    let asks = submit(&cluster, &["-t5", "-H", "--comment=mdts:place"]);
    let plain = submit(&cluster, &["-t5", "-H"]);
    assert_eq!(node_of(&cluster, asks), "fast");
    assert_eq!(fields(&cluster, plain, &["State", "ReqNodes", "admin_comment"]), ["PENDING", "", "(null)"]);
    // What the sidecar did to jobs that wait it takes back when it ends.
    let head = submit(&cluster, &["-t2", "-w", "slow", "-H"]);
    let tail = submit(&cluster, &["-t60", &after(head)]);
    let other = submit(&cluster, &["-t1", &after(head)]);
    wait_until("it is ranked", || nice(other) > 0);
    sidecar.end();
    assert_eq!(nice(other), 0);
    assert_eq!(fields(&cluster, tail, &["State", "ReqNodes", "Nice"]), ["PENDING", "", "0"]);
}

#[test]
fn an_outage_of_slurm_is_survived() {
    let folder = folder();
    let Some(cluster) = SlurmCluster::start("outage", &[]) else { return };
    let socket = folder.path().join("s");
    let sidecar = Sidecar::start(&cluster, folder.path(), &socket, &[]);
    cluster.kill_controller();
    let log = || std::fs::read_to_string(folder.path().join("sidecar.log")).unwrap();
    wait_until("the outage is told", || log().contains("Slurm was not seen"));
    assert!(sidecar.ask("name=x\n\n").is_ok());
    cluster.start_controller();
    let age = || {
        let status = sidecar.status();
        let age = status.lines().find_map(|line| line.strip_prefix("age=")).unwrap().to_owned();
        age.parse::<f64>().unwrap()
    };
    wait_until("Slurm is seen again", || age() < 3.0);
    sidecar.end();
}
