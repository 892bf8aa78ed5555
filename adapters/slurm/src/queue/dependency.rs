//! Dependencies as Slurm writes them: `afterok:12:13(unfulfilled),afterany:14_2`, `afterok:1?afterok:2`, `singleton`.

/// The numbers of the jobs that a dependency names, arrays as a whole; what is no number is passed over.
///
/// ```
/// use mdts_slurm::queue::named_jobs;
/// assert_eq!(named_jobs("afterok:12:13(unfulfilled),after:14+5,aftercorr:15_*,singleton"), [12, 13, 14, 15]);
/// ```
pub fn named_jobs(dependency: &str) -> Vec<u32> {
    let conditions = dependency.split([',', '?']);
    let named = conditions.flat_map(|condition| condition.split(':').skip(1));
    let numbers = named.filter_map(|job| {
        let end = job.find(|c: char| !c.is_ascii_digit()).unwrap_or(job.len());
        job[..end].parse().ok()
    });
    numbers.collect()
}
