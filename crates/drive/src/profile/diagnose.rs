//! What is wrong with a profile, where, and what would mend it, in one line.
//!
//! Invariants: a message never holds a line break, whatever the file or its name holds; a line number is
//! that of the key as written, or of the section when the key is absent; of several faults a misspelt key
//! is told first, because a missing key is often its shadow.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// A fault of a profile. Its text is one line: `FILE:LINE: what is wrong; what would do`.
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

    /// The line of the file, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// What is wrong and what would do, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// `text` with everything that could break a line or a terminal made visible.
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

/// Longest piece of a file that a message repeats.
const SNIPPET_CHARS: usize = 60;

/// The piece of the file at `span`, cut short.
pub(super) fn snippet(text: &str, span: Range<usize>) -> String {
    let piece = text.get(span).unwrap_or_default();
    let mut chars = piece.chars();
    let mut short: String = chars.by_ref().take(SNIPPET_CHARS).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

/// Turns places in a text into line numbers.
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

/// Where one key stood in the file, and the value as written when it was a single one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) value: Option<String>,
}

/// Where every key stood in the file a profile was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub(super) origin: String,
    /// The whole file.
    pub(super) text: String,
    pub(super) places: BTreeMap<String, Place>,
}

impl Source {
    /// The value of `path` as the file has it, `"3.9 TB"` with its quotes.
    pub(super) fn written(&self, path: &str) -> Option<&str> {
        self.places.get(path).and_then(|place| place.value.as_deref())
    }

    /// `path = value`, or `path` alone where the file has no single value there.
    pub(super) fn named(&self, path: &str) -> String {
        match self.written(path) {
            Some(value) => format!("{path} = {value}"),
            None => path.to_owned(),
        }
    }

    /// The line of `path`, or of the nearest section around it that the file has.
    pub(super) fn line(&self, path: &str) -> usize {
        let mut path = path;
        loop {
            if let Some(place) = self.places.get(path) {
                return place.line;
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

/// Which of several faults is told: the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A key that does not exist.
    Unknown,
    /// A value that will not do.
    Value,
    /// A key that is absent, or one of two that exclude each other.
    Missing,
}

/// The fault to tell, of those found so far.
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

/// `; did you mean "x"?` when one of `known` is near `word`, or else what is known.
pub(super) fn suggest(word: &str, what: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("; did you mean \"{near}\"?"),
        None => format!("; {what} {}", list(known, "and")),
    }
}

/// The one of `known` that differs from `word` by a slip of the pen.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let word = plain(word);
    // A slip in three letters, and in a short word at least one; not so many that nothing is left of it.
    let slips = |name: &str| (name.chars().count() / 3).clamp(1, 4);
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&word, &plain(name)), *name))
        .filter(|(distance, name)| *distance <= slips(name))
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

/// A number with commas between thousands, as `30,000`; fractions as they are.
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
