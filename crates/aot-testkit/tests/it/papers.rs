//! The documents: every link leads somewhere, every decision that the code cites is written down, and every test that the
//! architecture or the specification names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files with this extension below the root, without build results and what belongs to git.
fn files(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder can be listed").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_symlink() || name == "target" || name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no `.{extension}` file was found");
    found
}

/// What a `#fragment` may name in a Markdown text: its headings, as hosts of repositories spell them, and explicit ids.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in prose(text).lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let kept = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            found.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
        for rest in line.split("<a id=\"").skip(1) {
            found.insert(rest.split('"').next().unwrap_or_default().to_owned());
        }
    }
    found
}

/// The text without fenced blocks.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    outside.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_relative_link_leads_somewhere() {
    let mut dead = Vec::new();
    let docs = root().join("docs").canonicalize().expect("it exists");
    for file in files("md") {
        let text = fs::read_to_string(&file).expect("a document can be read");
        for link in prose(&text).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(' ') || link.is_empty() {
                continue;
            }
            let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { file.clone() } else { file.with_file_name(path) };
            let leads = match fragment {
                "" => target.exists(),
                _ => fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(fragment)),
            };
            // The book has the pages of `docs` and nothing else.
            let in_docs = |path: &Path| path.canonicalize().is_ok_and(|path| path.starts_with(&docs));
            let leaves_book = in_docs(&file) && (!in_docs(&target) || target.ends_with("SUMMARY.md"));
            if !leads || leaves_book {
                dead.push(format!("{}: {link}", file.strip_prefix(root()).expect("below").display()));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}

/// The table of contents of the book names every page of `docs` once, and nothing else.
#[test]
fn the_book_has_every_page_once() {
    let book = fs::read_to_string(root().join("book.toml")).expect("the book can be read");
    assert!(book.contains("src = \"docs\""), "the pages of the book are those of docs");
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let text = fs::read_to_string(&summary).expect("a table of contents");
    let listed: Vec<PathBuf> = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(|path| docs.join(path))
        .collect();
    for page in files("md").into_iter().filter(|page| page.starts_with(&docs) && *page != summary) {
        let times = listed.iter().filter(|path| **path == page).count();
        assert_eq!(times, 1, "{} in docs/SUMMARY.md", page.display());
    }
    // Links are tested elsewhere; a page outside of the book would be one of them.
    assert!(listed.iter().all(|path| path.starts_with(&docs) && path.is_file()), "{listed:?}");
}

#[test]
fn every_cited_decision_is_written_down() {
    let folder = root().join("docs/contributing/decisions");
    let chapters = files("md").into_iter().filter(|path| path.parent().is_some_and(|p| p == folder));
    let written: BTreeSet<String> =
        chapters.flat_map(|path| anchors(&fs::read_to_string(path).expect("a chapter"))).collect();
    let mut missing = BTreeSet::new();
    for file in files("rs").into_iter().chain(files("md")) {
        let text = fs::read_to_string(&file).expect("a source can be read");
        for cited in citations(&text) {
            if !written.contains(&cited) {
                missing.insert(format!("{}: {cited}", file.strip_prefix(root()).expect("below").display()));
            }
        }
    }
    assert!(missing.is_empty(), "decisions without a section: {missing:?}");
}

/// `module::a_test` in the architecture names a test, or a module of tests, that exists.
#[test]
fn every_named_test_exists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("the architecture can be read");
    let quoted = text.split('`').skip(1).step_by(2);
    let tests: BTreeSet<&str> = quoted
        .filter_map(|name| name.rsplit_once("::"))
        .map(|(_, test)| test)
        .filter(|test| test.contains('_'))
        .collect();
    assert!(tests.len() > 5, "the table of invariants names tests");
    let sources: Vec<String> =
        files("rs").iter().map(|file| fs::read_to_string(file).expect("a source can be read")).collect();
    let is_written = |test: &&str| {
        let (function, module) = (format!("fn {test}("), format!("mod {test};"));
        sources.iter().any(|source| source.contains(&function) || source.contains(&module))
    };
    let missing: Vec<&str> = tests.into_iter().filter(|test| !is_written(test)).collect();
    assert!(missing.is_empty(), "tests that do not exist: {missing:?}");
}

/// Each row of the specification says where a requirement lives and which test holds it, and both exist. What no test holds,
/// and what is missing, is listed before the tables.
#[test]
fn the_specification_names_modules_and_tests_that_exist() {
    let text = fs::read_to_string(root().join("docs/specification.md")).expect("a specification");
    let rows: Vec<(&str, &str)> = text.lines().filter_map(where_and_held_by).collect();
    assert!(rows.len() > 100, "only {} rows were found", rows.len());
    let mut wrong: Vec<String> = Vec::new();
    for (place, held_by) in &rows {
        let (modules, tests) = (quoted(place), quoted(held_by));
        let is_open = held_by.starts_with("no test") || held_by.starts_with("missing");
        if modules.is_empty() || tests.is_empty() != is_open {
            wrong.push(format!("| {place} | {held_by} |"));
        }
        wrong.extend(modules.into_iter().filter(|name| !is_module(name)).map(str::to_owned));
        wrong.extend(tests.into_iter().filter(|name| !is_test(name)).map(str::to_owned));
    }
    assert!(
        wrong.is_empty(),
        "without a module or a test, or with one that does not exist:\n{}",
        wrong.join("\n")
    );
    for (heading, word) in [("Not held by a test", "no test"), ("Missing", "missing")] {
        let list = text.split("\n## ").find(|part| part.starts_with(heading)).expect("a list");
        let listed = list.lines().filter(|line| line.starts_with("- ")).count();
        let said = rows.iter().filter(|(_, held_by)| held_by.starts_with(word)).count();
        assert_eq!(listed, said, "`{heading}` has an entry for each row that says `{word}`");
    }
}

/// The last two cells of a row; none of a table's head.
fn where_and_held_by(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    match cells[..] {
        [.., _, "held by"] => None,
        [_, .., place, held_by] => Some((place, held_by)),
        _ => None,
    }
}

fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// `aot-core/rules/gate` is a file or a folder of that crate's sources; other paths begin at the root.
fn is_module(name: &str) -> bool {
    let (package, module) = name.split_once('/').unwrap_or((name, ""));
    let source = root().join("crates").join(package).join("src").join(module);
    source.is_dir() || source.with_extension("rs").is_file() || root().join(name).exists()
}

/// Whether a module of that name has a function of that name. A module that has no file of its own stands in the file of the
/// one around it, or is a line of a macro there.
fn is_test(name: &str) -> bool {
    let Some((modules, function)) = name.rsplit_once("::") else { return false };
    let modules: Vec<&str> = modules.split("::").collect();
    let crates = fs::read_dir(root().join("crates")).expect("a folder").flatten();
    let mut folders = crates.flat_map(|entry| [entry.path().join("src"), entry.path().join("tests/it")]);
    folders.any(|folder| {
        (1..=modules.len()).any(|depth| {
            let (outer, inner) = modules.split_at(depth);
            let place = folder.join(outer.join("/"));
            let files = [place.with_extension("rs"), place.join("mod.rs")];
            files.iter().filter_map(|file| fs::read_to_string(file).ok()).any(|text| {
                let holds = |module: &&str| {
                    text.contains(&format!("mod {module} {{")) || text.contains(&format!("\n    {module}: "))
                };
                text.contains(&format!("fn {function}(")) && inner.iter().all(holds)
            })
        })
    })
}

/// `d7` for each `D7` that stands alone as a word.
fn citations(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let number = |word: &str| word.strip_prefix('D').filter(|rest| !rest.is_empty()).map(str::to_owned);
    let numbers = words.filter_map(number).filter(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    numbers.map(|number| format!("d{number}")).collect()
}
