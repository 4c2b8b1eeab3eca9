//! Takes a picture of a page in a real browser, as it was used for docs/img:
//! `look ADDRESS [WIDTH HEIGHT [light|dark [SCRIPT]]] | base64 -d > page.png`. The script runs before, and then two seconds pass.

use std::time::Duration;

use aot_testkit::browser::{Browser, program};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| words.get(at).map(String::as_str);
    let number = |at: usize, otherwise: u32| word(at).and_then(|word| word.parse().ok()).unwrap_or(otherwise);
    let program = program().expect("chromium is installed");
    let mut browser = Browser::start(&program);
    let tab = browser.open(number(1, 1280), number(2, 800));
    browser.prefer(&tab, word(3).unwrap_or("light"));
    browser.go(&tab, word(0).expect("an address"));
    std::thread::sleep(Duration::from_secs(1));
    if let Some(script) = word(4) {
        browser.ask(&tab, script);
    }
    std::thread::sleep(Duration::from_secs(1));
    println!("{}", browser.picture(&tab));
    browser.complaints(&tab).iter().for_each(|complaint| eprintln!("{complaint}"));
}
