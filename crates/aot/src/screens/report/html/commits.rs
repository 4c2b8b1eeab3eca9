//! The commits of a report with their files and differences, and how all of them are seen and taken back.

use std::fmt::Write;

use aot_runner::tree::DeliveredCommit;

use super::{HtmlPage, e, flat, short};
use crate::screens::report::LoopReport;
use crate::text::counted;

impl HtmlPage<'_> {
    pub(super) fn commits(&mut self, report: &LoopReport) {
        let Some(delivery) = &report.delivery else { return };
        self.heading("commits", "Commits");
        let base =
            delivery.base.as_deref().map(|base| format!(" on top of <code>{}</code>", e(&short(base))));
        self.add(&format!(
            "<p class=\"small\">{} on <code>{}</code>{}: {}, <span class=\"plus\">+{}</span> <span class=\"minus\">−{}</span>.</p>",
            counted(delivery.count as u64, "commit"),
            flat(&delivery.branch),
            base.unwrap_or_default(),
            counted(delivery.files as u64, "file"),
            delivery.insertions,
            delivery.deletions
        ));
        let before = delivery.count - delivery.commits.len();
        if before > 0 {
            let before = counted(before as u64, "earlier commit");
            self.add(&format!("<p class=\"dim small\">{before} are not listed here.</p>"));
        }
        for one in &delivery.commits {
            self.commit(one);
        }
        let base = delivery
            .base
            .as_deref()
            .map(|base| format!("git diff {} {}\n", short(base), short(&delivery.tip)));
        let undo = report.undo().unwrap_or_default();
        self.add(&format!(
            "<h3>All of it, and all of it back</h3>\n<pre>{}{}</pre>",
            e(&base.unwrap_or_default()),
            e(&undo)
        ));
    }

    fn commit(&mut self, one: &DeliveredCommit) {
        self.add(&format!(
            "<details class=\"commit\"><summary><code>{}</code> {} <span class=\"dim small\">{}</span> \
             <span class=\"small\"><span class=\"plus\">+{}</span> <span class=\"minus\">−{}</span></span></summary>",
            e(&short(&one.commit)),
            flat(&one.subject),
            flat(&one.atom),
            one.insertions,
            one.deletions
        ));
        let mut files = String::new();
        for file in &one.files {
            let lines = match (file.insertions, file.deletions) {
                (Some(more), Some(less)) => {
                    format!("<span class=\"plus\">+{more}</span> <span class=\"minus\">−{less}</span>")
                }
                _ => "not text".to_owned(),
            };
            let _ = writeln!(
                files,
                "<li><code>{}</code> <span class=\"small\">{lines}</span></li>",
                flat(&file.path)
            );
        }
        if one.further_files > 0 {
            let _ = writeln!(files, "<li class=\"dim\">and {} more</li>", one.further_files);
        }
        self.add(&format!("<ul class=\"small\">{files}</ul>"));
        if !one.difference.is_empty() {
            let lines: String = one
                .difference
                .lines()
                .map(|line| {
                    let class = match line.as_bytes() {
                        [b'd', b'i', b'f', b'f', b' ', ..] => " class=\"f\"",
                        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => " class=\"h\"",
                        [b'+', ..] => " class=\"a\"",
                        [b'-', ..] => " class=\"d\"",
                        [b'@', b'@', ..] | [b'i', b'n', b'd', b'e', b'x', b' ', ..] => " class=\"h\"",
                        _ => "",
                    };
                    let shown = e(line);
                    format!("<span{class}>{}</span>", if shown.is_empty() { " " } else { &shown })
                })
                .collect();
            self.add(&format!("<pre class=\"diff\">{lines}</pre>"));
        }
        if let Some(cut) = &one.cut {
            self.add(&format!(
                "<p class=\"dim small\">{}: <code>git show {}</code></p>",
                flat(cut),
                e(&short(&one.commit))
            ));
        }
        self.add("</details>");
    }
}
