//! A page of figures, as plain text and as HTML for mail.

/// What a longer letter says: sentences, and tables below headings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    pub title: String,
    /// Sentences, before and after the tables.
    pub intro: Vec<String>,
    pub parts: Vec<Part>,
    pub outro: Vec<String>,
}

/// One table. A part without rows is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    pub heading: String,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// One row: as a line of text, and as cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub line: String,
    pub cells: Vec<String>,
}

const TABLE: &str = "border-collapse:collapse;margin:0 0 16px";
const HEAD: &str = "text-align:left;padding:4px 12px 4px 0;border-bottom:2px solid #444;font-size:13px";
const CELL: &str = "padding:4px 12px 4px 0;border-bottom:1px solid #ddd;font-size:14px";

impl Page {
    /// Lines that are read as well on a phone as in a mail: nothing is aligned by spaces.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut say = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        self.intro.iter().for_each(|line| say(line));
        for part in self.parts.iter().filter(|part| !part.rows.is_empty()) {
            say("");
            say(&part.heading);
            part.rows.iter().for_each(|row| say(&format!("- {}", row.line)));
        }
        if !self.outro.is_empty() {
            say("");
        }
        self.outro.iter().for_each(|line| say(line));
        text
    }

    /// The same as one document without scripts, pictures or anything from elsewhere.
    pub fn html(&self) -> String {
        let paragraphs = |lines: &[String]| -> String {
            lines.iter().map(|line| format!("<p style=\"margin:0 0 8px\">{}</p>", linked(line))).collect()
        };
        let mut body = format!("<h1 style=\"font-size:18px\">{}</h1>", escaped(&self.title));
        body.push_str(&paragraphs(&self.intro));
        for part in self.parts.iter().filter(|part| !part.rows.is_empty()) {
            let head: String = part
                .columns
                .iter()
                .map(|name| format!("<th style=\"{HEAD}\">{}</th>", escaped(name)))
                .collect();
            let row = |row: &Row| {
                let cells =
                    row.cells.iter().map(|cell| format!("<td style=\"{CELL}\">{}</td>", escaped(cell)));
                format!("<tr>{}</tr>", cells.collect::<String>())
            };
            let rows: String = part.rows.iter().map(row).collect();
            body.push_str(&format!(
                "<h2 style=\"font-size:15px\">{}</h2><table style=\"{TABLE}\"><tr>{head}</tr>{rows}</table>",
                escaped(&part.heading)
            ));
        }
        body.push_str(&paragraphs(&self.outro));
        format!(
            "<!doctype html><html><head><meta charset=\"utf-8\"></head>\
             <body style=\"font-family:sans-serif;color:#222\">{body}</body></html>"
        )
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A line whose last word is an address can be followed.
fn linked(line: &str) -> String {
    match line.rsplit_once(' ') {
        Some((words, url)) if url.starts_with("https://") || url.starts_with("http://") => {
            let url = escaped(url);
            format!("{} <a href=\"{url}\">{url}</a>", escaped(words))
        }
        _ => escaped(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_same_in_text_and_html_and_what_it_quotes_stays_words() {
        let row =
            Row { line: "crm: <script> 3".into(), cells: vec!["crm".into(), "<script>".into(), "3".into()] };
        let columns = ["channel", "what", "count"].map(str::to_owned).into();
        let page = Page {
            title: "T & T".into(),
            intro: vec!["Three of them.".into()],
            parts: vec![
                Part { heading: "By cause".into(), columns, rows: vec![row] },
                Part { heading: "Empty".into(), ..Part::default() },
            ],
            outro: vec!["Look: https://pombo.example/dead?a=1&b=2".into()],
        };
        let text =
            "Three of them.\n\nBy cause\n- crm: <script> 3\n\nLook: https://pombo.example/dead?a=1&b=2\n";
        assert_eq!(page.text(), text);
        let html = page.html();
        for there in [
            "T &amp; T",
            "<td style",
            "&lt;script&gt;",
            "<a href=\"https://pombo.example/dead?a=1&amp;b=2\">",
        ] {
            assert!(html.contains(there), "{there}: {html}");
        }
        assert!(!html.contains("<script>") && !html.contains("Empty"));
    }
}
