//! A server of the page, plain connections to it, and a browser.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use aot_testkit::browser::{self, Browser, Tab};
use serde_json::Value;

use crate::repo::{LONG, Live, Repo};

/// `aot serve` at work.
pub struct Server {
    pub live: Live,
    pub address: String,
    pub port: u16,
    /// The loops, as the page names them.
    pub loops: Vec<String>,
}

impl Server {
    pub fn start(repo: &Repo, more: &[&str]) -> Server {
        let words: Vec<&str> = ["serve", "--json"].iter().chain(more).copied().collect();
        let mut live = repo.start(&words);
        live.hear("address");
        let said: Value = serde_json::from_str(live.heard.last().expect("a line")).expect("JSON");
        let port = said["port"].as_u64().and_then(|port| u16::try_from(port).ok()).expect("a port");
        let loops = said["loops"].as_array().expect("loops").iter();
        let loops = loops.filter_map(|one| one["id"].as_str().map(str::to_owned)).collect();
        Server { live, address: said["address"].as_str().expect("an address").to_owned(), port, loops }
    }

    pub fn token(&self) -> &str {
        self.address.split_once("token=").expect("it has one").1
    }

    /// Sends these bytes, and reads until the server closes or is silent for a second.
    pub fn say(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a limit");
        // A server that refuses may close before it has read everything.
        let _ = stream.write_all(bytes);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }

    /// A request with these headers; `HOST` and `COOKIE` in a line stand for the right ones.
    pub fn ask(&self, request: &str, headers: &[&str], body: &str) -> String {
        let mut text = format!("{} HTTP/1.1\r\nconnection: close\r\n", request.replace("HOME", &self.home()));
        for header in headers {
            let header = header.replace("HOST", &format!("127.0.0.1:{}", self.port));
            text += &format!("{}\r\n", header.replace("COOKIE", &format!("aot={}", self.token())));
        }
        if !body.is_empty() {
            text += &format!("content-length: {}\r\n", body.len());
        }
        self.say(format!("{text}\r\n{body}").as_bytes())
    }

    /// The path below which the page lives.
    pub fn home(&self) -> String {
        let query = format!(
            "GET /?token={} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n\r\n",
            self.token(),
            self.port
        );
        let said = self.say(query.as_bytes());
        let place =
            said.lines().find_map(|line| line.strip_prefix("location: ")).expect("it leads to the page");
        place.trim().trim_end_matches('/').to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.live.child.kill();
        let _ = self.live.child.wait();
    }
}

/// A browser that looks at the page. Where there is none, that is said.
pub fn browser() -> Option<Browser> {
    match browser::program() {
        Some(program) => Some(Browser::start(&program)),
        None => {
            eprintln!("!!! NOT TESTED IN A BROWSER: chromium is not installed !!!");
            None
        }
    }
}

/// Opens the page, and waits until it shows a loop.
pub fn open(browser: &mut Browser, server: &Server) -> Tab {
    let tab = browser.open(1200, 800);
    browser.go(&tab, &server.address);
    browser.wait(&tab, "document.querySelectorAll('#picture .box').length > 0");
    tab
}

/// Waits until an atom has this status on the page.
pub fn wait_for_status(browser: &mut Browser, tab: &Tab, atom: &str, status: &str) {
    let is_so = format!(
        "[...document.querySelectorAll('#picture .box')].some((box) => box.querySelector('.name').textContent === '{atom}' \
         && box.classList.contains('{status}'))"
    );
    browser.wait(tab, &is_so);
}

/// Nothing was loaded from elsewhere, and nothing that was loaded complained.
pub fn is_clean(browser: &mut Browser, tab: &Tab, server: &Server) {
    let ours = format!("http://127.0.0.1:{}/", server.port);
    let foreign: Vec<String> = browser
        .requests(tab)
        .into_iter()
        .filter(|address| {
            !address.starts_with(&ours) && !address.starts_with("data:") && address != "about:blank"
        })
        .collect();
    assert_eq!(foreign, Vec::<String>::new());
    assert_eq!(browser.complaints(tab), Vec::<String>::new());
}

/// A state file that a run waits beside: `$GO` in it becomes the path of a file that is not there yet.
pub fn with_gate(repo: &Repo, state: &str) -> std::path::PathBuf {
    let go = repo.path("../go");
    let text = repo.read(state).replace("$GO", go.to_str().expect("a text"));
    repo.write(state, &text);
    go
}

/// How long a server waits for the head of a request, and a little more.
pub const PATIENCE: Duration = Duration::from_secs(15);
