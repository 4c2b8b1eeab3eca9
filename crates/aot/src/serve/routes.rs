//! The paths of the page, and what each answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::actions::{self, PageAction};
use super::door::{Door, HEADERS, NotLetIn};
use super::loops::Loops;
use super::{model, stream};

/// What a person can ask for is short.
const BODY_BYTES: usize = 64 << 10;
const BODY_TIME: Duration = Duration::from_secs(5);

/// The page itself.
const FILES: [(&str, &str, &str); 4] = [
    ("", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

#[derive(Clone, Debug)]
pub struct Serving {
    pub door: Arc<Door>,
    pub loops: Arc<Loops>,
    pub program: PathBuf,
    pub verbs: Arc<Semaphore>,
}

/// Which path the page lives below is the door's business: a request that comes so far has the right one.
pub fn router(serving: Serving) -> Router {
    let mut router = Router::new()
        .route("/", get(enter))
        .route(
            "/{home}/events",
            get(|State(serving): State<Serving>| async { stream::events(serving.loops) }),
        )
        .route("/{home}/loops/{id}/atoms/{atom}", get(about))
        .route("/{home}/loops/{id}/checks", get(checks))
        .route("/{home}/loops/{id}/{action}", post(act));
    for (name, kind, text) in FILES {
        let file = get(move || async move { ([(CONTENT_TYPE, kind)], text) });
        router = router.route(&format!("/{{home}}/{name}"), file);
    }
    router
        .fallback(|| async { not_found() })
        .layer(from_fn_with_state(Arc::clone(&serving.door), guard))
        .with_state(serving)
}

/// Lets a request in or not, and puts on every answer what a browser has to know.
async fn guard(State(door): State<Arc<Door>>, request: Request, next: Next) -> Response {
    let mut response = match door.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refused) => (refused.status(), refused.text()).into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// With the token in the address, one gets the cookie and leaves the address behind.
async fn enter(State(serving): State<Serving>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let given = query.split('&').find_map(|pair| pair.strip_prefix("token="));
    if !given.is_some_and(|given| serving.door.token.is(given)) {
        return (NotLetIn::Stranger.status(), NotLetIn::Stranger.text()).into_response();
    }
    let headers =
        [(SET_COOKIE, serving.door.token.cookie()), (LOCATION, format!("/{}/", serving.door.token.path()))];
    (StatusCode::SEE_OTHER, headers).into_response()
}

async fn about(
    State(serving): State<Serving>,
    Path((_, id, atom)): Path<(String, String, String)>,
) -> Response {
    let Some(watched) = serving.loops.named(&id).cloned() else { return not_found() };
    let about = spawn_blocking(move || watched.about(&atom)).await;
    about.ok().flatten().map_or_else(not_found, |about| json(StatusCode::OK, &about))
}

async fn checks(State(serving): State<Serving>, Path((_, id)): Path<(String, String)>) -> Response {
    let Some(watched) = serving.loops.named(&id).cloned() else { return not_found() };
    let evidence = spawn_blocking(move || watched.base_case()).await;
    evidence.ok().flatten().map_or_else(not_found, |evidence| json(StatusCode::OK, &evidence))
}

async fn act(
    State(serving): State<Serving>,
    Path((_, id, action)): Path<(String, String, String)>,
    request: Request,
) -> Response {
    let (Some(watched), Some(action)) = (serving.loops.named(&id).cloned(), PageAction::named(&action))
    else {
        return not_found();
    };
    let wanted = match wanted(request.into_body()).await {
        Ok(wanted) => wanted,
        Err(status) => return status.into_response(),
    };
    let Ok(_turn) = serving.verbs.acquire().await else { return not_found() };
    let program = serving.program.clone();
    let done = spawn_blocking(move || actions::perform(&program, &watched.state, action, wanted)).await;
    let Ok(answer) = done else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    let status = if answer.get("error").is_some() { StatusCode::CONFLICT } else { StatusCode::OK };
    json(status, &model::plain(answer))
}

/// The object in a request.
async fn wanted(body: Body) -> Result<Map<String, Value>, StatusCode> {
    let read = timeout(BODY_TIME, to_bytes(body, BODY_BYTES)).await;
    let bytes = read.map_err(|_| StatusCode::REQUEST_TIMEOUT)?.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    serde_json::from_slice(&bytes).map_err(|_| StatusCode::BAD_REQUEST)
}

fn json(status: StatusCode, value: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "there is nothing here\n").into_response()
}
