//! Counters and gauges, through the `metrics` facade. Their names are listed in `docs/observability.md`.
//!
//! Each has the label `resource`, so the number of series is the number of reflected resources.

use std::time::{SystemTime, UNIX_EPOCH};

use metrics::{Counter, Gauge, counter, gauge};

use crate::protocol::{Class, EventKind, Status, SyncReason, Time};

pub(crate) struct Metrics {
    resource: String,
    lists: Counter,
    watches: Counter,
    added: Counter,
    modified: Counter,
    deleted: Counter,
    bookmarks: Counter,
    invalid: Counter,
    objects: Gauge,
    version: Gauge,
    current_as_of: Gauge,
    synced: Gauge,
    waits: Gauge,
    last_proof: Option<Time>,
    /// What was counted of relists so far.
    relists: u64,
    /// What was counted of regressions so far.
    regressions: u64,
}

impl Metrics {
    pub(crate) fn new(resource: &str) -> Self {
        let event = |kind: &'static str| counter!("reflector_events_total", "resource" => resource.to_owned(), "type" => kind);
        Self {
            lists: counter!("reflector_lists_total", "resource" => resource.to_owned()),
            watches: counter!("reflector_watches_total", "resource" => resource.to_owned()),
            added: event("added"),
            modified: event("modified"),
            deleted: event("deleted"),
            bookmarks: event("bookmark"),
            invalid: event("invalid"),
            objects: gauge!("reflector_objects", "resource" => resource.to_owned()),
            current_as_of: gauge!("reflector_current_as_of_seconds", "resource" => resource.to_owned()),
            version: gauge!("reflector_resource_version", "resource" => resource.to_owned()),
            synced: gauge!("reflector_synced", "resource" => resource.to_owned()),
            waits: gauge!("reflector_waits_for_subscriber", "resource" => resource.to_owned()),
            resource: resource.to_owned(),
            last_proof: None,
            relists: 0,
            regressions: 0,
        }
    }

    pub(crate) fn list(&self) {
        self.lists.increment(1);
    }

    pub(crate) fn watch(&self) {
        self.watches.increment(1);
    }

    pub(crate) fn event(&self, kind: EventKind) {
        match kind {
            EventKind::Added => self.added.increment(1),
            EventKind::Modified => self.modified.increment(1),
            EventKind::Deleted => self.deleted.increment(1),
        }
    }

    pub(crate) fn bookmark(&self) {
        self.bookmarks.increment(1);
    }

    pub(crate) fn invalid(&self) {
        self.invalid.increment(1);
    }

    pub(crate) fn transform_errors(&self) -> Counter {
        counter!("reflector_transform_errors_total", "resource" => self.resource.clone())
    }

    /// A read of the collection began. It may be another try, or another way, of one that was counted.
    pub(crate) fn sync(&mut self, reason: SyncReason, relists: u64) {
        if std::mem::replace(&mut self.relists, relists) != relists {
            let resource = self.resource.clone();
            counter!("reflector_relists_total", "resource" => resource, "reason" => reason.as_str())
                .increment(1);
        }
    }

    pub(crate) fn error(&self, class: Class) {
        let resource = self.resource.clone();
        counter!("reflector_errors_total", "resource" => resource, "class" => class.as_str()).increment(1);
    }

    /// Whether nothing is read from the watch, since the store has no room for what would come.
    pub(crate) fn waits(&self, waits: bool) {
        self.waits.set(f64::from(u8::from(waits)));
    }

    /// What the status shows, and how many objects the store says it has.
    #[expect(clippy::cast_precision_loss, reason = "fifteen digits fit a double exactly")]
    pub(crate) fn show(&mut self, now: Time, status: &Status, objects: Option<usize>) {
        if let Some(objects) = objects {
            self.objects.set(objects as f64);
        }
        if status.last_proof != self.last_proof {
            // A gauge of the staleness itself would be wrong as soon as nothing happens, which is when it matters.
            self.last_proof = status.last_proof;
            let age = status.last_proof.map_or(Time::ZERO, |proof| now.saturating_sub(proof));
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.current_as_of.set(unix.saturating_sub(age).as_secs_f64());
        }
        if let Some(version) = status.version.as_ref().and_then(crate::ResourceVersion::gauge) {
            self.version.set(version as f64);
        }
        self.synced.set(f64::from(u8::from(status.synced)));
        let regressions = status.counts.regressions - self.regressions;
        if regressions > 0 {
            self.regressions = status.counts.regressions;
            counter!("reflector_regressions_total", "resource" => self.resource.clone())
                .increment(regressions);
        }
    }
}
