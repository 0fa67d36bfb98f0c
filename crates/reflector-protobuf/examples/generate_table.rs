//! Makes the table of fields, `src/schema/table.in`, from the facts about Kubernetes' types:
//!
//! ```text
//! cargo run -p reflector-protobuf --example generate_table -- ../shared/facts
//! ```
//!
//! A test makes the same call and compares, so the table in the repository is what this program writes.
#![allow(clippy::print_stderr, reason = "a program for the command line")]

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fmt::Write as _,
    fs,
    path::Path,
};

fn main() -> Result<(), Box<dyn Error>> {
    let facts = std::env::args().nth(1).ok_or("which folder are the facts in?")?;
    let read = |name: &str| fs::read_to_string(Path::new(&facts).join(name));
    let table = table(&read("fields.tsv")?, &read("kinds.tsv")?)?;
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema/table.in");
    fs::write(&to, table)?;
    eprintln!("wrote {}", to.display());
    Ok(())
}

/// Structs that JSON omits when they are zero, as `omitzero` says in Go, which is not in the facts: servers since 1.34
/// send no `creationTimestamp: null`, as in the bookmarks of a watch.
const OMITZERO: [(&str, &str); 1] = [("apimachinery.pkg.apis.meta.v1.ObjectMeta", "creationTimestamp")];

/// What each frame of a watch is.
const WATCH_EVENT: &str = "apimachinery.pkg.apis.meta.v1.WatchEvent";

/// What the types are made of that are a schema or something else.
const SCHEMA: &str = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

struct Fact<'a> {
    number: u8,
    name: &'a str,
    ty: &'a str,
    flags: String,
}

/// The table as Rust source.
pub(crate) fn table(fields: &str, kinds: &str) -> Result<String, Box<dyn Error>> {
    let mut messages: BTreeMap<&str, Vec<Fact<'_>>> = BTreeMap::new();
    let mut without_numbers = BTreeSet::new();
    for line in fields.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [message, number, name, _wire, ty, pointer, omitempty, inline] = columns[..] else {
            return Err(format!("not a row of eight columns: {line}").into());
        };
        // The payloads of the custom types, which have their own code.
        if name == "-" || (name.is_empty() && inline != "true") {
            continue;
        }
        if number.is_empty() {
            without_numbers.insert(message);
            continue;
        }
        let mut flags = String::new();
        for (is, flag) in [(pointer, 'P'), (omitempty, 'O')] {
            if is == "true" {
                flags.push(flag);
            }
        }
        if OMITZERO.contains(&(message, name)) {
            flags.push('Z');
        }
        // A named field that says inline is an ordinary one (VolumeAttachmentSource.inlineVolumeSpec).
        if inline == "true" && name.is_empty() {
            flags.push('I');
        }
        messages.entry(message).or_default().push(Fact { number: number.parse()?, name, ty, flags });
    }
    let kinds = kind_rows(kinds, &without_numbers)?;
    let roots = kinds.iter().map(|(_, _, message)| *message).chain([WATCH_EVENT]);
    let messages = reachable(roots, messages);
    let ids: BTreeMap<&str, usize> = messages.keys().enumerate().map(|(id, name)| (*name, id)).collect();

    let mut names = Names::default();
    let mut rows = String::new();
    let mut table = String::new();
    writeln!(table, "// Made by `cargo run -p reflector-protobuf --example generate_table`. Do not edit.")?;
    for (name, facts) in &messages {
        if facts.windows(2).any(|pair| pair[0].number == pair[1].number) {
            return Err(format!("two fields of {name} have one number").into());
        }
        writeln!(rows, "// {name}")?;
        for Fact { number, name, ty, flags } in facts {
            let (shape, ty) = element(ty);
            let (ty, message) = match ids.get(ty) {
                Some(id) => ("Message", *id),
                None if ty.starts_with("custom:jsonschemapropsor") => (tag(ty)?, ids[SCHEMA]),
                None => (tag(ty)?, 0),
            };
            let flags = flags.chars().map(|c| format!("{c} | ")).collect::<String>() + shape;
            writeln!(rows, "f({}, {number}, {ty}, {flags}, {message}), // {name}", names.add(name)?)?;
        }
    }
    if names.all.len() > usize::from(u16::MAX) {
        return Err("too many names of fields for 16 bits".into());
    }
    let count = messages.values().map(Vec::len).sum::<usize>();
    writeln!(table, "pub(super) static FIELDS: [FieldRow; {count}] = [\n{rows}];")?;
    writeln!(table, "pub(super) static MESSAGES: [MessageRow; {}] = [", messages.len())?;
    let mut first = 0;
    for (name, facts) in &messages {
        writeln!(table, "m({}, {first}, {}), // {name}", names.add(name)?, facts.len())?;
        first += facts.len();
    }
    table.push_str("];\n");
    writeln!(table, "pub(super) static KINDS: [KindRow; {}] = [", kinds.len())?;
    for (api_version, kind, message) in kinds {
        let message = ids[message];
        let (a, k) = (names.add(&api_version)?, names.add(kind)?);
        writeln!(table, "k({a}, {k}, {message}), // {api_version} {kind}")?;
    }
    writeln!(table, "];\npub(super) static NAMES: &str = \"\\")?;
    // Lines that a person's editor can bear; a backslash at the end joins them again.
    for line in names.all.as_bytes().chunks(100) {
        writeln!(table, "{}\\", std::str::from_utf8(line)?)?;
    }
    writeln!(table, "\";")?;
    Ok(table)
}

/// `apiVersion`, kind and message of each, in order.
type KindRows<'a> = BTreeSet<(String, &'a str, &'a str)>;

fn kind_rows<'a>(kinds: &'a str, without_numbers: &BTreeSet<&str>) -> Result<KindRows<'a>, Box<dyn Error>> {
    let mut rows = BTreeSet::new();
    for line in kinds.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [group, version, kind, message] = columns[..] else {
            return Err(format!("not a row of four columns: {line}").into());
        };
        if !without_numbers.contains(message) {
            let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            rows.insert((version, kind, message));
        }
    }
    Ok(rows)
}

/// The messages that can be met below the roots, with their fields in the order of the numbers.
fn reachable<'a>(
    roots: impl Iterator<Item = &'a str>,
    mut all: BTreeMap<&'a str, Vec<Fact<'a>>>,
) -> BTreeMap<&'a str, Vec<Fact<'a>>> {
    let mut found = BTreeMap::new();
    let mut next: Vec<&str> = roots.collect();
    while let Some(name) = next.pop() {
        if !found.contains_key(name) {
            // A message without any field has no row.
            let mut facts = all.remove(name).unwrap_or_default();
            facts.sort_by_key(|fact| fact.number);
            next.extend(facts.iter().map(|fact| element(fact.ty).1).filter(|ty| ty.contains('.')));
            found.insert(name, facts);
        }
    }
    found
}

/// The shape of a type of the facts (`S`ingle, `L`ist, `M`ap with string keys), and the type of one element.
fn element(ty: &str) -> (&'static str, &str) {
    if let Some(element) = ty.strip_prefix("[]") {
        ("L", element)
    } else if let Some(value) = ty.strip_prefix("map[string]") {
        ("M", value)
    } else {
        ("S", ty)
    }
}

/// The variant of `Type` for a type of the facts that is not a message.
fn tag(ty: &str) -> Result<&'static str, Box<dyn Error>> {
    Ok(match ty {
        "bool" => "Bool",
        "int32" => "Int32",
        "int64" => "Int64",
        "double" => "Double",
        "string" => "String",
        "bytes" => "Bytes",
        "wrapped:[]string" => "Strings",
        "custom:time" => "Time",
        "custom:microtime" => "MicroTime",
        "custom:quantity" => "Quantity",
        "custom:intorstring" => "IntOrString",
        "custom:rawextension" => "RawExtension",
        "custom:json" | "custom:fieldsv1" => "Json",
        "custom:jsonschemapropsorarray" => "SchemaOrArray",
        "custom:jsonschemapropsorbool" => "SchemaOrBool",
        "custom:jsonschemapropsorstringarray" => "SchemaOrStrings",
        _ => return Err(format!("unknown type {ty}").into()),
    })
}

/// Names, each kept once, in one string.
#[derive(Default)]
struct Names {
    all: String,
    at: BTreeMap<String, usize>,
}

impl Names {
    /// Where it is: offset and length, as two arguments.
    fn add(&mut self, name: &str) -> Result<String, Box<dyn Error>> {
        let all = &mut self.all;
        let at = *self.at.entry(name.to_owned()).or_insert_with(|| {
            all.push_str(name);
            all.len() - name.len()
        });
        Ok(format!("{at}, {}", u8::try_from(name.len())?))
    }
}
