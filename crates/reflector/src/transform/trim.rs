//! Takes parts out of an object, without decoding the others.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use reflector_protobuf::Kind;

use super::{
    PathError, Transform, TransformError,
    path::{Path, Place},
};
use crate::{
    Encoding, Object,
    wire::{
        WireError,
        json::{
            meta,
            scan::{Scanner, Token},
        },
    },
};

/// A transform that takes parts of objects away, so that they need no memory.
///
/// What is left are the bytes that the server sent, around the parts that are gone; an object that has none of the parts
/// is not touched and not copied. It takes one pass over the object, whatever the number of paths.
///
/// ```
/// use reflector::{Object, transform::{Transform, Trim}};
///
/// let trim = Trim::new().managed_fields().last_applied().path("/status/conditions/*/message")?;
/// let pod: Object<serde_json::Value> = Object::from_json(
///     r#"{"metadata":{"name":"a","managedFields":[{}]},"status":{"conditions":[{"message":"long","type":"Ready"}]}}"#,
/// )?;
/// let pod = trim.transform(pod)?;
/// assert_eq!(&pod.json()?[..], br#"{"metadata":{"name":"a"},"status":{"conditions":[{"type":"Ready"}]}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Of an object in protobuf, a map or list of which nothing is left is gone too: protobuf cannot tell them apart.
#[derive(Clone, Debug, Default)]
pub struct Trim {
    paths: Vec<Path>,
    /// The same for protobuf, by what is trimmed: one kind for each source.
    compiled: Arc<Mutex<Vec<Compiled>>>,
}

type Compiled = (Kind, Arc<reflector_protobuf::Trim>);

impl Trim {
    /// Takes nothing away yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes away `metadata.managedFields`: who set which field. Often half of an object.
    #[must_use]
    pub fn managed_fields(self) -> Self {
        self.known("/metadata/managedFields")
    }

    /// Takes away the annotation in which `kubectl apply` keeps a copy of the object. The map of annotations stays, even
    /// if it becomes empty.
    #[must_use]
    pub fn last_applied(self) -> Self {
        self.known("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration")
    }

    /// Takes away what this path leads to: a JSON pointer (RFC 6901), in which `*` stands for every member of an object
    /// and every element of an array. An index is that of the array before anything was taken away.
    ///
    /// # Errors
    ///
    /// [`PathError`] if it is no such path, or if name, namespace, uid, version or labels would go with it: the
    /// reflector has to know these of every object.
    pub fn path(mut self, path: &str) -> Result<Self, PathError> {
        self.paths.push(Path::new(path)?);
        self.compiled = Arc::default();
        Ok(self)
    }

    /// A path that is known to be good.
    fn known(mut self, path: &str) -> Self {
        self.paths.extend(Path::new(path));
        self.compiled = Arc::default();
        self
    }
}

impl Trim {
    fn compiled(&self, kind: Kind) -> Result<Arc<reflector_protobuf::Trim>, TransformError> {
        // Nothing that can panic half-way runs under the lock.
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, trim)) = compiled.iter().find(|(known, _)| *known == kind) {
            return Ok(Arc::clone(trim));
        }
        let paths = self.paths.iter().map(Path::to_string);
        let trim = reflector_protobuf::Trim::new(kind.message(), paths).map_err(TransformError::new)?;
        let trim = Arc::new(trim);
        compiled.push((kind, Arc::clone(&trim)));
        Ok(trim)
    }

    fn protobuf(&self, kind: Kind, bytes: &[u8]) -> Result<Option<Vec<u8>>, TransformError> {
        let mut rest = Vec::new();
        self.compiled(kind)?.trim(bytes, &mut rest).map_err(|error| {
            let offset = error.offset() as u64;
            WireError::Protobuf { offset, what: error.to_string() }
        })?;
        Ok((rest.len() < bytes.len()).then_some(rest))
    }

    fn json(&self, json: &[u8]) -> Result<Option<Vec<u8>>, TransformError> {
        let cuts = Cutter::new(&self.paths, json).cuts()?;
        if cuts.is_empty() {
            return Ok(None);
        }
        let mut rest = Vec::with_capacity(json.len() - cuts.iter().map(Range::len).sum::<usize>());
        let mut from = 0;
        for cut in cuts {
            rest.extend_from_slice(json.get(from..cut.start).unwrap_or_default());
            from = cut.end;
        }
        rest.extend_from_slice(json.get(from..).unwrap_or_default());
        Ok(Some(rest))
    }
}

impl<K> Transform<K> for Trim {
    fn transform(&self, object: Object<K>) -> Result<Object<K>, TransformError> {
        let bytes = object.bytes()?;
        let rest = match object.encoding() {
            Encoding::Json => self.json(&bytes)?,
            Encoding::Protobuf(kind) => self.protobuf(kind, &bytes)?,
        };
        drop(bytes);
        Ok(match rest {
            Some(mut rest) => {
                rest.shrink_to_fit();
                Object::new(object.meta().clone(), object.encoding(), rest.into())
            }
            None => object,
        })
    }
}

/// An open bracket on the way of at least one path.
struct Bracket {
    /// The paths that have led here, by index.
    paths: Vec<usize>,
    array: bool,
    /// How many members or elements have begun.
    count: usize,
    /// Whether one of them stays.
    kept: bool,
    /// Where the last of them ended, or else the bracket.
    from: usize,
}

/// Finds what has to be cut out.
///
/// A member that goes takes all with it from the end of the one before it: the comma between them, and its name. If all
/// before a member have gone, the comma before that member goes too.
struct Cutter<'a> {
    paths: &'a [Path],
    json: &'a [u8],
    brackets: Vec<Bracket>,
    /// Where the member that goes, and has not ended yet, is cut off.
    going: Option<usize>,
    /// In order, without overlaps.
    cuts: Vec<Range<usize>>,
}

impl<'a> Cutter<'a> {
    fn new(paths: &'a [Path], json: &'a [u8]) -> Self {
        Self { paths, json, brackets: Vec::new(), going: None, cuts: Vec::new() }
    }

    fn cuts(mut self) -> Result<Vec<Range<usize>>, WireError> {
        // The object has passed the limits of its source.
        let mut scanner = Scanner::new(usize::MAX);
        let mut rest = self.json;
        while let Some(token) = scanner.next(&mut rest)? {
            let at = self.json.len() - rest.len();
            match token {
                Token::Start { depth: 0, .. } => {
                    self.open((0..self.paths.len()).collect(), false, at);
                    scanner.watch = 1;
                }
                Token::Start { depth, first } => {
                    let descend = self.start(depth, first, at);
                    scanner.watch = if descend { depth + 1 } else { depth };
                }
                Token::End { depth: 0 } => return Ok(self.cuts),
                Token::End { depth } => {
                    self.end(depth, at);
                    scanner.watch = depth;
                }
            }
        }
        Err(WireError::Truncated { offset: scanner.offset(), pending: scanner.offset(), what: "object" })
    }

    fn open(&mut self, paths: Vec<usize>, array: bool, from: usize) {
        self.brackets.push(Bracket { paths, array, count: 0, kept: false, from });
    }

    /// A value begins whose first byte lies before `at`. Tells whether to look into it.
    fn start(&mut self, depth: usize, first: u8, at: usize) -> bool {
        let Some(around) = self.brackets.last_mut() else { return false };
        let between = self.json.get(around.from..at - 1).unwrap_or_default();
        let name;
        let place = if around.array {
            Place::Element(around.count)
        } else {
            name = meta::name_at_end(between);
            Place::Member(&name)
        };
        let steps = depth - 1;
        let led: Vec<usize> =
            around.paths.iter().copied().filter(|path| self.paths[*path].leads_to(steps, place)).collect();
        let is_first = around.count == 0;
        around.count += 1;
        if led.iter().any(|path| self.paths[*path].len() == depth) {
            self.going = Some(around.from);
            return false;
        }
        if !is_first && !around.kept {
            let comma = between.iter().position(|b| *b == b',').map_or(0, |at| at + 1);
            self.cuts.push(around.from..around.from + comma);
        }
        around.kept = true;
        let descend = matches!(first, b'{' | b'[') && !led.is_empty();
        if descend {
            self.open(led, first == b'[', at);
        }
        descend
    }

    /// A value ends before `at`.
    fn end(&mut self, depth: usize, at: usize) {
        self.brackets.truncate(depth);
        if let Some(from) = self.going.take() {
            self.cuts.push(from..at);
        }
        if let Some(around) = self.brackets.last_mut() {
            around.from = at;
        }
    }
}

#[cfg(test)]
#[path = "trim_tests.rs"]
mod tests;
