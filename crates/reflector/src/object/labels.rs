//! Labels, shared.
//!
//! The pods of a replica set have the same labels, so a collection has far fewer sets of labels than objects, and few
//! names and values in them. Each set and each text is kept once in the process, as long as anything uses it.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

/// The labels of an object, ordered by name. Equal sets share their memory.
///
/// ```
/// use reflector::Labels;
///
/// let labels = Labels::from_iter([("tier", "web"), ("app", "cart")]);
/// assert_eq!(labels.get("app"), Some("cart"));
/// assert_eq!(labels.iter().collect::<Vec<_>>(), [("app", "cart"), ("tier", "web")]);
/// ```
#[derive(Clone, Default)]
pub struct Labels(Option<Set>);

type Pairs = [(Arc<str>, Arc<str>)];
type Set = Arc<Pairs>;

impl Labels {
    /// The value of one label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let set = self.set();
        set.binary_search_by(|(n, _)| (**n).cmp(name)).ok().map(|i| &*set[i].1)
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.set().iter().map(|(name, value)| (&**name, &**value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.set().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Labels from pairs that are sorted by name, each name once.
    fn from_sorted(pairs: &[(&str, &str)]) -> Self {
        if pairs.is_empty() {
            return Self::default();
        }
        Self(Some(INTERNER.set(pairs)))
    }

    fn set(&self) -> &Pairs {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    /// Of a name that comes twice, the last counts.
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let mut pairs: Vec<_> = pairs.into_iter().collect();
        // Servers sort them already.
        if !pairs.is_sorted_by(|(a, _), (b, _)| a < b) {
            pairs.sort_by_key(|(name, _)| *name);
            pairs.dedup_by(|later, earlier| {
                let same = later.0 == earlier.0;
                if same {
                    *earlier = *later;
                }
                same
            });
        }
        Self::from_sorted(&pairs)
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            // Nearly always, for equal ones.
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (None, None) => true,
            _ => false,
        }
    }
}

impl Eq for Labels {}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

static INTERNER: LazyLock<Interner> = LazyLock::new(Interner::default);

/// What is in use, by hash. Two things of one hash are not told apart: the later one is simply not shared.
#[derive(Default)]
struct Interner {
    hasher: RandomState,
    sets: Mutex<Table<Pairs>>,
    words: Mutex<Table<str>>,
}

impl Interner {
    fn set(&self, pairs: &[(&str, &str)]) -> Set {
        let matches = |set: &Pairs| {
            set.len() == pairs.len() && set.iter().zip(pairs).all(|((n, v), pair)| (&**n, &**v) == *pair)
        };
        let make = || pairs.iter().map(|(name, value)| (self.word(name), self.word(value))).collect();
        intern(&self.sets, self.hasher.hash_one(pairs), matches, make)
    }

    fn word(&self, text: &str) -> Arc<str> {
        intern(&self.words, self.hasher.hash_one(text), |word| word == text, || text.into())
    }
}

struct Table<T: ?Sized> {
    held: HashMap<u64, Arc<T>>,
    /// How many more questions are answered before what nobody uses is thrown out.
    left: usize,
}

impl<T: ?Sized> Default for Table<T> {
    fn default() -> Self {
        Self { held: HashMap::new(), left: FEW }
    }
}

impl<T: ?Sized> Table<T> {
    /// Throws out what nobody else holds, once in as many questions as there were entries after the last time: so it
    /// costs each of them a constant, and what is unused is never more than what was in use.
    fn sweep(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.held.retain(|_, held| Arc::strong_count(held) > 1);
            self.left = self.held.len().max(FEW);
            if self.held.capacity() > 4 * self.left {
                self.held.shrink_to_fit();
            }
        }
    }
}

/// So many entries are too few to be looked through.
const FEW: usize = 256;

/// What is held and matches, or else what is made now. `make` runs without the lock.
fn intern<T: ?Sized>(
    table: &Mutex<Table<T>>,
    hash: u64,
    matches: impl Fn(&T) -> bool,
    make: impl FnOnce() -> Arc<T>,
) -> Arc<T> {
    // Nothing that can panic half-way runs under the lock.
    let lock = || table.lock().unwrap_or_else(PoisonError::into_inner);
    {
        let mut table = lock();
        table.sweep();
        if let Some(held) = table.held.get(&hash)
            && matches(held)
        {
            return Arc::clone(held);
        }
    }
    let made = make();
    match lock().held.entry(hash) {
        Entry::Vacant(entry) => {
            entry.insert(Arc::clone(&made));
            made
        }
        // Somebody else was faster, or it is another one with this hash.
        Entry::Occupied(entry) if matches(entry.get()) => Arc::clone(entry.get()),
        Entry::Occupied(_) => made,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_sets_and_equal_texts_are_kept_once() {
        let a = Labels::from_iter([("shared-app", "cart"), ("shared-tier", "web")]);
        let b = Labels::from_iter([("shared-tier", "web"), ("shared-app", "cart")]);
        assert!(Arc::ptr_eq(a.0.as_ref().unwrap(), b.0.as_ref().unwrap()));
        let c = Labels::from_iter([("shared-app", "cart")]);
        assert!(Arc::ptr_eq(&a.set()[0].1, &c.set()[0].1));
    }

    #[test]
    fn what_nobody_uses_is_thrown_out() {
        let table = Mutex::new(Table::<str>::default());
        let word = |i: u64| intern(&table, i, |held| held == i.to_string(), || i.to_string().into());
        let kept: Vec<_> = (0..100).map(word).collect();
        (100..100_000).for_each(|i| drop(word(i)));
        let held = table.lock().unwrap().held.len();
        assert!((100..1_000).contains(&held), "{held} are held");
        assert!(kept.iter().zip(0..).all(|(kept, i)| Arc::ptr_eq(kept, &word(i))), "what is used stays");
    }

    #[test]
    fn texts_of_one_hash_are_both_right() {
        let table = Mutex::new(Table::<str>::default());
        let word = |text: &str| intern(&table, 7, |held| held == text, || text.into());
        let (a, b) = (word("a"), word("b"));
        assert_eq!((&*a, &*b, &*word("a"), &*word("b")), ("a", "b", "a", "b"));
    }

    proptest! {
        #[test]
        fn labels_are_a_map_ordered_by_name(pairs in prop::collection::vec(("[a-c]{0,2}", "[a-c]{0,1}"), 0..6)) {
            let labels: Labels = pairs.iter().map(|(n, v)| (&**n, &**v)).collect();
            let map: std::collections::BTreeMap<_, _> = pairs.iter().cloned().collect();
            let expected: Vec<_> = map.iter().map(|(n, v)| (&**n, &**v)).collect();
            prop_assert_eq!(labels.iter().collect::<Vec<_>>(), expected);
            prop_assert_eq!((labels.len(), labels.is_empty()), (map.len(), map.is_empty()));
            for (name, value) in &map {
                prop_assert_eq!(labels.get(name), Some(&**value));
            }
            prop_assert_eq!(labels.get("d"), None);
        }
    }
}
