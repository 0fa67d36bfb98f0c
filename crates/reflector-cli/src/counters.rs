//! The reflector's own counters, through the `metrics` facade that it writes to.
//!
//! A program in a cluster would install an exporter instead; this is as much as a command has to know.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// All counters by name and labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(Arc<Mutex<HashMap<Key, Arc<AtomicU64>>>>);

impl Counters {
    /// The counters of this process, kept from the first call on.
    pub(crate) fn install() -> Self {
        static INSTALLED: OnceLock<Counters> = OnceLock::new();
        INSTALLED
            .get_or_init(|| {
                let counters = Self::default();
                // There is no other recorder in this process.
                let _ = metrics::set_global_recorder(counters.clone());
                counters
            })
            .clone()
    }

    /// The counters of a name by the value of one label, those that count nothing left out.
    pub(crate) fn by(&self, name: &str, label: &str) -> Vec<(String, u64)> {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<(String, u64)> = counters
            .iter()
            .filter(|(key, _)| key.name() == name)
            .filter_map(|(key, count)| {
                let value = key.labels().find(|l| l.key() == label)?.value().to_owned();
                Some((value, count.load(Ordering::Relaxed))).filter(|(_, count)| *count > 0)
            })
            .collect();
        found.sort();
        found
    }

    /// The sum of the counters of a name.
    pub(crate) fn sum(&self, name: &str) -> u64 {
        let counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().filter(|(key, _)| key.name() == name).map(|(_, c)| c.load(Ordering::Relaxed)).sum()
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Counter::from_arc(Arc::clone(counters.entry(key.clone()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_told_apart_by_label() {
        let counters = Counters::default();
        metrics::with_local_recorder(&counters, || {
            metrics::counter!("relists", "reason" => "expired").increment(2);
            metrics::counter!("relists", "reason" => "rewound").increment(1);
            metrics::counter!("relists", "reason" => "poll").increment(0);
            metrics::counter!("other", "reason" => "expired").increment(5);
        });
        let expected = [("expired".to_owned(), 2), ("rewound".to_owned(), 1)];
        assert_eq!(counters.by("relists", "reason"), expected);
        assert_eq!(counters.sum("relists"), 3);
    }
}
