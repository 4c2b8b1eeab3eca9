//! A real Chromium without a window, driven by the DevTools protocol over two pipes. Knows nothing of what it looks at.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Nothing here takes this long unless it hangs.
const LONG: Duration = Duration::from_secs(60);

/// How often a page is asked whether something is so.
const POLL: Duration = Duration::from_millis(5);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// What it would otherwise fetch, or ask for, by itself.
const FLAGS: &str = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-sync \
    --disable-background-networking --disable-component-update --disable-default-apps --disable-extensions \
    --disable-features=Translate,OptimizationHints,MediaRouter --metrics-recording-only --mute-audio --hide-scrollbars \
    --no-proxy-server --remote-debugging-pipe";

/// The program, where it is installed.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut folders = std::env::split_paths(&path);
    folders.find_map(|folder| NAMES.iter().map(|name| folder.join(name)).find(|program| program.is_file()))
}

#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: Option<ChildStdin>,
    said: Receiver<Value>,
    sent: u64,
    /// What it told without being asked, the oldest first.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// One page of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tab {
    session: String,
}

impl Browser {
    pub fn start(program: &Path) -> Browser {
        let profile = tempfile::tempdir().expect("a folder");
        // The protocol is spoken on the descriptors 3 and 4.
        let script =
            format!("exec \"$0\" {FLAGS} --user-data-dir=\"$1\" about:blank 3<&0 4>&1 0</dev/null 1>&2");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .arg(program)
            .arg(profile.path())
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let (sender, said) = channel();
        let from = child.stdout.take().expect("it was asked for");
        std::thread::spawn(move || {
            for message in BufReader::new(from).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the protocol is JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let to = child.stdin.take();
        Browser { child, to, said, sent: 0, events: Vec::new(), _profile: profile }
    }

    /// Opens an empty page of this size.
    pub fn open(&mut self, width: u32, height: u32) -> Tab {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"}));
        let attached = self.call(
            None,
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        let tab = Tab { session: attached["sessionId"].as_str().expect("a session").to_owned() };
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.tell(&tab, &format!("{domain}.enable"), json!({}));
        }
        self.resize(&tab, width, height);
        tab
    }

    pub fn resize(&mut self, tab: &Tab, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.tell(tab, "Emulation.setDeviceMetricsOverride", metrics);
    }

    /// `light` or `dark`.
    pub fn prefer(&mut self, tab: &Tab, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.tell(tab, "Emulation.setEmulatedMedia", json!({"features": features}));
    }

    pub fn go(&mut self, tab: &Tab, address: &str) {
        self.tell(tab, "Page.navigate", json!({"url": address}));
        self.wait(tab, "document.readyState === 'complete' && location.href !== 'about:blank'");
    }

    /// The value of an expression, or of the promise that it is.
    pub fn ask(&mut self, tab: &Tab, expression: &str) -> Value {
        let wanted = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let said = self.tell(tab, "Runtime.evaluate", wanted);
        assert!(said.get("exceptionDetails").is_none(), "{expression}: {said}");
        said["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, tab: &Tab, expression: &str) {
        let began = Instant::now();
        let safely =
            format!("(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()");
        while self.ask(tab, &safely) != json!(true) {
            if began.elapsed() > LONG {
                let page = self.ask(tab, "document.body.innerText");
                panic!("it never came: {expression}\n{page}\n{:#?}", self.complaints(tab));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Presses a key, by its name: `a`, `Enter`, `ArrowRight`.
    pub fn press(&mut self, tab: &Tab, key: &str) {
        let (text, code) = match key {
            "Enter" => ("\r", 13),
            "Escape" => ("", 27),
            "ArrowLeft" => ("", 37),
            "ArrowUp" => ("", 38),
            "ArrowRight" => ("", 39),
            "ArrowDown" => ("", 40),
            key => (key, 0),
        };
        let down = json!({"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.tell(tab, "Input.dispatchKeyEvent", down);
        self.tell(tab, "Input.dispatchKeyEvent", json!({"type": "keyUp", "key": key}));
    }

    /// A picture of what is seen, as PNG in base64.
    pub fn picture(&mut self, tab: &Tab) -> String {
        let shot = self.tell(tab, "Page.captureScreenshot", json!({"format": "png"}));
        shot["data"].as_str().expect("a picture").to_owned()
    }

    /// The addresses that were asked for.
    pub fn requests(&mut self, tab: &Tab) -> Vec<String> {
        self.hear();
        let sent = self.of(tab, "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// Errors of scripts, and what the browser refused to load or run.
    pub fn complaints(&mut self, tab: &Tab) -> Vec<String> {
        self.hear();
        let thrown = self.of(tab, "Runtime.exceptionThrown").map(|event| event["params"].to_string());
        let logged =
            self.of(tab, "Log.entryAdded").filter(|event| event["params"]["entry"]["level"] == "error");
        thrown.chain(logged.map(|event| event["params"]["entry"].to_string())).collect()
    }

    fn of<'b>(&'b self, tab: &'b Tab, method: &'b str) -> impl Iterator<Item = &'b Value> {
        self.events
            .iter()
            .filter(move |event| event["sessionId"] == tab.session.as_str() && event["method"] == method)
    }

    pub fn tell(&mut self, tab: &Tab, method: &str, wanted: Value) -> Value {
        self.call(Some(&tab.session), method, wanted)
    }

    fn call(&mut self, session: Option<&str>, method: &str, wanted: Value) -> Value {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": wanted});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let to = self.to.as_mut().expect("it is open until the end");
        to.write_all(format!("{message}\0").as_bytes()).expect("the browser lives");
        loop {
            let said = self.said.recv_timeout(LONG);
            let said = said.unwrap_or_else(|_| panic!("the browser does not answer to {method}"));
            if said["id"] == self.sent {
                assert!(said.get("error").is_none(), "{method}: {said}");
                return said["result"].clone();
            }
            self.events.push(said);
        }
    }

    fn hear(&mut self) {
        self.events.extend(self.said.try_iter());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends with its pipe; one that does not is killed.
        drop(self.to.take());
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(POLL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
