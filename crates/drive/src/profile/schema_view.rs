//! A view of the generated JSON schema, used by the check and the reference page.
//!
//! Invariants: the schema is inlined (no `$ref`) and null-free; a table is an object with `properties`;
//! exclusive keys are a `oneOf` of `required` lists; kinds are a `oneOf` of objects, each with a constant
//! `kind`; sizes and durations have `x-quantity`, and their ranges `x-range`.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::quantity::Bytes;

/// The JSON schema of a type in draft 7.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|s| s.inline_subschemas = true);
    let generator: SchemaGenerator = settings.with_transform(RecursiveTransform(tidy)).into_generator();
    generator.into_root_schema_for::<T>().to_value()
}

/// Removes what TOML lacks (null, Rust's number formats) and bounds sizes that are written as numbers.
fn tidy(schema: &mut Schema) {
    unwrap_option(schema);
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("format");
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if object.get("x-quantity") == Some(&json!("bytes")) {
        for (bound, key) in ["minimum", "maximum"].iter().enumerate() {
            let text = object.get("x-range").and_then(|range| range.get(bound)?.as_str());
            if let Some(bytes) = text.and_then(|text| text.parse::<Bytes>().ok()) {
                object.insert((*key).to_owned(), json!(bytes));
            }
        }
    }
    for bound in ["minimum", "maximum"] {
        if let Some(value) = object.get_mut(bound) {
            whole(value);
        }
    }
}

/// Writes `1000.0` as `1000`.
fn whole(value: &mut Value) {
    if let Some(number) = value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15) {
        *value = json!(number as i64);
    }
}

/// Replaces the schema of `Option<T>` by that of `T`: a TOML file omits a key and has no null.
fn unwrap_option(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(choices)) = object.get("anyOf") else { return };
    let real: Vec<&Value> = choices.iter().filter(|choice| choice["type"] != "null").collect();
    if let [Value::Object(only)] = real.as_slice() {
        let only = only.clone();
        object.remove("anyOf");
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
    }
}

/// The type of a value in a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Table,
    List,
    Bytes,
    Duration,
    Choice,
    Text,
    Whole,
    Number,
    Switch,
}

/// A node of the schema.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a>(&'a Map<String, Value>);

impl<'a> Shape<'a> {
    pub(super) fn new(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    fn strings(value: Option<&'a Value>) -> Vec<&'a str> {
        value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub(super) fn kind(self) -> Type {
        if !self.choices().is_empty() {
            return Type::Choice;
        }
        match (self.text("x-quantity"), self.text("type")) {
            (Some("bytes"), _) => Type::Bytes,
            (Some(_), _) => Type::Duration,
            (_, Some("integer")) => Type::Whole,
            (_, Some("number")) => Type::Number,
            (_, Some("boolean")) => Type::Switch,
            (_, Some("array")) => Type::List,
            (_, Some("string")) => Type::Text,
            _ => Type::Table,
        }
    }

    pub(super) fn text(self, key: &str) -> Option<&'a str> {
        self.0.get(key)?.as_str()
    }

    pub(super) fn number(self, key: &str) -> Option<f64> {
        self.0.get(key)?.as_f64()
    }

    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key)
    }

    /// The schema's example of a value.
    pub(super) fn example(self) -> Option<&'a Value> {
        self.0.get("examples")?.get(0)
    }

    /// The keys of a table with their shapes: first the required keys in the order of the Rust struct, then
    /// the exclusive keys, then the others by name. (A JSON object itself has no order.)
    pub(super) fn keys(self) -> Vec<(&'a str, Shape<'a>)> {
        let properties = self.0.get("properties").and_then(Value::as_object);
        let shapes = properties.into_iter().flatten();
        let mut keys: Vec<_> = shapes.filter_map(|(k, v)| Some((k.as_str(), Shape::new(v)?))).collect();
        let first: Vec<&str> = self.required().into_iter().chain(self.exclusive()).collect();
        let rank = |key: &str| first.iter().position(|name| *name == key).unwrap_or(first.len());
        keys.sort_by_key(|(key, _)| (rank(key), *key));
        keys
    }

    pub(super) fn required(self) -> Vec<&'a str> {
        Self::strings(self.0.get("required"))
    }

    fn one_of(self) -> impl Iterator<Item = Shape<'a>> {
        self.0.get("oneOf").and_then(Value::as_array).into_iter().flatten().filter_map(Shape::new)
    }

    /// Keys of which a table must have exactly one.
    pub(super) fn exclusive(self) -> Vec<&'a str> {
        self.one_of().filter(|s| s.0.get("properties").is_none()).flat_map(Self::required).collect()
    }

    /// The kinds of a table, by the value of their key `kind`.
    pub(super) fn variants(self) -> Vec<(&'a str, Shape<'a>)> {
        self.one_of()
            .filter_map(|s| Some((s.0.get("properties")?["kind"].get("const")?.as_str()?, s)))
            .collect()
    }

    /// The words that a choice accepts, with their meanings.
    pub(super) fn choices(self) -> Vec<(&'a str, &'a str)> {
        let described =
            |s: Shape<'a>| Some((s.0.get("const")?.as_str()?, s.text("description").unwrap_or("")));
        let plain = Self::strings(self.0.get("enum")).into_iter().map(|word| (word, ""));
        let single = self.text("const").map(|word| (word, ""));
        self.one_of().filter_map(described).chain(plain).chain(single).collect()
    }

    /// The shape of a list's entries; a tuple has one shape for each.
    pub(super) fn items(self) -> Vec<Shape<'a>> {
        match self.0.get("items") {
            Some(Value::Array(shapes)) => shapes.iter().filter_map(Shape::new).collect(),
            Some(every) => Shape::new(every).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Whether a list is a tuple.
    pub(super) fn is_tuple(self) -> bool {
        matches!(self.0.get("items"), Some(Value::Array(_)))
    }

    /// The bounds of a size or duration, as written.
    pub(super) fn quantity_range(self) -> Option<(&'a str, &'a str)> {
        match Self::strings(self.0.get("x-range"))[..] {
            [low, high] => Some((low, high)),
            _ => None,
        }
    }
}

/// A table of a profile, as in the headings of the file and of the reference page.
pub(super) struct Section<'a> {
    /// `geometry.zone`; empty for the top of the file.
    pub(super) path: String,
    /// Whether it can occur several times, as `[[geometry.zone]]`.
    pub(super) repeats: bool,
    /// The kind, if the table or an enclosing one has kinds.
    pub(super) variant: Option<&'a str>,
    /// Whether a profile may omit it.
    pub(super) optional: bool,
    pub(super) shape: Shape<'a>,
}

impl Section<'_> {
    /// `[geometry]`, `[[geometry.zone]]`, `[layer] of kind "set-associative"`.
    pub(super) fn heading(&self) -> String {
        let heading = match self.path.as_str() {
            "" => "the top of the file".to_owned(),
            path => in_brackets(path, self.repeats),
        };
        match self.variant {
            Some(kind) => format!("{heading} of kind \"{kind}\""),
            None => heading,
        }
    }
}

/// The line of TOML that begins a table.
pub(super) fn in_brackets(path: &str, repeats: bool) -> String {
    if repeats { format!("[[{path}]]") } else { format!("[{path}]") }
}

/// All tables of the schema, each before the tables inside it.
pub(super) fn sections(root: &Value) -> Vec<Section<'_>> {
    let mut sections = Vec::new();
    if let Some(shape) = Shape::new(root) {
        let top = Section { path: String::new(), repeats: false, variant: None, optional: false, shape };
        collect(top, &mut sections);
    }
    sections
}

fn collect<'a>(section: Section<'a>, sections: &mut Vec<Section<'a>>) {
    let (shape, path) = (section.shape, section.path.clone());
    let variants = shape.variants();
    let (repeats, optional, variant) = (section.repeats, section.optional, section.variant);
    sections.push(section);
    for (kind, shape) in variants {
        collect(Section { path: path.clone(), repeats, variant: Some(kind), optional, shape }, sections);
    }
    for (key, inner) in shape.keys() {
        let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        let optional = !shape.required().contains(&key) && !shape.exclusive().contains(&key);
        let (repeats, table) = match (inner.kind(), inner.items().first()) {
            (Type::Table, _) => (false, inner),
            (Type::List, Some(entry)) if entry.kind() == Type::Table => (true, *entry),
            _ => continue,
        };
        collect(Section { path, repeats, variant, optional, shape: table }, sections);
    }
}
