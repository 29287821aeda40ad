//! The matrix as a page of its own.

use super::matrix::Row;
use std::fmt::Write;
use std::ops::Range;

const STYLE: &str = "body{font:14px/1.4 system-ui,sans-serif;margin:2em;color:#222}\
table{border-collapse:collapse}th,td{border:1px solid #ccc;padding:.3em .5em;text-align:right;white-space:nowrap}\
th{white-space:normal;vertical-align:bottom;max-width:9em}th:first-child{text-align:left;max-width:26em}\
td.hit{background:#fbd5d0}td.none{background:#dcefdc}";

/// A page with one table: `titles` are those of the columns.
pub(super) fn page(titles: &[&str], rows: &[Row], seeds: &Range<u64>) -> String {
    let head: String = titles.iter().map(|title| format!("<th>{}</th>", escape(title))).collect();
    let mut body = String::new();
    for row in rows {
        let _ = write!(body, "<tr><th>{}</th>", escape(&row.title));
        for cell in &row.cells {
            let class = if cell.is_hit { "hit" } else { "none" };
            let (text, command) = (escape(&cell.text), escape(&cell.command));
            let _ = write!(body, "<td class=\"{class}\" title=\"{command}\">{text}</td>");
        }
        body.push_str("</tr>\n");
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Mitigation matrix</title><style>{STYLE}</style>\n\
         <h1>What each remedy leaves of what late requests can do</h1>\n\
         <p>Seeds {}..{} in every cell: the seeds in which it was at work, all seeds, and the upper end of the 95&nbsp;% \
         interval. The command of a cell is in its tooltip.</p>\n\
         <table>\n<tr><th></th>{head}</tr>\n{body}</table>\n</html>\n",
        seeds.start, seeds.end
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::matrix::Cell;
    use super::*;

    #[test]
    fn a_cell_has_its_text_its_colour_and_its_command() {
        let cell = Cell { text: "0/10 <25.9%".into(), is_hit: false, command: "wavetank run \"x\"".into() };
        let page = page(&["a & b"], &[Row { title: "(9) torn".into(), cells: vec![cell] }], &(0..10));
        assert!(page.contains("<th>a &amp; b</th>") && page.contains("<th>(9) torn</th>"));
        assert!(page.contains("<td class=\"none\" title=\"wavetank run &quot;x&quot;\">0/10 &lt;25.9%</td>"));
    }
}
