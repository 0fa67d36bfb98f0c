//! What there is to say of a moment: numbers with names, which travel as a line of text.

use std::{fmt, fs, str::FromStr};

use crate::{
    Failure, HEAP,
    usage::{Usage, status_of_process},
};

/// Numbers with names, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample(Vec<(String, f64)>);

impl Sample {
    /// What the operating system, the allocator and the runtime say of this process.
    pub(super) fn of_this_process() -> Result<Self, Failure> {
        let usage = Usage::now(0)?;
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let mut sample = Self::default();
        sample.set("rss_mib", usage.rss as f64 / 1024.0);
        sample.set("heap_mib", heap() / f64::from(1 << 20));
        sample.set("cpu_s", usage.cpu.as_secs_f64());
        // One of them is there to count them.
        sample.set("fds", (fs::read_dir("/proc/self/fd")?.count() - 1) as f64);
        sample.set("threads", status_of_process("Threads:")? as f64);
        sample.set("tasks", tasks as f64);
        Ok(sample)
    }

    pub(super) fn set(&mut self, name: impl Into<String>, value: f64) {
        self.0.push((name.into(), value));
    }

    /// All of another sample, with something before each name.
    pub(super) fn append(&mut self, prefix: &str, other: Self) {
        self.0.extend(other.0.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)));
    }

    /// 0 if there is none.
    pub(super) fn get(&self, name: &str) -> f64 {
        self.0.iter().find(|(have, _)| have == name).map_or(0.0, |(_, value)| *value)
    }

    /// The largest of those whose name begins so.
    pub(super) fn worst(&self, prefix: &str) -> f64 {
        self.0
            .iter()
            .filter(|(name, _)| name.starts_with(prefix))
            .map(|(_, value)| *value)
            .fold(0.0, f64::max)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(_, value)| *value)
    }
}

/// The bytes in use, without what the allocator adds and keeps.
fn heap() -> f64 {
    let heap = HEAP.stats();
    heap.bytes_allocated as f64 - heap.bytes_deallocated as f64
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, value)) in self.0.iter().enumerate() {
            let blank = if n == 0 { "" } else { " " };
            write!(f, "{blank}{name}={value}")?;
        }
        Ok(())
    }
}

impl FromStr for Sample {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let mut sample = Self::default();
        for word in text.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or_else(|| format!("not a sample: {text:?}"))?;
            sample.set(name, value.parse()?);
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut sample = Sample::default();
        sample.set("a", 1.5);
        sample.set("b_x", 3.0);
        sample.set("b_y", 2.0);
        assert_eq!(sample.to_string().parse::<Sample>().unwrap(), sample);
        assert_eq!((sample.get("a"), sample.get("c"), sample.worst("b_")), (1.5, 0.0, 3.0));
        assert!("a".parse::<Sample>().is_err() && "a=x".parse::<Sample>().is_err());
    }
}
