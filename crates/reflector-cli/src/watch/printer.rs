//! Objects and changes as text.

use std::{
    io::{self, Write},
    iter,
};

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use reflector::{Cache, Event, Object, Subscription};
use serde::Serialize;
use serde_json::Value;
use tokio::runtime;

use super::{
    columns::Columns,
    options::{Form, Options},
    table::Table,
};
use crate::{
    discovery::Resource,
    format::compact_json,
    output::{self, BOLD, GREEN, RED, YELLOW, one_line},
};

/// A change as it is printed.
type Item<K> = (&'static str, Object<K>);

/// Nothing for signs, which are not printed.
fn item<K>(event: Event<K>) -> Option<Item<K>> {
    match event {
        Event::Added { object, .. } => Some(("ADDED", object)),
        Event::Updated { new, .. } => Some(("MODIFIED", new)),
        Event::Deleted { last, .. } => Some(("DELETED", last)),
        _ => None,
    }
}

/// Prints to stdout.
pub(super) struct Printer {
    form: Form,
    /// `pod`, `deployment.apps`: what `-o name` puts before the name.
    prefix: String,
    namespaces: bool,
    columns: Columns,
    table: Table,
}

impl Printer {
    pub(super) fn new(resource: &Resource, options: &Options, all_namespaces: bool) -> Self {
        let wide = options.form == Form::Table { wide: true };
        let columns = Columns::of(resource, options.metadata_only, wide);
        let namespaces = all_namespaces && resource.namespaced;
        let mut headers = Vec::new();
        if !options.once {
            headers.push("EVENT");
        }
        if namespaces {
            headers.push("NAMESPACE");
        }
        headers.push("NAME");
        headers.extend(columns.headers());
        let singular = if resource.singular.is_empty() {
            resource.kind.to_lowercase()
        } else {
            resource.singular.clone()
        };
        let prefix =
            if resource.group.is_empty() { singular } else { format!("{singular}.{}", resource.group) };
        let mut table = Table::new(headers);
        if !options.once {
            // The widest event comes late, and the columns are not to jump.
            table.fit(&[vec!["MODIFIED".to_owned()]]);
        }
        Self { form: options.form, prefix, namespaces, columns, table }
    }

    /// Whether people read it, who want a word where there is nothing.
    pub(super) fn is_for_people(&self) -> bool {
        matches!(self.form, Form::Table { .. } | Form::Name)
    }

    /// Prints all objects, once.
    pub(super) fn list<K>(&mut self, cache: &Cache<K>) -> io::Result<()> {
        let mut out = output::stdout();
        let snapshot = cache.snapshot();
        let version = snapshot.version().map(ToString::to_string).unwrap_or_default();
        match self.form {
            Form::Table { .. } => {
                let now = Timestamp::now();
                let rows: Vec<Vec<String>> =
                    snapshot.iter().map(|object| self.row(None, object, now)).collect();
                self.rows(&mut out, &rows)?;
            }
            Form::Name => snapshot.iter().try_for_each(|object| self.name(&mut out, object))?,
            Form::Json => {
                let list = List::new(&version, snapshot.iter().map(value).collect());
                serde_json::to_writer_pretty(&mut out, &list)?;
                out.write_all(b"\n")?;
            }
            Form::Yaml => {
                let list = List::new(&version, snapshot.iter().map(value).collect());
                out.write_all(yaml(&list)?.as_bytes())?;
            }
        }
        out.flush()
    }

    /// Prints changes until there will be no more; blocks the thread.
    pub(super) fn follow<K>(
        &mut self,
        mut changes: Subscription<K>,
        runtime: &runtime::Handle,
    ) -> io::Result<()> {
        let mut out = output::stdout();
        while let Some(first) = runtime.block_on(changes.next()) {
            // All that waits, since the columns are to fit all of it.
            let rest = iter::from_fn(|| changes.next().now_or_never().flatten());
            let items: Vec<Item<K>> = iter::once(first).chain(rest).filter_map(item).collect();
            // A sign alone is no reason to print a header.
            if !items.is_empty() {
                self.changes(&mut out, &items)?;
                out.flush()?;
            }
        }
        Ok(())
    }

    fn changes<K>(&mut self, out: &mut impl Write, items: &[Item<K>]) -> io::Result<()> {
        match self.form {
            Form::Table { .. } => {
                let now = Timestamp::now();
                let row = |(event, object): &Item<K>| self.row(Some(event), object, now);
                let rows: Vec<Vec<String>> = items.iter().map(row).collect();
                self.rows(out, &rows)
            }
            Form::Name => items.iter().try_for_each(|(_, object)| self.name(out, object)),
            Form::Json => items.iter().try_for_each(|(event, object)| {
                write!(out, r#"{{"type":"{event}","object":"#)?;
                // A line is an event, whatever the server's taste in line ends.
                out.write_all(&compact_json(&object.json().map_err(io::Error::other)?))?;
                out.write_all(b"}\n")
            }),
            Form::Yaml => items.iter().try_for_each(|(event, object)| {
                let change = Change { kind: event, object: value(object) };
                write!(out, "---\n{}", yaml(&change)?)
            }),
        }
    }

    fn rows(&mut self, out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
        self.table.fit(rows);
        if let Some(header) = self.table.header() {
            writeln!(out, "{BOLD}{header}{BOLD:#}")?;
        }
        for row in rows {
            let line = self.table.line(row);
            // An event is the first cell, if there is one.
            let color = match row.first().map(String::as_str) {
                Some("ADDED") => GREEN,
                Some("MODIFIED") => YELLOW,
                Some("DELETED") => RED,
                _ => {
                    writeln!(out, "{line}")?;
                    continue;
                }
            };
            let (event, rest) = line.split_once(' ').unwrap_or((&line, ""));
            writeln!(out, "{color}{event}{color:#} {rest}")?;
        }
        Ok(())
    }

    fn row<K>(&self, event: Option<&str>, object: &Object<K>, now: Timestamp) -> Vec<String> {
        let mut row = Vec::new();
        row.extend(event.map(str::to_owned));
        if self.namespaces {
            row.push(one_line(object.namespace().unwrap_or_default()));
        }
        row.push(one_line(object.name()));
        row.extend(self.columns.cells(&value(object), now).iter().map(|cell| one_line(cell)));
        row
    }

    fn name<K>(&self, out: &mut impl Write, object: &Object<K>) -> io::Result<()> {
        writeln!(out, "{}/{}", self.prefix, one_line(object.name()))
    }
}

/// The object as a tree. What cannot be read shows nothing.
fn value<K>(object: &Object<K>) -> Value {
    object.decode_as().unwrap_or_default()
}

fn yaml(document: &impl Serialize) -> io::Result<String> {
    let mut text = serde_saphyr::to_string(document).map_err(io::Error::other)?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// What `kubectl get -o json` prints of several objects.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: ListMeta<'a>,
    items: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta<'a> {
    resource_version: &'a str,
}

impl<'a> List<'a> {
    fn new(resource_version: &'a str, items: Vec<Value>) -> Self {
        Self { api_version: "v1", kind: "List", metadata: ListMeta { resource_version }, items }
    }
}

#[derive(Serialize)]
struct Change {
    #[serde(rename = "type")]
    kind: &'static str,
    object: Value,
}
