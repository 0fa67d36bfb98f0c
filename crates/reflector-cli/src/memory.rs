//! How much memory this process uses.

/// Resident bytes, now and at the most so far. `None` where the system does not say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) resident: Option<u64>,
    pub(crate) peak: Option<u64>,
}

impl Memory {
    #[cfg(target_os = "linux")]
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { resident: field(&status, "VmRSS:"), peak: field(&status, "VmHWM:") }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now() -> Self {
        Self::default()
    }
}

/// `VmHWM:  123456 kB`
#[cfg(any(target_os = "linux", test))]
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_writes() {
        let status = "Name:\tx\nVmHWM:\t  12 kB\nVmRSS:\t   8 kB\n";
        assert_eq!(field(status, "VmHWM:"), Some(12 << 10));
        assert_eq!(field(status, "VmSwap:"), None);
    }
}
