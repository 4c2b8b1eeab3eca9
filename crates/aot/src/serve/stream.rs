//! Tells a page what it shows, as server-sent events: everything at first, then what changes. Whoever falls behind gets
//! everything anew, so nothing is kept for a slow reader but a bounded backlog.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use futures::stream::unfold;
use tokio::sync::broadcast::error::RecvError;

use super::loops::{Loops, Viewer};

/// A browser that lost us comes again after so long.
const AGAIN: Duration = Duration::from_millis(500);

/// A line without meaning is sent this often, so that both ends see when the other is gone.
const ALIVE: Duration = Duration::from_secs(10);

struct Telling {
    loops: Arc<Loops>,
    viewer: Viewer,
    /// The last change of each loop that this reader has.
    numbers: Vec<u64>,
    waiting: VecDeque<Event>,
    sent: u64,
}

/// The events of one reader. A browser that comes again sends the number of the last event that it has; it gets everything,
/// because what it missed is not kept.
pub fn events(loops: Arc<Loops>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let viewer = loops.look();
    let telling = Telling { numbers: Vec::new(), waiting: VecDeque::new(), sent: 0, viewer, loops };
    let stream = unfold(telling, |mut telling| async {
        if telling.numbers.is_empty() {
            telling.everything().await;
        }
        let event = telling.next().await?;
        telling.sent += 1;
        let event = event.id(telling.sent.to_string());
        Some((Ok(event), telling))
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE))
}

impl Telling {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            match self.viewer.updates.recv().await {
                Ok(update) if self.numbers.get(update.at).is_some_and(|number| update.number > *number) => {
                    self.numbers[update.at] = update.number;
                    return Some(Event::default().event("part").data(update.text));
                }
                // It is in the whole already.
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => self.everything().await,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// All loops as they are now. Files are read elsewhere, so that others are answered meanwhile.
    async fn everything(&mut self) {
        let loops = Arc::clone(&self.loops);
        let read = tokio::task::spawn_blocking(move || {
            loops.all().iter().map(|watched| watched.whole()).collect::<Vec<_>>()
        });
        let wholes = read.await.unwrap_or_default();
        self.numbers = wholes.iter().map(|(number, _)| *number).collect();
        let ids: Vec<&str> = self.loops.all().iter().map(|watched| watched.id.as_str()).collect();
        let ids = serde_json::json!({ "loops": ids }).to_string();
        self.waiting = VecDeque::from([Event::default().event("loops").retry(AGAIN).data(ids)]);
        self.waiting.extend(wholes.into_iter().map(|(_, text)| Event::default().event("all").data(text)));
    }
}
