//! Faults of a profile: what is wrong, where, and the remedy, in one line.
//!
//! Invariants: a message never contains a line break, regardless of the file and its name; the line number is
//! that of the key, or of the section if the key is absent; a misspelt key takes precedence over a missing
//! one, because it is often the cause.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A fault of a profile. Its text is one line: `FILE:LINE: what is wrong; the remedy`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}:{line}: {message}")]
pub struct ProfileError {
    origin: String,
    line: usize,
    message: String,
}

impl ProfileError {
    pub(super) fn new(origin: &str, line: usize, message: &str) -> Self {
        Self { origin: one_line(origin), line, message: one_line(message) }
    }
}

/// `text` with all characters escaped that could break a line or a terminal.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{2028}' | '\u{2029}' => line.extend(c.escape_unicode()),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line
}

/// Maximum length of a quotation from the file.
const SNIPPET_CHARS: usize = 60;

/// The text at `span`, truncated.
pub(super) fn snippet(text: &str, span: Range<usize>) -> String {
    let piece = text.get(span).unwrap_or_default();
    let mut chars = piece.chars();
    let mut short: String = chars.by_ref().take(SNIPPET_CHARS).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

/// Converts offsets in a text to line numbers.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The line, counted from 1, that holds the byte at `offset`.
    pub(super) fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|&end| end < offset) + 1
    }
}

/// The line of a key, and its value as written if it is a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyLocation {
    pub(super) line: usize,
    pub(super) value: Option<String>,
}

/// The locations of all keys in the file from which a profile was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub(super) origin: String,
    /// The whole file.
    pub(super) text: String,
    pub(super) keys: BTreeMap<String, KeyLocation>,
}

impl Source {
    /// The value of `path` as written in the file, `"3.9 TB"` with its quotes.
    pub(super) fn written(&self, path: &str) -> Option<&str> {
        self.keys.get(path).and_then(|key| key.value.as_deref())
    }

    /// `path = value`, or `path` alone if the file has no scalar there.
    pub(super) fn named(&self, path: &str) -> String {
        match self.written(path) {
            Some(value) => format!("{path} = {value}"),
            None => path.to_owned(),
        }
    }

    /// The line of `path`, or of the nearest enclosing section in the file.
    pub(super) fn line(&self, path: &str) -> usize {
        let mut path = path;
        loop {
            if let Some(key) = self.keys.get(path) {
                return key.line;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return 1,
            }
        }
    }

    pub(super) fn error_at(&self, path: &str, message: &str) -> ProfileError {
        ProfileError::new(&self.origin, self.line(path), &format!("{} {message}", self.named(path)))
    }
}

/// Precedence of faults: the lowest is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A key that does not exist.
    Unknown,
    /// An invalid value.
    Value,
    /// A missing key, or one of two exclusive keys.
    Missing,
}

/// The fault to report, of those found so far.
#[derive(Default)]
pub(super) struct Faults(Option<(Rank, usize, String)>);

impl Faults {
    pub(super) fn add(&mut self, rank: Rank, line: usize, message: String) {
        let first = self.0.as_ref().is_none_or(|(r, l, _)| (rank, line) < (*r, *l));
        if first {
            self.0 = Some((rank, line, message));
        }
    }

    pub(super) fn into_result(self, origin: &str) -> Result<(), ProfileError> {
        match self.0 {
            Some((_, line, message)) => Err(ProfileError::new(origin, line, &message)),
            None => Ok(()),
        }
    }
}

/// `; did you mean "x"?` if one of `known` is similar to `word`, otherwise the list of `known`.
pub(super) fn suggest(word: &str, what: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean \"{near}\"?"),
        None => format!("; {what} {}", list(known, "and")),
    }
}

/// The entry of `known` that differs from `word` only by a typo.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let word = plain(word);
    // One typo per three letters, at least one and at most four.
    let max_distance = |name: &str| (name.chars().count() / 3).clamp(1, 4);
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&word, &plain(name)), *name))
        .filter(|(distance, name)| *distance <= max_distance(name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `"a", "b" and "c"`.
pub(super) fn list(words: &[&str], and: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        None => "none".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} {and} {last}", rest.join(", ")),
    }
}

/// A number with thousands separators, as in `30,000`; fractions are unchanged.
pub(super) struct Grouped(pub(super) f64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(w, p)| (w, Some(p)));
        for (at, c) in whole.char_indices() {
            let left = whole.len() - at;
            if at > 0 && left.is_multiple_of(3) && !whole[..at].ends_with('-') {
                f.write_str(",")?;
            }
            write!(f, "{c}")?;
        }
        fraction.map_or(Ok(()), |part| write!(f, ".{part}"))
    }
}
