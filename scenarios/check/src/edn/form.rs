//! A reader of EDN, as far as histories need it: <https://github.com/edn-format/edn>.
//!
//! Lists, vectors and sets are sequences alike; a tag is dropped and what it tags stays; characters, booleans, and numbers
//! that are no 64-bit integer are kept as they are written. Nesting is limited, so that hostile text cannot exhaust the
//! stack.

use std::borrow::Cow;
use std::fmt;

/// What Jepsen writes is nested about ten deep, exception data in `:error` included.
const DEEPEST: usize = 200;

/// One form.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form<'a> {
    Nil,
    Int(i64),
    Text(Cow<'a, str>),
    /// Without its colon.
    Keyword(&'a str),
    /// A symbol, or any other atom, as written.
    Symbol(&'a str),
    Seq(Vec<Form<'a>>),
    Map(Vec<(Form<'a>, Form<'a>)>),
}

impl<'a> Form<'a> {
    /// The elements of a sequence.
    pub(super) fn items(&self) -> Option<&[Form<'a>]> {
        match self {
            Form::Seq(items) => Some(items),
            _ => None,
        }
    }

    /// What a map holds under the keyword `name`.
    pub(super) fn get(&self, name: &str) -> Option<&Form<'a>> {
        let Form::Map(pairs) = self else { return None };
        pairs.iter().find(|(key, _)| *key == Form::Keyword(name)).map(|(_, value)| value)
    }
}

/// As EDN, for messages: cut short where it is long.
impl fmt::Display for Form<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        match self {
            Form::Nil => f.write_str("nil"),
            Form::Int(number) => write!(f, "{number}"),
            Form::Text(text) => write!(f, "{:?}", text.chars().take(40).collect::<String>()),
            Form::Keyword(name) => write!(f, ":{}", name.chars().take(40).collect::<String>()),
            Form::Symbol(name) => write!(f, "{}", name.chars().take(40).collect::<String>()),
            Form::Seq(items) => {
                let shown: Vec<String> = items.iter().take(SHOWN).map(short).collect();
                write!(f, "[{}{}]", shown.join(" "), if items.len() > SHOWN { " ..." } else { "" })
            }
            Form::Map(pairs) => {
                let pair = |(key, value): &(Form<'_>, Form<'_>)| format!("{} {}", short(key), short(value));
                let shown: Vec<String> = pairs.iter().take(SHOWN).map(pair).collect();
                write!(f, "{{{}{}}}", shown.join(", "), if pairs.len() > SHOWN { ", ..." } else { "" })
            }
        }
    }
}

/// A form inside another in a message: what is nested is left out.
fn short(form: &Form<'_>) -> String {
    match form {
        Form::Seq(items) if !items.iter().all(is_atom) => "[...]".to_string(),
        Form::Map(_) => "{...}".to_string(),
        _ => form.to_string(),
    }
}

fn is_atom(form: &Form<'_>) -> bool {
    !matches!(form, Form::Seq(_) | Form::Map(_))
}

/// Text that is not EDN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotEdn {
    pub(super) line: usize,
    pub(super) problem: String,
}

/// Reads one form after the other.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Reader { text: text.strip_prefix('\u{feff}').unwrap_or(text), at: 0, line: 1 }
    }

    /// The line of the next form.
    pub(super) fn line(&mut self) -> usize {
        self.skip_blanks();
        self.line
    }

    /// The next character that is no blank and in no comment.
    pub(super) fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.rest().chars().next()
    }

    /// Steps over one character.
    pub(super) fn bump(&mut self) {
        if let Some(next) = self.rest().chars().next() {
            self.at += next.len_utf8();
            self.line += usize::from(next == '\n');
        }
    }

    /// The next form before `end`, a closing bracket, which is stepped over; or before the end of the text. `None` if there
    /// is no more.
    pub(super) fn next(&mut self, end: Option<char>) -> Result<Option<Form<'a>>, NotEdn> {
        self.element(end, DEEPEST)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        while let Some(next) = self.rest().chars().next() {
            match next {
                ';' => {
                    let end = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.at += end;
                }
                _ if next.is_whitespace() || next == ',' => self.bump(),
                _ => return,
            }
        }
    }

    fn bad<T>(&self, problem: impl Into<String>) -> Result<T, NotEdn> {
        Err(NotEdn { line: self.line, problem: problem.into() })
    }

    /// The next form that is not discarded; `None` at the end, which is stepped over.
    fn element(&mut self, end: Option<char>, depth: usize) -> Result<Option<Form<'a>>, NotEdn> {
        loop {
            let next = self.peek();
            if next == end {
                self.bump();
                return Ok(None);
            }
            match next {
                None => return self.bad(format!("the text ends before a {:?}", end.unwrap_or(' '))),
                Some(close @ (')' | ']' | '}')) => return self.bad(format!("{close:?} closes nothing")),
                Some('#') if self.rest().starts_with("#_") => {
                    self.at += 2;
                    self.nested(depth)?;
                }
                Some(_) => return self.form(depth).map(Some),
            }
        }
    }

    /// A form that must come.
    fn nested(&mut self, depth: usize) -> Result<Form<'a>, NotEdn> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.bad(format!("nested deeper than {DEEPEST}"));
        };
        match self.element(None, depth)? {
            Some(form) => Ok(form),
            None => self.bad("the text ends where a form must come"),
        }
    }

    fn form(&mut self, depth: usize) -> Result<Form<'a>, NotEdn> {
        match self.peek() {
            Some('(') => Ok(Form::Seq(self.items(')', depth)?)),
            Some('[') => Ok(Form::Seq(self.items(']', depth)?)),
            Some('{') => self.map(depth),
            Some('"') => self.string().map(Form::Text),
            Some('\\') => {
                // The character itself may be a bracket.
                let start = self.at;
                self.bump();
                self.bump();
                self.token();
                Ok(Form::Symbol(&self.text[start..self.at]))
            }
            Some('#') => self.dispatch(depth),
            _ => Ok(atom(self.token())),
        }
    }

    fn items(&mut self, end: char, depth: usize) -> Result<Vec<Form<'a>>, NotEdn> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.bad(format!("nested deeper than {DEEPEST}"));
        };
        self.bump();
        let mut items = Vec::new();
        while let Some(item) = self.element(Some(end), depth)? {
            items.push(item);
        }
        Ok(items)
    }

    fn map(&mut self, depth: usize) -> Result<Form<'a>, NotEdn> {
        let mut items = self.items('}', depth)?.into_iter();
        let mut pairs = Vec::new();
        while let Some(key) = items.next() {
            match items.next() {
                Some(value) => pairs.push((key, value)),
                None => return self.bad(format!("a map has no value for its key {key}")),
            }
        }
        Ok(Form::Map(pairs))
    }

    /// What begins with `#`: a set, a symbolic value such as `##Inf`, or a tag and what it tags.
    fn dispatch(&mut self, depth: usize) -> Result<Form<'a>, NotEdn> {
        self.bump();
        match self.rest().chars().next() {
            Some('{') => Ok(Form::Seq(self.items('}', depth)?)),
            Some('#') => Ok(Form::Symbol(self.token())),
            Some(next) if !is_delimiter(next) => {
                self.token();
                self.nested(depth)
            }
            _ => self.bad("'#' begins neither a set nor a tag"),
        }
    }

    /// Everything up to a delimiter.
    fn token(&mut self) -> &'a str {
        let rest = self.rest();
        let token = &rest[..rest.find(is_delimiter).unwrap_or(rest.len())];
        self.at += token.len();
        token
    }

    fn string(&mut self) -> Result<Cow<'a, str>, NotEdn> {
        self.bump();
        let plain = self.rest().find(['"', '\\']).unwrap_or(self.rest().len());
        let mut text = Cow::Borrowed(&self.rest()[..plain]);
        self.step(plain);
        loop {
            let next = self.rest().chars().next();
            self.bump();
            match next {
                None => return self.bad("the text ends inside a string"),
                Some('"') => return Ok(text),
                Some('\\') => {
                    let escaped = self.escape()?;
                    text.to_mut().push(escaped);
                }
                Some(other) => text.to_mut().push(other),
            }
        }
    }

    fn step(&mut self, bytes: usize) {
        self.line += self.rest()[..bytes].matches('\n').count();
        self.at += bytes;
    }

    fn escape(&mut self) -> Result<char, NotEdn> {
        let next = self.rest().chars().next();
        self.bump();
        match next {
            Some('n') => Ok('\n'),
            Some('t') => Ok('\t'),
            Some('r') => Ok('\r'),
            Some('b') => Ok('\u{8}'),
            Some('f') => Ok('\u{c}'),
            Some(same @ ('"' | '\\')) => Ok(same),
            Some('u') => self.unicode(),
            other => self.bad(format!("a string has no escape \\{}", other.unwrap_or(' '))),
        }
    }

    /// Four hexadecimal digits; a pair of surrogates, as Java writes them, is one character, and a lone one is U+FFFD.
    fn unicode(&mut self) -> Result<char, NotEdn> {
        let first = self.hex()?;
        if let Some(known) = char::from_u32(first) {
            return Ok(known);
        }
        let mark = (self.at, self.line);
        if self.rest().starts_with("\\u") {
            self.at += 2;
            let second = self.hex()?;
            let pair = char::decode_utf16([first as u16, second as u16]).next();
            if let Some(Ok(known)) = pair {
                return Ok(known);
            }
        }
        (self.at, self.line) = mark;
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Result<u32, NotEdn> {
        let digits = self.rest().get(..4).filter(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => self.bad("\\u needs four hexadecimal digits"),
        }
    }
}

fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ';' | '"' | '(' | ')' | '[' | ']' | '{' | '}')
}

fn atom(token: &str) -> Form<'_> {
    if token == "nil" {
        return Form::Nil;
    }
    if let Some(name) = token.strip_prefix(':') {
        return Form::Keyword(name);
    }
    let number = token.strip_suffix('N').unwrap_or(token);
    number.parse().map_or(Form::Symbol(token), Form::Int)
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
