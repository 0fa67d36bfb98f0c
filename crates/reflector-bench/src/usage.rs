//! What the operating system says of this process.

use std::{fmt, fs, str::FromStr, time::Duration};

use rustix::time::{ClockId, clock_gettime};

use crate::Failure;

/// Time and memory of this process so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all threads.
    pub(crate) cpu: Duration,
    /// Resident now, in KiB.
    pub(crate) rss: u64,
    /// The most that was resident since the last [`forget_peak`], in KiB.
    pub(crate) peak: u64,
    /// How many of what was asked for were seen: objects or events.
    pub(crate) count: u64,
    /// How often memory was asked for, or asked to become larger.
    pub(crate) allocations: u64,
}

impl Usage {
    pub(crate) fn now(count: u64) -> Result<Self, Failure> {
        let heap = crate::HEAP.stats();
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self {
            cpu: Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?),
            rss: status_of_process("VmRSS:")?,
            peak: status_of_process("VmHWM:")?,
            count,
            allocations: (heap.allocations + heap.reallocations).try_into()?,
        })
    }
}

/// A number of `/proc/self/status`, by the beginning of its line.
pub(crate) fn status_of_process(name: &str) -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Ok(number.ok_or_else(|| format!("no line {name} in /proc/self/status"))?)
}

/// Lets the peak start from what is resident now (proc(5), `clear_refs`).
pub(crate) fn forget_peak() -> Result<(), Failure> {
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
