//! Those who write: each write is on etcd at once, and on its way to the watch caches.

use std::time::Duration;

use super::{
    Cluster, Event,
    object::{KEYS, Key},
};

impl Cluster {
    fn is_writable(&self) -> bool {
        self.now >= self.conditions.absent_until
    }

    /// Creates or changes an object.
    pub(crate) fn put(&mut self, key: Key) {
        let selected = self.history.get(key).map_or_else(|| self.rng.u8(0..3) > 0, |old| old.selected);
        self.put_selected(key, selected);
    }

    fn put_selected(&mut self, key: Key, selected: bool) {
        if self.is_writable() {
            let tier = self.rng.u8(0..3);
            self.history.put(self.now, key, selected, tier);
            self.spread();
        }
    }

    pub(crate) fn flip(&mut self, key: Key) {
        let selected = self.history.get(key).is_none_or(|old| !old.selected);
        self.put_selected(key, selected);
    }

    pub(crate) fn delete(&mut self, key: Key) {
        if self.is_writable() && self.history.get(key).is_some() {
            self.history.delete(self.now, key);
            self.spread();
        }
    }

    pub(crate) fn delete_all(&mut self) {
        (0..KEYS).for_each(|key| self.delete(key));
    }

    pub(crate) fn create_all(&mut self) {
        for key in 0..KEYS {
            if self.history.get(key).is_none() {
                self.put(key);
            }
        }
    }

    pub(crate) fn hot(&mut self, key: Key, times: u8) {
        for _ in 0..times {
            let at = self.now + self.within(1000);
            self.schedule(at, Event::Write(key));
        }
    }

    pub(crate) fn other(&mut self, revisions: u16) {
        self.history.skip(revisions.into());
        self.spread();
    }

    /// Everything is deleted, and the resource with it.
    pub(crate) fn delete_resource(&mut self, absent: Duration) {
        let told = self.rng.bool();
        if told {
            self.delete_all();
        }
        let clean = self.rng.bool();
        // Streams end with the resource; what was deleted is told first, or not at all.
        for id in self.living() {
            if self.connections[id].stream.is_some() {
                if told {
                    let at = self.now + Duration::from_millis(self.nature.lag + 1);
                    self.schedule(at, Event::StreamOver(id));
                } else {
                    self.end_stream(id, clean);
                }
            }
        }
        self.delete_all();
        self.conditions.absent_until = self.conditions.absent_until.max(self.now + absent);
        self.schedule(self.now + absent, Event::Recreated);
    }

    /// The resource is back, with caches of its own.
    pub(crate) fn recreate_resource(&mut self) {
        if !self.is_writable() {
            return;
        }
        for server in &mut self.servers {
            server.window = server.window.max(server.rev);
        }
    }
}
