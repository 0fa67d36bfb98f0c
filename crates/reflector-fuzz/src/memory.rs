//! How much memory something takes, counted where it is allocated.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Runs `work`, while nothing else runs, and checks that it never held more than `bound` bytes more than there were before.
pub(crate) fn bounded<T>(bound: usize, work: impl FnOnce() -> T) -> T {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let result = work();
    let peak = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(peak <= bound, "held {peak} bytes where {bound} were allowed");
    result
}
