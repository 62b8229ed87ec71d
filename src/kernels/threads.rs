//! Work shared among threads.
//!
//! A step of decoding shares out some two hundred pieces of work of a tenth of a millisecond each, often on a machine
//! that has other things to do. So nobody is waited for who has not begun: the caller works until nothing is left, and
//! then waits only for threads that are in the middle of a piece. A pool that waits for all of its threads to say that
//! they have nothing to do costs a turn of the scheduler each time one of them is not running (measured: two threads
//! slower than one).
//!
//! Invariant: when [`share`] returns, or panics, no thread runs its work or will.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::thread::{self, Thread};

/// 0 means one for each physical core.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Sets how many threads the kernels use, at most one for each physical core.
pub fn set_threads(threads: usize) {
    THREADS.store(threads, Ordering::Relaxed);
}

/// How many threads there can be. Asking the system takes longer than many a piece of work.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| candle_core::utils::get_num_threads().max(1))
}

/// How many threads the kernels use.
pub fn threads() -> usize {
    let all = most();
    match THREADS.load(Ordering::Relaxed) {
        0 => all,
        wanted => wanted.min(all),
    }
}

/// Work below this many multiplications is done before another thread has heard of it.
const SMALL: usize = 1 << 16;

/// Calls `work` with ranges that make up `0..items`, on several threads at once. Which thread does what is open. An
/// item takes about `cost` multiplications.
pub fn share(items: usize, cost: usize, work: impl Fn(Range<usize>) + Sync) {
    let threads = threads().min(items);
    if threads <= 1 || items.saturating_mul(cost) < SMALL {
        if items > 0 {
            work(0..items);
        }
        return;
    }
    // Several turns for each thread, so that a slow one does not hold up the others.
    let turn = items.div_ceil(threads * 8).max(1);
    let next = AtomicUsize::new(0);
    Pool::get().run(threads - 1, &|| {
        loop {
            let start = next.fetch_add(turn, Ordering::Relaxed);
            if start >= items {
                break;
            }
            work(start..items.min(start + turn));
        }
    });
}

/// Threads that help whoever has work.
struct Pool {
    /// The number of the work in hand, whether it may still be joined, and how many threads are at it.
    gate: AtomicU64,
    /// The work in hand.
    work: UnsafeCell<Option<Work>>,
    /// How many helpers may join it.
    helpers: AtomicUsize,
    /// The first panic of a helper.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Held by whoever shares out work.
    caller: Mutex<()>,
    sleepers: OnceLock<Vec<Sleeper>>,
}

type Work = *const (dyn Fn() + Sync);

/// A helper, and whether it has to be woken.
struct Sleeper {
    thread: Thread,
    asleep: &'static AtomicBool,
}

const ACTIVE: u64 = (1 << 16) - 1;
const OPEN: u64 = 1 << 16;
const NEXT: u64 = 1 << 17;

/// How often a helper looks for work before it sleeps: about a tenth of a millisecond.
const LOOKS: usize = 4000;
/// How often the caller looks before it lets others run.
const PATIENCE: usize = 2000;

// SAFETY: `work` is written by the caller alone, under its lock and while the gate is shut and nobody is inside; helpers
// read it only between entering through the open gate and leaving.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

impl Pool {
    fn get() -> &'static Pool {
        static POOL: OnceLock<Pool> = OnceLock::new();
        let pool = POOL.get_or_init(|| Pool {
            gate: AtomicU64::new(0),
            work: UnsafeCell::new(None),
            helpers: AtomicUsize::new(0),
            panic: Mutex::new(None),
            caller: Mutex::new(()),
            sleepers: OnceLock::new(),
        });
        pool.sleepers.get_or_init(|| {
            let count = most() - 1;
            let helper = |index: usize| {
                let asleep: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
                let name = format!("capjudge-{index}");
                // A thread that cannot be had is one that does not help.
                let spawned = thread::Builder::new().name(name).spawn(move || pool.help(index, asleep)).ok()?;
                Some(Sleeper { thread: spawned.thread().clone(), asleep })
            };
            (0..count).filter_map(helper).collect()
        });
        pool
    }

    /// Runs `work` here and on up to `helpers` other threads, each once; it has to be such that one thread can do it all.
    fn run(&self, helpers: usize, work: &(dyn Fn() + Sync)) {
        // Whoever comes while the helpers are busy, or from inside their work, does it alone.
        let _caller = match self.caller.try_lock() {
            Ok(caller) => caller,
            // An earlier caller's work panicked, behind which all is in order.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return work(),
        };
        // SAFETY: the gate is shut and nobody is inside. The lifetime is forgotten, but `Shut` below waits until the
        // last helper has left before `work` ends, also in a panic.
        unsafe { *self.work.get() = Some(std::mem::transmute::<&(dyn Fn() + Sync), Work>(work)) };
        self.helpers.store(helpers, Ordering::Relaxed);
        let number = self.gate.load(Ordering::Relaxed) / NEXT + 1;
        self.gate.store((number * NEXT) | OPEN, Ordering::SeqCst);
        for sleeper in self.sleepers.get().into_iter().flatten().take(helpers) {
            if sleeper.asleep.load(Ordering::SeqCst) {
                sleeper.thread.unpark();
            }
        }
        let shut = Shut(self);
        work();
        drop(shut);
        let panic = self.panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// The life of a helper.
    fn help(&self, index: usize, asleep: &AtomicBool) {
        let mut done = 0;
        loop {
            let mut looks = 0;
            let gate = loop {
                let gate = self.gate.load(Ordering::SeqCst);
                if gate & OPEN != 0 && gate / NEXT != done {
                    break gate;
                }
                looks += 1;
                if looks < LOOKS {
                    std::hint::spin_loop();
                } else if looks == LOOKS {
                    // Look once more behind this, so that no call is missed.
                    asleep.store(true, Ordering::SeqCst);
                } else {
                    thread::park();
                    asleep.store(false, Ordering::SeqCst);
                    looks = 0;
                }
            };
            asleep.store(false, Ordering::SeqCst);
            // Fails if the gate was shut meanwhile, or if another helper was faster: then look again.
            if self.gate.compare_exchange(gate, gate + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            done = gate / NEXT;
            if index < self.helpers.load(Ordering::Relaxed) {
                // SAFETY: this thread is inside, so the caller waits for it and the work lives.
                let work = unsafe { (*self.work.get()).map(|work| &*work) };
                if let Some(Err(panic)) = work.map(|work| catch_unwind(AssertUnwindSafe(work))) {
                    self.panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(panic);
                }
            }
            self.gate.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Shuts the gate and waits until nobody is inside.
struct Shut<'a>(&'a Pool);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.gate.fetch_and(!OPEN, Ordering::AcqRel);
        let mut looks = 0;
        while self.0.gate.load(Ordering::Acquire) & ACTIVE != 0 {
            looks += 1;
            if looks < PATIENCE {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_also_from_several_callers_and_inside_work() {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for items in (0..500).chain([10_000]) {
                        let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                        share(items, SMALL, |range| {
                            share(range.len(), SMALL, |inner| {
                                for item in inner {
                                    counts[range.start + item].fetch_add(1, Ordering::Relaxed);
                                }
                            });
                        });
                        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_of_any_thread_reaches_the_caller_and_the_pool_goes_on() {
        for bad in 0..64 {
            let shared = catch_unwind(|| share(64, SMALL, |range| assert!(!range.contains(&bad), "item {bad}")));
            assert!(shared.is_err());
        }
        let sum = AtomicUsize::new(0);
        share(1000, SMALL, |range| {
            sum.fetch_add(range.sum::<usize>(), Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 499_500);
    }
}
