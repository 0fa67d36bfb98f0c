//! What the operating system says of this process.

use std::{fmt, fs, str::FromStr, time::Duration};

use rustix::time::{ClockId, clock_gettime};

use super::Failure;

/// Time and memory of this process so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    /// User and system time of all threads.
    pub(super) cpu: Duration,
    /// Resident now, in KiB.
    pub(super) rss: u64,
    /// The most that was resident since the last [`forget_peak`], in KiB.
    pub(super) peak: u64,
    /// How many of what was asked for were seen: objects or events.
    pub(super) count: u64,
    /// How often memory was asked for, or asked to become larger.
    pub(super) allocations: u64,
}

impl Usage {
    pub(super) fn now(count: u64) -> Result<Self, Failure> {
        let heap = crate::HEAP.stats();
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                .ok_or("no such line in /proc/self/status")
        };
        Ok(Self {
            cpu: Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?),
            rss: field("VmRSS:")?,
            peak: field("VmHWM:")?,
            count,
            allocations: (heap.allocations + heap.reallocations).try_into()?,
        })
    }
}

/// Lets the peak start from what is resident now (proc(5), `clear_refs`).
pub(super) fn forget_peak() -> Result<(), Failure> {
    Ok(fs::write("/proc/self/clear_refs", "5")?)
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rss, peak, count, allocations, .. } = self;
        write!(f, "{} {rss} {peak} {count} {allocations}", self.cpu.as_nanos())
    }
}

impl FromStr for Usage {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [cpu, rss, peak, count, allocations] = numbers[..] else {
            return Err(format!("not a report: {text:?}").into());
        };
        Ok(Self { cpu: Duration::from_nanos(cpu), rss, peak, count, allocations })
    }
}
