//! Work shared among threads, on candle's pool.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::utils::barrier_pool;

/// 0 means all that the pool has.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Sets how many threads the kernels use; the pool has at most one for each physical core.
pub fn set_threads(threads: usize) {
    THREADS.store(threads, Ordering::Relaxed);
}

/// How many threads the kernels use.
pub fn threads() -> usize {
    let all = barrier_pool().n_workers() + 1;
    match THREADS.load(Ordering::Relaxed) {
        0 => all,
        wanted => wanted.min(all),
    }
}

/// Calls `work` with ranges that make up `0..items`, on several threads at once. Which thread does what is open.
pub fn share(items: usize, work: impl Fn(Range<usize>) + Sync) {
    let threads = threads().min(items);
    if threads <= 1 {
        if items > 0 {
            work(0..items);
        }
        return;
    }
    // Several turns for each thread, so that a slow one does not hold up the others.
    let turn = items.div_ceil(threads * 8).max(1);
    let next = AtomicUsize::new(0);
    barrier_pool().execute(|thread| {
        // The caller is the last thread of the pool: it always works.
        if thread + 1 < threads || thread == barrier_pool().n_workers() {
            loop {
                let start = next.fetch_add(turn, Ordering::Relaxed);
                if start >= items {
                    break;
                }
                work(start..items.min(start + turn));
            }
        }
    });
}
