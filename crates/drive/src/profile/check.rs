//! Checks the text of a profile against the schema, key by key, before deserialization into a
//! [`super::Profile`].
//!
//! Invariants: serde accepts whatever passes current; every fault carries the line of its key; the recursion is
//! no deeper than the schema, regardless of the input.

use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnose::{Faults, Grouped, KeyLocation, Lines, Rank, Source, list, snippet, suggest};
use super::quantity::{Bytes, Duration, QuantityError};
use super::schema_view::{Section, Shape, Type, sections};

/// The state of the check.
pub(super) struct Check<'a> {
    text: &'a str,
    lines: &'a Lines,
    sections: Vec<Section<'a>>,
    source: &'a mut Source,
    pub(super) faults: Faults,
}

/// The current table.
struct CurrentTable<'h> {
    /// `geometry.zone[0]`; empty at the top of the file.
    path: &'h str,
    /// `[[geometry.zone]] `, the prefix of messages about its keys; empty at the top of the file.
    heading: String,
    line: usize,
}

impl CurrentTable<'_> {
    fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

impl<'a> Check<'a> {
    pub(super) fn new(text: &'a str, lines: &'a Lines, schema: &'a Value, source: &'a mut Source) -> Self {
        Self { text, lines, sections: sections(schema), source, faults: Faults::default() }
    }

    /// Checks the whole file.
    pub(super) fn file(&mut self, table: &DeTable<'_>) {
        let Some(shape) = self.sections.first().map(|top| top.shape) else { return };
        self.table(table, shape, &CurrentTable { path: "", heading: String::new(), line: 1 });
    }

    fn fault(&mut self, rank: Rank, line: usize, message: String) {
        self.faults.add(rank, line, message);
    }

    /// Adds a fault of the value at `path`; the message quotes the value as written.
    fn value_fault(&mut self, path: &str, message: impl Display) {
        let (line, named) = (self.source.line(path), self.source.named(path));
        self.fault(Rank::Value, line, format!("{named} {message}"));
    }

    fn table(&mut self, table: &DeTable<'_>, shape: Shape<'a>, current: &CurrentTable<'_>) {
        let Some(shape) = self.variant(table, shape, current) else { return };
        let keys = shape.keys();
        for (key, value) in table.iter() {
            let (name, line) = (key.get_ref().as_ref(), self.lines.at(key.span().start));
            match keys.iter().find(|(known, _)| *known == name) {
                Some((_, inner)) => {
                    let path = current.join(name);
                    self.note(&path, line, value);
                    self.value(value, *inner, &path);
                }
                None => self.unknown(name, line, &keys, current),
            }
        }
        let has = |key: &str| table.iter().any(|(k, _)| k.get_ref() == key);
        for key in shape.required().into_iter().filter(|key| !has(key)) {
            let inner = keys.iter().find(|(known, _)| *known == key).map(|(_, inner)| *inner);
            self.missing(key, inner, current);
        }
        self.exclusive(&shape.exclusive(), &has, current);
    }

    /// The shape for a table's declared kind, or the shape itself if the table has no kinds.
    fn variant(
        &mut self,
        table: &DeTable<'_>,
        shape: Shape<'a>,
        current: &CurrentTable<'_>,
    ) -> Option<Shape<'a>> {
        let variants = shape.variants();
        if variants.is_empty() {
            return Some(shape);
        }
        let kinds: Vec<&str> = variants.iter().map(|(kind, _)| *kind).collect();
        let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == "kind") else {
            let message = format!("{}kind is missing; it is one of {}", current.heading, list(&kinds, "or"));
            self.fault(Rank::Missing, current.line, message);
            return None;
        };
        let path = current.join("kind");
        self.note(&path, self.lines.at(key.span().start), value);
        let word = value.get_ref().as_str();
        let found = variants.iter().find(|(kind, _)| Some(*kind) == word);
        if found.is_none() {
            let hint = suggest(word.unwrap_or_default(), "the kinds are", &kinds);
            self.value_fault(&path, format!("is not a kind of layer{hint}"));
        }
        found.map(|(_, shape)| *shape)
    }

    /// Records the line and the text of a key.
    fn note(&mut self, path: &str, line: usize, value: &Spanned<DeValue<'_>>) {
        let single = !matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_));
        let value = single.then(|| snippet(self.text, value.span()));
        self.source.keys.insert(path.to_owned(), KeyLocation { line, value });
    }

    fn unknown(&mut self, name: &str, line: usize, keys: &[(&str, Shape<'_>)], current: &CurrentTable<'_>) {
        let elsewhere: Vec<String> = self
            .sections
            .iter()
            .filter(|section| name != "kind" && section.shape.keys().iter().any(|(key, _)| *key == name))
            .map(Section::heading)
            .collect();
        let hint = if elsewhere.is_empty() {
            let known: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
            suggest(name, "the keys are", &known)
        } else {
            format!("; it belongs in {}", elsewhere.join(" or "))
        };
        let name = snippet(name, 0..name.len());
        self.fault(Rank::Unknown, line, format!("{}{name} is not a key here{hint}", current.heading));
    }

    fn missing(&mut self, key: &str, shape: Option<Shape<'_>>, current: &CurrentTable<'_>) {
        let path = current.join(key);
        let message = match shape {
            Some(shape) if shape.kind() == Type::Table => {
                format!("the section [{path}] is missing; add it")
            }
            Some(shape) => match shape.example() {
                Some(example) => format!("{}{key} is missing; add, say, {key} = {example}", current.heading),
                None => format!("{}{key} is missing", current.heading),
            },
            None => format!("{}{key} is missing", current.heading),
        };
        self.fault(Rank::Missing, current.line, message);
    }

    fn exclusive(&mut self, keys: &[&str], has: &dyn Fn(&str) -> bool, current: &CurrentTable<'_>) {
        let given: Vec<&str> = keys.iter().copied().filter(|key| has(key)).collect();
        if keys.is_empty() || given.len() == 1 {
            return;
        }
        let last_line = given.iter().map(|key| self.source.line(&current.join(key))).max();
        if let Some(line) = last_line {
            let message = format!("{}gives {}; keep one of them", current.heading, list(&given, "and"));
            self.fault(Rank::Missing, line, message);
        } else {
            let message = format!("{}gives none of {}; add one of them", current.heading, list(keys, "and"));
            self.fault(Rank::Missing, current.line, message);
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, shape: Shape<'a>, path: &str) {
        match (shape.kind(), value.get_ref()) {
            (Type::Table, DeValue::Table(table)) => {
                let line = self.source.line(path);
                self.table(table, shape, &CurrentTable { path, heading: format!("[{path}] "), line });
            }
            (Type::List, DeValue::Array(entries)) => self.entries(entries, shape, path),
            (Type::Bytes, DeValue::String(text)) => self.bytes(text.parse(), shape, path),
            (Type::Bytes, DeValue::Integer(_)) => {
                let read = match integer(value.get_ref()) {
                    Some(number) if number < 0 => Err(QuantityError::Negative),
                    number => number.and_then(|n| u64::try_from(n).ok()).ok_or(QuantityError::TooLong),
                };
                self.bytes(read.map(Bytes), shape, path);
            }
            (Type::Duration, DeValue::String(text)) => {
                self.quantity::<Duration>(text.parse(), shape, path);
            }
            (Type::Duration, DeValue::Integer(_) | DeValue::Float(_)) => {
                self.value_fault(
                    path,
                    "has no unit; write a text such as \"10.17 ms\", \"100 us\" or \"1.2 s\"",
                );
            }
            (Type::Choice, DeValue::String(word)) => self.choice(word, shape, path),
            (Type::Text, DeValue::String(text)) => self.string(text, shape, path),
            (Type::Whole, DeValue::Integer(_)) => {
                self.number(integer(value.get_ref()).map(|n| n as f64), shape, path);
            }
            (Type::Number, DeValue::Integer(_) | DeValue::Float(_)) => {
                self.number(float(value.get_ref()), shape, path);
            }
            (Type::Switch, DeValue::Boolean(_)) => {}
            (_, other) => self.wrong_type(other, shape, path),
        }
    }

    fn wrong_type(&mut self, value: &DeValue<'_>, shape: Shape<'_>, path: &str) {
        let got = match value {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let repeats = shape.items().first().is_some_and(|entry| entry.kind() == Type::Table);
        let wanted = match shape.kind() {
            Type::Table => format!("a section [{path}]"),
            Type::List if repeats => format!("sections [[{path}]]"),
            Type::List => "a list".to_owned(),
            Type::Bytes => "a size".to_owned(),
            Type::Duration => "a duration".to_owned(),
            Type::Choice | Type::Text => "text in quotes".to_owned(),
            Type::Whole => "a whole number".to_owned(),
            Type::Number => "a number".to_owned(),
            Type::Switch => "true or false".to_owned(),
        };
        let such = shape.example().map(|example| format!(" such as {example}")).unwrap_or_default();
        self.value_fault(path, format!("is {got}; it takes {wanted}{such}"));
    }

    fn entries(&mut self, entries: &[Spanned<DeValue<'_>>], shape: Shape<'a>, path: &str) {
        let shapes = shape.items();
        let bound = |key: &str| shape.number(key).map(|n| n as usize);
        let (low, high) = (bound("minItems").unwrap_or(0), bound("maxItems").unwrap_or(usize::MAX));
        if !(low..=high).contains(&entries.len()) {
            let takes = match (low, high) {
                (low, high) if low == high => format!("exactly {low}"),
                (low, high) => format!("{} to {}", Grouped(low as f64), Grouped(high as f64)),
            };
            self.value_fault(path, format!("has {} entries; it takes {takes}", entries.len()));
            return;
        }
        for (index, entry) in entries.iter().enumerate() {
            let Some(inner) = shapes.get(if shape.is_tuple() { index } else { 0 }) else { return };
            let (entry_path, line) = (format!("{path}[{index}]"), self.lines.at(entry.span().start));
            self.note(&entry_path, line, entry);
            match entry.get_ref() {
                DeValue::Table(table) if inner.kind() == Type::Table => {
                    let current = CurrentTable { path: &entry_path, heading: format!("[[{path}]] "), line };
                    self.table(table, *inner, &current);
                }
                _ => self.value(entry, *inner, &entry_path),
            }
        }
    }

    fn bytes(&mut self, read: Result<Bytes, QuantityError>, shape: Shape<'_>, path: &str) {
        let Some(size) = self.quantity(read, shape, path) else { return };
        let unit = shape.text("x-multiple").and_then(|unit| unit.parse::<Bytes>().ok());
        if let Some(unit) = unit.filter(|unit| !size.get().is_multiple_of(unit.get())) {
            self.value_fault(path, not_whole(size, unit, &format!("{unit} blocks")));
        }
    }

    /// A quantity that was parsed and is in its range.
    fn quantity<T>(&mut self, read: Result<T, QuantityError>, shape: Shape<'_>, path: &str) -> Option<T>
    where
        T: FromStr + PartialOrd + Display,
    {
        match (read, shape.quantity_range()) {
            (Err(error), _) => {
                self.value_fault(path, error);
                None
            }
            (Ok(value), Some((low, high))) => {
                let in_range = low.parse::<T>().is_ok_and(|low| low <= value)
                    && high.parse::<T>().is_ok_and(|high| value <= high);
                if !in_range {
                    self.value_fault(path, format!("is out of range {low} to {high}"));
                }
                in_range.then_some(value)
            }
            (Ok(value), None) => Some(value),
        }
    }

    fn number(&mut self, value: Option<f64>, shape: Shape<'_>, path: &str) {
        let (low, high) = (shape.number("minimum"), shape.number("maximum"));
        let (low, high) = (low.unwrap_or(f64::MIN), high.unwrap_or(f64::MAX));
        if !value.is_some_and(|value| (low..=high).contains(&value)) {
            let range = format!("is out of range {} to {}", Grouped(low), Grouped(high));
            self.value_fault(path, range);
        }
    }

    fn choice(&mut self, word: &str, shape: Shape<'_>, path: &str) {
        let words: Vec<&str> = shape.choices().iter().map(|(word, _)| *word).collect();
        if !words.contains(&word) {
            self.value_fault(path, format!("is not a choice{}", suggest(word, "the choices are", &words)));
        }
    }

    fn string(&mut self, text: &str, shape: Shape<'_>, path: &str) {
        let (low, high) = (shape.number("minLength"), shape.number("maxLength"));
        let chars = text.chars().count() as f64;
        if text.chars().any(char::is_control) {
            self.value_fault(path, "contains a line break or control character; keep it to one line");
        } else if chars < low.unwrap_or(0.0) {
            self.value_fault(path, "is empty");
        } else if let Some(high) = high.filter(|high| chars > *high) {
            self.value_fault(path, format!("is longer than {high} characters"));
        }
    }
}

/// Why `size` is rejected where whole `units` are required, and the nearest valid sizes.
pub(super) fn not_whole(size: Bytes, unit: Bytes, units: &str) -> String {
    let below = size.floor_to(unit);
    let above = Bytes(below.get().saturating_add(unit.get()));
    match below {
        Bytes(0) => format!("is not a whole number of {units}; \"{above}\" would do"),
        below => format!("is not a whole number of {units}; \"{below}\" or \"{above}\" would do"),
    }
}

/// The integer value, if it fits in 128 bits.
fn integer(value: &DeValue<'_>) -> Option<i128> {
    let number = value.as_integer()?;
    i128::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The numeric value; the text `nan` gives a value outside every range.
fn float(value: &DeValue<'_>) -> Option<f64> {
    match value.as_float() {
        Some(number) => number.as_str().parse().ok(),
        None => integer(value).map(|number| number as f64),
    }
}
