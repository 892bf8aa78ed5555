//! Slurm's job description behind a pointer: numbers are read, texts are read and replaced.
#![allow(unsafe_code)] // memory of Slurm's, laid out as its headers say
#![allow(clippy::cast_ptr_alignment)] // a C struct is aligned, and so are its fields

use std::ffi::{CStr, CString, c_char};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::layout::Field;
use crate::slurm::Allocator;

/// Longer texts are not read.
const LONGEST: usize = 8192;

/// A `job_desc_msg_t` that is ours while slurmctld waits for an entry point to return.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    start: NonNull<u8>,
    of: PhantomData<&'a mut [u8]>,
}

impl Job<'_> {
    /// # Safety
    /// `job` is null or points to a `job_desc_msg_t` of the version that this was built for, used by nobody else for as long as the
    /// value lives; its text fields are null or C strings from Slurm's allocator.
    pub(crate) unsafe fn new(job: *mut u8) -> Option<Self> {
        Some(Self { start: NonNull::new(job)?, of: PhantomData })
    }

    /// A number, whatever its size. None if it is not set.
    pub(crate) fn number(&self, field: Field) -> Option<u64> {
        // SAFETY: see `new`; the field lies inside and is aligned, as the headers or a test of the layout say.
        let value = unsafe {
            let at = self.start.as_ptr().add(field.offset);
            match field.size {
                1 => u64::from(at.read()),
                2 => u64::from(at.cast::<u16>().read()),
                4 => u64::from(at.cast::<u32>().read()),
                _ => at.cast::<u64>().read(),
            }
        };
        Some(value).filter(|value| *value != field.unset())
    }

    /// Sets a number of 32 bits.
    pub(crate) fn set_number(&mut self, field: Field, value: u32) {
        if field.size == 4 {
            // SAFETY: as in `number`.
            unsafe { self.start.as_ptr().add(field.offset).cast::<u32>().write(value) }
        }
    }

    /// A text. None if it is not set, empty or very long; what is no UTF-8 is replaced.
    pub(crate) fn text(&self, field: Field) -> Option<String> {
        let text = self.pointer(field);
        if text.is_null() {
            return None;
        }
        // SAFETY: see `new`: not null, so a C string.
        let text = unsafe { CStr::from_ptr(text) };
        let is_short = (1..=LONGEST).contains(&text.count_bytes());
        is_short.then(|| text.to_string_lossy().into_owned())
    }

    /// Whether a text is set, however long it is.
    pub(crate) fn has_text(&self, field: Field) -> bool {
        let text = self.pointer(field);
        // SAFETY: see `new`: not null, so a C string.
        !text.is_null() && unsafe { text.read() } != 0
    }

    /// Replaces a text, which Slurm will free.
    pub(crate) fn set_text(&mut self, field: Field, value: &str, allocator: Allocator) {
        let Ok(value) = CString::new(value) else { return };
        // SAFETY: a C string goes in, and one from Slurm's allocator, or null, comes out.
        let mut new = unsafe { (allocator.duplicate)(value.as_ptr()) };
        if new.is_null() {
            return;
        }
        // SAFETY: as in `number`; the old text is from Slurm's allocator.
        unsafe {
            let at = self.start.as_ptr().add(field.offset).cast::<*mut c_char>();
            new = at.replace(new);
            if !new.is_null() {
                (allocator.free)(&raw mut new);
            }
        }
    }

    fn pointer(&self, field: Field) -> *const c_char {
        // SAFETY: as in `number`; a text field holds a pointer.
        unsafe { self.start.as_ptr().add(field.offset).cast::<*const c_char>().read() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::layout::{COMMENT, CPUS_PER_TASK, NAME, NICE, NICE_OFFSET, SIZE, TIME_LIMIT};

    unsafe extern "C" {
        fn strdup(text: *const c_char) -> *mut c_char;
        fn free(text: *mut c_char);
    }

    unsafe extern "C" fn free_and_clear(text: *mut *mut c_char) {
        // SAFETY: the pointer is of strdup.
        unsafe {
            free(*text);
            *text = std::ptr::null_mut();
        }
    }

    /// The C library's, in Slurm's place.
    pub(crate) fn allocator() -> Allocator {
        Allocator { duplicate: strdup, free: free_and_clear }
    }

    /// Memory of a job description in which nothing is set, texts null and numbers 0.
    pub(crate) fn memory() -> Vec<u64> {
        vec![0; SIZE.div_ceil(8)]
    }

    pub(crate) fn job(memory: &mut [u64]) -> Job<'_> {
        // SAFETY: it is as large and aligned as a description; texts are null, or set by `set_text` with strdup.
        unsafe { Job::new(memory.as_mut_ptr().cast()) }.unwrap()
    }

    #[test]
    fn texts_and_numbers_are_read_and_set() {
        let mut memory = memory();
        let mut job = job(&mut memory);
        assert_eq!((job.text(NAME), job.has_text(NAME)), (None, false));
        job.set_text(NAME, "first", allocator());
        job.set_text(NAME, "second", allocator());
        job.set_text(COMMENT, "nul \0 inside", allocator());
        assert_eq!((job.text(NAME).as_deref(), job.text(COMMENT)), (Some("second"), None));
        job.set_text(COMMENT, &"x".repeat(LONGEST + 1), allocator());
        assert_eq!((job.text(COMMENT), job.has_text(COMMENT)), (None, true));
        job.set_number(NICE, NICE_OFFSET + 5);
        job.set_number(TIME_LIMIT, u32::MAX - 1);
        job.set_number(CPUS_PER_TASK, 1);
        assert_eq!(job.number(NICE), Some(0x8000_0005));
        assert_eq!((job.number(TIME_LIMIT), job.number(CPUS_PER_TASK)), (None, Some(0)));
        job.set_text(NAME, "", allocator());
        assert_eq!((job.text(NAME), job.has_text(NAME)), (None, false));
    }

    #[test]
    fn there_may_be_no_job() {
        // SAFETY: null is allowed.
        assert!(unsafe { Job::new(std::ptr::null_mut()) }.is_none());
    }
}
