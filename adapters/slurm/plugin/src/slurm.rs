//! What slurmctld itself offers: its allocator and its log, found by name at run time, so that this also builds and is tested
//! where Slurm is not.
#![allow(unsafe_code)] // dlsym and the functions that it finds are C

use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
}

/// Copies a text into memory of Slurm's.
pub(crate) type Duplicate = unsafe extern "C" fn(*const c_char) -> *mut c_char;
/// Frees such memory and sets the pointer to null.
pub(crate) type Free = unsafe extern "C" fn(*mut *mut c_char);
type Log = unsafe extern "C" fn(*const c_char, ...);

/// Slurm's allocator: what it is given it will free itself, by its own means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocator {
    pub(crate) duplicate: Duplicate,
    pub(crate) free: Free,
}

/// Slurm's allocator, if this runs inside Slurm.
pub(crate) fn allocator() -> Option<Allocator> {
    static FOUND: OnceLock<Option<Allocator>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let (duplicate, free) = (find(c"slurm_xstrdup")?, find(c"slurm_xfree")?);
        // SAFETY: both have had these signatures in every version of Slurm (xstring.h, xmalloc.h): char *(const char *), and
        // void (void **), of which a char ** is one.
        unsafe {
            Some(Allocator {
                duplicate: std::mem::transmute::<*mut c_void, Duplicate>(duplicate),
                free: std::mem::transmute::<*mut c_void, Free>(free),
            })
        }
    })
}

/// Writes a line into slurmctld's log.
pub(crate) fn log(message: &str) {
    static FOUND: OnceLock<Option<Log>> = OnceLock::new();
    let found = FOUND.get_or_init(|| {
        let log = find(c"slurm_info")?;
        // SAFETY: void (const char *, ...) in every version of Slurm (log.h).
        Some(unsafe { std::mem::transmute::<*mut c_void, Log>(log) })
    });
    if let (Some(log), Ok(message)) = (found, CString::new(message)) {
        // SAFETY: the format takes one text, which lives until the call returns.
        unsafe { log(c"job_submit/mdts: %s".as_ptr(), message.as_ptr()) }
    }
}

fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a null handle is RTLD_DEFAULT, all objects that are loaded; the name is a C string.
    let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
