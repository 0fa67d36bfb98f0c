//! The tiny server: three objects, and a log of what happened to them.

use std::fmt;

use reflector::protocol::EventKind;

/// How many objects there can be.
pub const KEYS: usize = 3;

/// One state of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// Which object it is: a name that is taken again has another one.
    pub uid: u8,
    /// Its version.
    pub version: u64,
    /// What it says. Each write says something else, so that a version which is given out twice is found out.
    pub stamp: u8,
}

/// The objects under their keys.
pub type Content = [Option<Object>; KEYS];

/// What one version changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The object's key.
    pub key: usize,
    /// What happened to it.
    pub kind: EventKind,
    /// Its state; of one that was deleted the last one, with the version of the deletion.
    pub object: Object,
}

/// What a client of the server changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// Creates or updates the object of this key.
    Put(usize),
    /// Deletes it.
    Delete(usize),
}

/// The server's state. The entry of version 1 is the first of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    log: Vec<Entry>,
    /// How often it was restored from a backup.
    pub epoch: u8,
    /// The resource is not there (a CRD that was deleted).
    pub absent: bool,
    /// What was before this version is forgotten: no watch can start there, and no list go on.
    pub compacted: u64,
    stamps: u8,
}

impl Server {
    /// With the objects a and b.
    #[must_use]
    pub fn new() -> Self {
        let mut server = Self { log: Vec::new(), epoch: 0, absent: false, compacted: 0, stamps: 0 };
        server.write(Write::Put(0));
        server.write(Write::Put(1));
        server
    }

    /// The version of the collection.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.log.len() as u64
    }

    /// What there is now.
    #[must_use]
    pub fn content(&self) -> Content {
        self.content_at(self.revision())
    }

    /// What there was at a version.
    #[must_use]
    pub fn content_at(&self, version: u64) -> Content {
        let mut content = Content::default();
        for entry in self.log.iter().take(usize::try_from(version).unwrap_or(usize::MAX)) {
            content[entry.key] = (entry.kind != EventKind::Deleted).then_some(entry.object);
        }
        content
    }

    /// What a version changed.
    #[must_use]
    pub fn entry(&self, version: u64) -> Option<Entry> {
        let index = usize::try_from(version).ok()?.checked_sub(1)?;
        self.log.get(index).copied()
    }

    /// What can be written now.
    pub fn writes(&self) -> impl Iterator<Item = Write> {
        let content = self.content();
        (0..KEYS).flat_map(move |key| {
            let delete = content[key].map(|_| Write::Delete(key));
            [Some(Write::Put(key)), delete].into_iter().flatten()
        })
    }

    /// Writes.
    pub fn write(&mut self, write: Write) {
        self.stamps += 1;
        let (Write::Put(key) | Write::Delete(key)) = write;
        let (held, version, stamp) = (self.content()[key], self.revision() + 1, self.stamps);
        let uid = held.map_or(stamp, |held| held.uid);
        let kind = match (write, held) {
            (Write::Delete(_), _) => EventKind::Deleted,
            (Write::Put(_), Some(_)) => EventKind::Modified,
            (Write::Put(_), None) => EventKind::Added,
        };
        self.log.push(Entry { key, kind, object: Object { uid, version, stamp } });
    }

    /// Forgets what was before the version after this one, if there is one.
    pub fn compact(&mut self, version: u64) {
        if version < self.revision() {
            self.compacted = self.compacted.max(version + 1);
        }
    }

    /// Goes back to an earlier version, as an etcd that is restored from a backup: later versions are given out again.
    pub fn restore(&mut self, version: u64) {
        self.log.truncate(usize::try_from(version).unwrap_or(usize::MAX));
        self.compacted = self.compacted.min(version);
        self.epoch += 1;
    }

    /// Deletes the resource and everything in it.
    pub fn remove(&mut self) {
        for (key, object) in self.content().into_iter().enumerate() {
            if object.is_some() {
                self.write(Write::Delete(key));
            }
        }
        self.absent = true;
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(key) => write!(f, "somebody writes {}", name(*key)),
            Self::Delete(key) => write!(f, "somebody deletes {}", name(*key)),
        }
    }
}

/// The name of a key.
#[must_use]
pub(super) fn name(key: usize) -> char {
    ['a', 'b', 'c'].get(key).copied().unwrap_or('?')
}

/// `a@1 b@2`, with what each says where that is not its version.
#[must_use]
pub(super) fn show(content: &Content) -> String {
    let objects = content.iter().enumerate().filter_map(|(key, object)| object.map(|o| (key, o)));
    let shown: Vec<_> = objects
        .map(|(key, o)| {
            let said = if u64::from(o.stamp) == o.version { String::new() } else { format!("#{}", o.stamp) };
            format!("{}@{}{said}", name(key), o.version)
        })
        .collect();
    if shown.is_empty() { "nothing".to_owned() } else { shown.join(" ") }
}
