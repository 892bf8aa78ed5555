//! What slurmctld looks for in a job submit plugin.
#![allow(unsafe_code)] // symbols with C names, and pointers from slurmctld

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::answer::apply;
use crate::ask::ask;
use crate::job::Job;
use crate::layout::{CONFIG_UNAVAILABLE, VERSION};
use crate::request::describe;
use crate::slurm::{self, Allocator};

/// A submission waits so long at most.
const BUDGET: Duration = Duration::from_millis(20);
/// No question for so long after one that was not answered in time, in milliseconds.
const REST: u64 = 1000;
/// Where the sidecar listens if the environment of slurmctld does not say.
const SOCKET: &str = "/run/mdts/slurm.sock";
/// Slurm's word for success.
const SUCCESS: c_int = 0;

/// For people: slurmctld shows it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static plugin_name: [u8; 25] = *b"Placement asked of mdts.\0";
/// What kind of plugin it is; slurmctld checks it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static plugin_type: [u8; 16] = *b"job_submit/mdts\0";
/// The version of Slurm that it was built for; slurmctld takes no other.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static plugin_version: u32 = VERSION;

static SOCKET_PATH: OnceLock<PathBuf> = OnceLock::new();
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);
/// In milliseconds of Unix time.
static RESTS_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Called once when slurmctld loads the plugin.
#[unsafe(no_mangle)]
pub extern "C" fn init() -> c_int {
    // The default hook looks for debug information, which takes a quarter of a second under slurmctld's locks.
    std::panic::set_hook(Box::new(|_| {}));
    let path = std::env::var_os("MDTS_SLURM_SOCKET").filter(|path| !path.is_empty());
    _ = SOCKET_PATH.set(path.unwrap_or_else(|| SOCKET.into()).into());
    SUCCESS
}

/// Called when slurmctld unloads it. There is nothing to give back.
#[unsafe(no_mangle)]
pub extern "C" fn fini() -> c_int {
    SUCCESS
}

/// Called for every submission, under slurmctld's locks.
///
/// # Safety
/// `job` is slurmctld's description of the job, `message` where it looks for a text for the user.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn job_submit(job: *mut c_void, _user: u32, message: *mut *mut c_char) -> c_int {
    let Some(allocator) = slurm::allocator() else { return SUCCESS };
    // SAFETY: as slurmctld promises.
    let Some(mut job) = (unsafe { Job::new(job.cast()) }) else { return SUCCESS };
    let refusal = catch_unwind(AssertUnwindSafe(|| steer(&mut job, allocator))).unwrap_or_default();
    let Some(text) = refusal else { return SUCCESS };
    if let (false, Ok(text)) = (message.is_null(), CString::new(text.replace('\0', " "))) {
        // SAFETY: slurmctld frees by its own means what its allocator has made.
        unsafe { message.write((allocator.duplicate)(text.as_ptr())) }
    }
    CONFIG_UNAVAILABLE
}

/// Called for every change of a job: users change what they like.
#[cfg(not(modify_has_message))]
#[unsafe(no_mangle)]
pub extern "C" fn job_modify(_job: *mut c_void, _record: *mut c_void, _user: u32) -> c_int {
    SUCCESS
}

/// Called for every change of a job: users change what they like.
#[cfg(modify_has_message)]
#[unsafe(no_mangle)]
pub extern "C" fn job_modify(
    _job: *mut c_void,
    _record: *mut c_void,
    _user: u32,
    _message: *mut *mut c_char,
) -> c_int {
    SUCCESS
}

/// Asks the sidecar and does what it says; why the job is refused, if it is.
fn steer(job: &mut Job<'_>, allocator: Allocator) -> Option<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if (now.as_millis() as u64) < RESTS_UNTIL.load(Ordering::Relaxed) {
        return None;
    }
    let socket = SOCKET_PATH.get()?;
    match ask(socket, &describe(job, now.as_secs()), BUDGET) {
        Ok(answer) => {
            HAS_COMPLAINED.store(false, Ordering::Relaxed);
            apply(&answer, job, allocator).err()
        }
        Err(error) => {
            if error.kind() == std::io::ErrorKind::TimedOut {
                RESTS_UNTIL.store(now.as_millis() as u64 + REST, Ordering::Relaxed);
            }
            if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
                slurm::log(&format!("jobs pass unchanged: {}: {error}", socket.display()));
            }
            None
        }
    }
}
