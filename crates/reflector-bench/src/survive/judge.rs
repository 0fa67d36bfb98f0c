//! What a client holds, beside what the server has.

use std::{collections::BTreeMap, fmt, time::Duration};

use reflector_apiserver::core::Core;
use serde_json::{Value, json};

use super::things::{Data, What};

/// One object, as it is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) uid: String,
    pub(super) version: String,
    /// `None` if it does not fit its type.
    pub(super) data: Option<Data>,
}

/// A collection, by name.
pub(super) type Collection = BTreeMap<String, Held>;

/// What the server has. A resource that it does not know has no objects.
pub(super) fn truth(core: &Core, what: What) -> Collection {
    let objects = core.objects(what.plural()).unwrap_or_default();
    let held = |body: &[u8]| {
        let body: Value = serde_json::from_slice(body).ok()?;
        serde_json::from_value(body.get("data")?.clone()).ok()
    };
    objects
        .into_iter()
        .map(|object| {
            let (uid, version) = (object.uid, object.revision.to_string());
            (object.name, Held { uid, version, data: held(&object.body) })
        })
        .collect()
}

/// In what a copy differs from the truth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// On the server and not in the copy.
    pub(super) missing: usize,
    /// In both, and not the same object, version or content.
    pub(super) stale: usize,
    /// In the copy and not on the server.
    pub(super) ghosts: usize,
}

impl Difference {
    pub(super) fn between(copy: &Collection, truth: &Collection) -> Self {
        Self {
            missing: truth.keys().filter(|name| !copy.contains_key(*name)).count(),
            stale: truth
                .iter()
                .filter(|(name, object)| copy.get(*name).is_some_and(|held| held != *object))
                .count(),
            ghosts: copy.keys().filter(|name| !truth.contains_key(*name)).count(),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [(self.missing, "missing"), (self.stale, "stale"), (self.ghosts, "ghosts")];
        let parts: Vec<_> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        // Equal at the end, and yet a change after that never came.
        f.write_str(&if parts.is_empty() { "does not follow".to_owned() } else { parts.join(", ") })
    }
}

/// Whether some object has become older.
pub(super) fn went_back(before: &Collection, now: &Collection) -> bool {
    let number = |held: &Held| held.version.parse::<u64>().unwrap_or(0);
    before
        .iter()
        .any(|(name, old)| now.get(name).is_some_and(|new| new.uid == old.uid && number(new) < number(old)))
}

/// What became of a client in a scenario.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// From the end of the scenario until the copy was equal, and had followed one more round of changes.
    pub(super) converged: Option<Duration>,
    /// What was wrong when patience was over.
    pub(super) difference: Difference,
    /// All requests that reached the gate.
    pub(super) requests: u64,
    /// How many errors the user was told of, and of how many objects that they do not fit their type.
    pub(super) told: u64,
    /// The last of them.
    pub(super) last_error: Option<String>,
    /// Some object was seen to become older, though the server had not gone back.
    pub(super) went_back: bool,
    /// How the client ended by itself, if it did.
    pub(super) ended: Option<&'static str>,
}

impl Outcome {
    /// Whether nothing is left of the fire.
    pub(super) fn is_sound(&self) -> bool {
        self.converged.is_some() && !self.went_back && self.ended.is_none()
    }

    pub(super) fn json(&self) -> Value {
        let Difference { missing, stale, ghosts } = self.difference;
        json!({
            "converged": self.converged.is_some(),
            "seconds": self.converged.map(|time| time.as_secs_f64()),
            "missing": missing, "stale": stale, "ghosts": ghosts,
            "requests": self.requests, "errors_told": self.told, "last_error": self.last_error,
            "went_back": self.went_back, "ended": self.ended,
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.converged {
            Some(time) => write!(f, "{:.1} s", time.as_secs_f64())?,
            None => write!(f, "**no**: {}", self.difference)?,
        }
        if self.went_back {
            f.write_str(", went back")?;
        }
        if let Some(ended) = self.ended {
            write!(f, ", {ended}")?;
        }
        write!(f, "; {} requests, told {}", self.requests, self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection(objects: &[(&str, &str, &str)]) -> Collection {
        let held = |uid: &str, version: &str| Held {
            uid: uid.to_owned(),
            version: version.to_owned(),
            data: Some(Data::new()),
        };
        objects.iter().map(|(name, uid, version)| ((*name).to_owned(), held(uid, version))).collect()
    }

    #[test]
    fn each_kind_of_difference_is_counted() {
        let truth = collection(&[("a", "1", "5"), ("b", "2", "6"), ("c", "3", "7")]);
        assert_eq!(Difference::between(&truth, &truth), Difference::default());
        // Another uid with the same version is another object.
        let copy = collection(&[("a", "9", "5"), ("b", "2", "4"), ("d", "4", "8")]);
        assert_eq!(Difference::between(&copy, &truth), Difference { missing: 1, stale: 2, ghosts: 1 });
        let mut spoiled = truth.clone();
        spoiled.get_mut("a").unwrap().data = None;
        assert_eq!(Difference::between(&spoiled, &truth), Difference { stale: 1, ..Difference::default() });
    }

    #[test]
    fn only_the_same_object_goes_back() {
        let before = collection(&[("a", "1", "9")]);
        assert!(went_back(&before, &collection(&[("a", "1", "8")])));
        assert!(!went_back(&before, &collection(&[("a", "1", "10")])));
        assert!(!went_back(&before, &collection(&[("a", "2", "8")])));
        assert!(!went_back(&before, &collection(&[])));
    }
}
