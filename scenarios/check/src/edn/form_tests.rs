//! The reader by itself: every form of EDN, and text that is none.

use super::*;

fn read(text: &str) -> Result<Vec<Form<'_>>, NotEdn> {
    let mut reader = Reader::new(text);
    let mut forms = Vec::new();
    while let Some(form) = reader.next(None)? {
        forms.push(form);
    }
    Ok(forms)
}

fn one(text: &str) -> Form<'_> {
    let mut forms = read(text).unwrap();
    assert_eq!(forms.len(), 1, "{text}: {forms:?}");
    forms.remove(0)
}

fn ints(numbers: &[i64]) -> Form<'static> {
    Form::Seq(numbers.iter().map(|number| Form::Int(*number)).collect())
}

#[test]
fn atoms() {
    assert_eq!(one("nil"), Form::Nil);
    assert_eq!(one("-17"), Form::Int(-17));
    assert_eq!(one("+17N"), Form::Int(17));
    assert_eq!(one("-9223372036854775808"), Form::Int(i64::MIN));
    assert_eq!(one("9223372036854775808"), Form::Symbol("9223372036854775808"));
    assert_eq!(one(":a.b/c-d?"), Form::Keyword("a.b/c-d?"));
    for symbol in ["true", "-", "->x", "1.5e-3", "2M", "1/2", "##Inf", "\\a", "\\newline", "\\(", "\\u0041"] {
        let expected = Form::Symbol(symbol.strip_prefix("##").map_or(symbol, |_| "#Inf"));
        assert_eq!(one(symbol), expected);
    }
}

#[test]
fn strings() {
    assert_eq!(one(r#""""#), Form::Text("".into()));
    assert_eq!(one(r#""a;[{,\"\\\n\t\r\b\f""#), Form::Text("a;[{,\"\\\n\t\r\u{8}\u{c}".into()));
    assert_eq!(one("\"two\nlines\""), Form::Text("two\nlines".into()));
    assert_eq!(one(r#""\u00e9\ud83d\ude00é😀""#), Form::Text("é😀é😀".into()));
    assert_eq!(one(r#""\ud83dx""#), Form::Text("\u{fffd}x".into()));
    assert_eq!(one(r#""\ud83d\u0041""#), Form::Text("\u{fffd}A".into()));
}

#[test]
fn collections_comments_and_tags() {
    for text in
        ["[1 2]", "(1,2,)", "#{1 2}", "[1 ;; two\n 2]", "[1 #_ [x {] 2]", "[1 #_#_ a b 2]", "#t [1 #a #b 2]"]
    {
        if text.contains("{]") {
            assert!(read(text).is_err(), "what is discarded must be well formed");
        } else {
            assert_eq!(one(text), ints(&[1, 2]), "{text}");
        }
    }
    let map = one("#jepsen.history.Op{:a 1, \"b\" [2] 3 nil}");
    assert_eq!(map.get("a"), Some(&Form::Int(1)));
    assert_eq!(map.get("b"), None, "a string is no keyword");
    assert_eq!(
        map,
        Form::Map(vec![
            (Form::Keyword("a"), Form::Int(1)),
            (Form::Text("b".into()), ints(&[2])),
            (Form::Int(3), Form::Nil),
        ])
    );
    assert_eq!(read("1[2]:a\"b\"{}").unwrap().len(), 5, "delimiters separate");
    assert_eq!(read("; only a comment"), Ok(vec![]));
    assert_eq!(read("\u{feff}#_x"), Ok(vec![]));
}

#[test]
fn what_is_not_edn_is_said_with_its_line() {
    for (text, line, problem) in [
        ("\n\n[1", 3, "the text ends before a ']'"),
        ("{:a}", 1, "a map has no value for its key :a"),
        ("\n)", 2, "')' closes nothing"),
        ("[1 }", 1, "'}' closes nothing"),
        ("\"a\n", 2, "the text ends inside a string"),
        ("\"\\q\"", 1, "a string has no escape \\q"),
        ("\"\\u12\"", 1, "\\u needs four hexadecimal digits"),
        ("\"\\u12é\"", 1, "\\u needs four hexadecimal digits"),
        ("# 1", 1, "'#' begins neither a set nor a tag"),
        ("#tag", 1, "the text ends where a form must come"),
        ("#_", 1, "the text ends where a form must come"),
        ("#_]", 1, "']' closes nothing"),
    ] {
        assert_eq!(read(text), Err(NotEdn { line, problem: problem.into() }), "{text}");
    }
}

#[test]
fn hostile_nesting_is_refused() {
    for open in ["[", "{", "#{", "(", "#_", "#a ", "[#_"] {
        let error = read(&open.repeat(1_000_000)).unwrap_err();
        assert!(error.problem.starts_with("nested deeper"), "{open}: {error:?}");
    }
    let deep = format!("{}{}", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
    assert!(read(&deep).is_ok());
}

#[test]
fn long_forms_are_shown_short() {
    let form = one("[1 [2 3] [2 [3]] {:a 1} 5]");
    assert_eq!(form.to_string(), "[1 [2 3] [...] {...} ...]");
    assert_eq!(one("{:a 1 :b [x]}").to_string(), "{:a 1, :b [x]}");
}
