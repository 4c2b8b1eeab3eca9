// The page of `aot serve`. Draws what the server tells, and decides nothing. Texts of agents become text nodes and nothing
// else; changes are drawn once for each frame of the screen.
'use strict';

const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';
const STATUSES = ['resolved', 'claimed', 'running', 'ready', 'pending', 'dormant', 'failed'];
const MARKS = { resolved: '✓', claimed: '~', running: '◐', ready: '○', pending: '○', dormant: '◌', failed: '✗' };
const LOG_LINES = 200;
const BARS = 2000;
// With more boxes than this, nothing is animated.
const LARGE = 250;
// Up to so many boxes, a picture begins at a scale at which they can be read.
const FEW = 60;
const READABLE = 0.52;

/** All loops by their ids, and the one that is shown. */
const loops = new Map();
let order = [];
let shown = null;

/** An element with texts and other elements in it. */
function make(tag, attributes, ...inside) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === 'class') element.className = value;
    else if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...inside.filter((one) => one !== undefined && one !== null && one !== ''));
  return element;
}
function draw(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}
const known = (word, words) => (words.includes(word) ? word : 'pending');
const speak = (text) => { $('spoken').textContent = text; };

// ---- Words

function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  const both = (large, small) => (small.startsWith('0 ') ? large : `${large} ${small}`);
  if (minutes < 60) return both(`${minutes} m`, `${seconds % 60} s`);
  return both(`${Math.floor(minutes / 60)} h`, `${minutes % 60} m`);
}
const clock = (at) => new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' });
const money = (usd) => `$${usd.toFixed(2)}`;
const counted = (number, what) => `${number} ${what}${number === 1 ? '' : 's'}`;
function thousands(count) {
  if (count < 1000) return `${count}`;
  return count < 1e6 ? `${(count / 1e3).toFixed(count < 1e4 ? 1 : 0)}k` : `${(count / 1e6).toFixed(1)}M`;
}

// ---- What the server tells

function connect() {
  const events = new EventSource('events');
  events.addEventListener('open', () => lost(null));
  events.addEventListener('error', () => {
    lost('The connection is lost; trying again …');
    if (events.readyState !== EventSource.CLOSED) return;
    // The server answers, but not to us: it may have another token now.
    events.close();
    lost('This page is not let in any more: open the address that `aot serve` printed. Trying again …');
    setTimeout(connect, 2000);
  });
  events.addEventListener('loops', (event) => {
    order = JSON.parse(event.data).loops;
    for (const id of loops.keys()) if (!order.includes(id)) loops.delete(id);
    touch('tabs');
  });
  events.addEventListener('all', (event) => whole(JSON.parse(event.data)));
  events.addEventListener('part', (event) => part(JSON.parse(event.data)));
}

function lost(text) {
  $('lost').hidden = !text;
  $('lost').textContent = text ?? '';
  document.body.dataset.connected = text ? 'no' : 'yes';
}

function whole(told) {
  const before = loops.get(told.loop);
  const one = {
    id: told.loop, name: told.name, path: told.path, head: told.head ?? {}, checks: told.checks ?? [],
    graph: { boxes: [], arrows: [], w: 0, h: 0 }, statuses: [], critical: [], changed: new Set(), bars: [], lanes: [], first: 0, log: told.log ?? [],
    doing: told.doing ?? {}, hosts: told.hosts ?? null, selected: before?.selected ?? null, view: before?.view ?? null,
  };
  loops.set(one.id, one);
  apply(one, told);
  // Whoever comes again mostly finds the same graph: its nodes stay.
  one.redraw = JSON.stringify(before?.graph) !== JSON.stringify(one.graph);
  const wanted = location.hash.slice(1);
  if (!shown || !loops.has(shown) || (wanted === one.id && shown !== one.id && !before)) shown = one.id;
  if (shown === one.id) touch('head', 'checks', 'graph', 'statuses', 'time', 'log', 'now', 'about');
  touch('tabs');
}

function part(told) {
  const one = loops.get(told.loop);
  if (!one) return;
  apply(one, told);
  touch('tabs');
}

function apply(one, told) {
  const here = one.id === shown;
  if (told.head) { one.head = told.head; if (here) touch('head', 'checks'); }
  if (told.checks) { one.checks = told.checks; if (here) touch('checks'); }
  if (told.graph) {
    one.graph = told.graph;
    one.statuses = new Array(told.graph.boxes.length).fill('pending');
    one.critical = new Array(told.graph.arrows.length).fill(false);
    one.changed = new Set();
    one.redraw = true;
    if (here) touch('graph', 'statuses');
  }
  for (const [at, status] of told.statuses ?? []) {
    one.statuses[at] = known(status, STATUSES);
    one.changed.add(at);
    if (here) {
      touch('statuses');
      if (one.graph.boxes[at]?.id === one.selected) touch('about');
    }
  }
  for (const [at, is] of told.critical ?? []) {
    one.critical[at] = is;
    one.arrowsChanged = true;
    if (here) touch('statuses');
  }
  if (told.timeline) { one.first = told.timeline.first; one.bars = told.timeline.bars; lanes(one); if (here) touch('time'); }
  for (const [at, bar] of told.spans ?? []) {
    const place = at - one.first;
    if (place < 0) continue;
    if (one.bars[place]) Object.assign(one.bars[place], bar); else { one.bars[place] = bar; lane(one, bar); }
    if (here) touch('time');
    if (bar.name === one.selected && here) touch('about');
  }
  if (one.bars.length > 2 * BARS) { one.first += one.bars.length - BARS; one.bars.splice(0, one.bars.length - BARS); }
  if (told.log) { one.log = told.log; if (here) touch('log'); }
  if (told.told) { one.log = one.log.concat(told.told).slice(-LOG_LINES); if (here) touch('log'); }
  if ('hosts' in told) { one.hosts = told.hosts; if (here) touch('head', 'now'); }
  for (const [key, job] of Object.entries(told.doing ?? {})) {
    if (job === null) delete one.doing[key]; else one.doing[key] = job;
    if (here) { touch('now'); if (key === one.selected) touch('live'); }
  }
}

// ---- One drawing for each frame

const dirty = new Set();
let frames = 0;
function touch(...parts) {
  if (dirty.size === 0) requestAnimationFrame(frame);
  parts.forEach((part) => dirty.add(part));
}
function frame() {
  const parts = new Set(dirty);
  dirty.clear();
  frames += 1;
  const one = loops.get(shown);
  if (!one) return;
  if (parts.has('tabs')) tabs();
  if (parts.has('head')) head(one);
  if (parts.has('checks')) checks(one);
  if (parts.has('graph') && one.redraw) graph(one);
  if (parts.has('statuses')) statuses(one);
  if (parts.has('time')) time(one);
  if (parts.has('log')) log(one);
  if (parts.has('now')) now(one);
  if (parts.has('live')) live(one);
  if (parts.has('about')) refresh(one);
}

function show(id) {
  if (!loops.has(id) || id === shown) return;
  shown = id;
  history.replaceState(null, '', `#${id}`);
  const one = loops.get(id);
  one.redraw = true;
  close();
  touch('tabs', 'head', 'checks', 'graph', 'statuses', 'time', 'log', 'now');
}

function tabs() {
  const all = order.map((id) => loops.get(id)).filter(Boolean);
  $('loops').hidden = all.length < 2;
  if (all.length < 2) return;
  $('loops').replaceChildren(...all.map((one) => {
    const { resolved = 0 } = one.head.counts ?? {};
    const current = one.id === shown ? 'true' : undefined;
    return make('button', { type: 'button', title: one.path, 'aria-current': current, onclick: () => show(one.id) },
      make('i', { class: known(one.head.status, ['running', 'completed', 'stopped', 'pending']) }), one.name,
      make('small', {}, `${resolved}/${needed(one.head.counts)}`));
  }));
}

// ---- The head

const needed = (counts) => (counts ? counts.pending + counts.in_progress + counts.resolved : 0);

function head(one) {
  const at = one.head;
  const counts = at.counts ?? { resolved: 0, claimed: 0, in_progress: 0, pending: 0, dormant: 0 };
  const all = needed(counts);
  $('goal').textContent = at.goal ?? '';
  $('goal').title = at.goal ?? '';
  const state = at.redirect_requested ? 'redirecting' : at.stop_requested && at.status === 'running' ? 'stopping' : at.status ?? '';
  if ($('status').textContent !== state) {
    $('status').textContent = state;
    $('status').className = `chip ${known(at.status, ['running', 'completed', 'stopped', 'unreadable', 'pending'])}`;
    document.title = `${state === 'completed' ? '✓ ' : ''}${one.name}: ${state}`;
  }
  $('problem').hidden = !at.problem;
  $('problem').textContent = at.problem ?? '';
  const width = (count) => `${all ? (100 * count) / all : 0}%`;
  const bar = $('progress');
  if (!bar.firstChild) bar.append(...['resolved', 'claimed', 'in_progress'].map((name) => make('i', { class: name })));
  bar.setAttribute('aria-valuemax', all);
  bar.setAttribute('aria-valuenow', counts.resolved);
  bar.children[0].style.width = width(counts.resolved - counts.claimed);
  bar.children[1].style.width = width(counts.claimed);
  bar.children[2].style.width = width(counts.in_progress);
  const claimed = counts.claimed ? `, ${counts.claimed} claimed` : '';
  $('counts').textContent = `${counts.resolved} of ${all} resolved${claimed}`;
  figures(one);
  const over = ['stopped', 'completed'].includes(at.status);
  $('stop').disabled = at.status !== 'running' || at.stop_requested;
  const next = over || !at.driver ? at.next_steps ?? [] : [];
  const parts = [];
  if (at.status === 'stopped' && at.stop_reason) parts.push(at.stop_reason.split('\n')[0], ' ');
  if (at.status === 'running' && !at.driver && !at.session) parts.push('No driver: ', make('code', {}, 'aot run'), ' ');
  if (at.parked_until) parts.push(`Parked until ${clock(at.parked_until)}: ${at.parked_reason ?? 'no agent can start'} `);
  next.forEach((step) => parts.push(make('code', {}, step), ' '));
  if (at.status === 'completed' && at.branch) parts.push(make('code', {}, `git merge ${at.branch}`));
  $('reason').replaceChildren(...parts);
  $('reason').hidden = parts.length === 0;
}

function figures(one) {
  const at = one.head;
  if (!at.bound) return;
  const rows = [['iteration', `${at.iteration} of ${at.max_iterations}`], ['stalled', `${at.stall_count} of ${at.max_stall_count}`]];
  const spent = at.spent ?? {};
  const used = [];
  if (spent.agent_runs) used.push(counted(spent.agent_runs, 'agent run'));
  if (spent.seconds) used.push(span(spent.seconds * 1000));
  if (spent.cost_usd) used.push(money(spent.cost_usd));
  if (spent.tokens) used.push(`${thousands(spent.tokens)} tokens`);
  if (used.length) rows.push(['spent', used.join(', ')]);
  if (at.status !== 'completed') {
    const left = [span(at.bound.seconds * 1000)];
    // A loop of commands alone asks no agent.
    if (at.least_agent_runs || spent.agent_runs) left.unshift(counted(at.bound.agent_runs, 'agent run'));
    if (at.bound.cost_usd !== undefined && at.bound.cost_usd !== null) left.push(money(at.bound.cost_usd));
    if (at.bound.tokens) left.push(`${thousands(at.bound.tokens)} tokens`);
    rows.push(['left at most', left.join(', ')]);
    if (at.estimate) rows.push(['estimate', at.estimate]);
  }
  if (at.branch) rows.push(['branch', at.branch]);
  if (one.hosts) {
    const slots = one.hosts.hosts.reduce((sum, host) => sum + host.slots, 0);
    const busy = one.hosts.hosts.reduce((sum, host) => sum + host.jobs.length, 0);
    const waiting = one.hosts.waiting ? `, ${counted(one.hosts.waiting, 'job')} waiting` : '';
    const away = one.hosts.engine_away ? ', the engine does not answer' : '';
    const engine = /^https?:\/\//.test(one.hosts.engine) ? make('a', { href: one.hosts.engine, target: '_blank', rel: 'noreferrer' }, 'engine') : '';
    rows.push(['hosts', make('span', {}, `${busy} of ${slots} slots busy${waiting}${away} `, engine)]);
  }
  $('figures').replaceChildren(...rows.map(([name, value]) => make('div', {}, make('dt', {}, name), make('dd', {}, value))));
}

// ---- Checks, what goes on, and the log

function checks(one) {
  const marks = { pass: '✓', fail: '✗', error: '!', pending: '…' };
  const rows = one.checks.map((check) => {
    const outcome = check.outcome ?? 'unseen';
    const what = [make('span', { class: 'theirs' }, check.item)];
    if (check.why && outcome !== 'pass') what.push(make('small', { class: 'theirs' }, check.why));
    if (check.type === 'assertion' && check.confirmed === null) what.push(claim(one, check.item));
    return make('li', {}, make('span', { class: `mark ${known(outcome, ['pass', 'fail', 'error', 'unseen'])}`, role: 'img', 'aria-label': outcome }, marks[outcome] ?? '○'),
      make('div', { class: 'what' }, ...what));
  });
  if (rows.length) rows.push(make('li', {}, make('button', { type: 'button', class: 'link', onclick: () => evidence(one) }, 'Evidence')));
  $('checks').replaceChildren(...(rows.length ? rows : [make('li', { class: 'empty' }, 'There are none yet')]));
}

/** The buttons of a person who says whether an assertion holds. */
function claim(one, item) {
  const said = make('small', { role: 'alert' });
  const say = async (holds) => {
    const answer = await act(one, 'confirm', { item, holds });
    said.textContent = answer.error ? problem(answer) : holds ? 'Confirmed' : 'Denied';
  };
  return make('div', {},
    make('div', { class: 'mini' },
      make('button', { type: 'button', class: 'primary', 'data-confirm': item, onclick: () => say(true) }, 'It holds'),
      make('button', { type: 'button', onclick: () => say(false) }, 'It does not')), said);
}

function now(one) {
  const jobs = Object.entries(one.doing);
  const words = { work: 'works', probe: 'is probed', check: 'is checked', replan: 'a new plan' };
  const rows = jobs.map(([key, job]) => {
    if (key === '') return make('li', {}, make('span', { class: 'mark running' }, '◐'), make('span', { class: 'what' }, 'The checks run'));
    const details = job.waiting ? `waits to land: ${job.waiting}` : job.line ?? '';
    const since = job.since ? make('small', { 'data-since': Date.parse(job.since) }, span(Date.now() - Date.parse(job.since))) : '';
    const mends = job.mends ? `, mends it (${job.mends})` : '';
    const host = one.hosts?.hosts.find((host) => host.jobs.some((at) => at.task === job.task && at.atom === job.atom && at.attempt === job.attempt));
    const on = host ? ` on ${host.name}` : '';
    return make('li', {}, make('span', { class: 'mark running' }, '◐'),
      make('div', { class: 'what' }, job.atom ? make('button', { type: 'button', class: 'link', onclick: () => open(job.atom) }, job.atom) : 'plan',
        ` ${words[job.task] ?? job.task}${on}${mends}`, details ? make('small', { class: 'theirs' }, details) : ''), since);
  });
  for (const host of one.hosts?.hosts ?? []) {
    const isUp = ['up', 'new'].includes(host.state);
    const offers = host.offers.length ? `offers ${host.offers.join(', ')}` : '';
    rows.push(make('li', {}, make('span', { class: `mark ${isUp ? 'pass' : 'error'}` }, isUp ? '▣' : '!'),
      make('div', { class: 'what' }, `${host.name}: ${host.jobs.length} of ${host.slots} slots${host.state === 'up' ? '' : `, ${host.state}`}`,
        host.why || offers ? make('small', { class: 'theirs' }, host.why ?? offers) : '')));
  }
  $('now').replaceChildren(...(rows.length ? rows : [make('li', { class: 'empty' }, 'Nothing runs')]));
}

function log(one) {
  // The newest are on top; those that stand there already stay.
  const list = $('log');
  const all = one.log;
  const last = list.dataset.loop === one.id ? list.last : undefined;
  const from = last === undefined ? -1 : all.lastIndexOf(last);
  const fresh = from < 0 ? all : all.slice(from + 1);
  const rows = fresh.map((line) => make('li', {}, make('time', { datetime: line.at }, clock(line.at)), make('span', { class: 'what theirs' }, line.told)));
  if (from < 0) list.replaceChildren(...rows.reverse()); else list.prepend(...rows.reverse());
  while (list.children.length > LOG_LINES) list.lastChild.remove();
  list.dataset.loop = one.id;
  list.last = all[all.length - 1];
}

// ---- The graph

const picture = $('picture');
let nodes = [];
let paths = [];
let view = { x: 0, y: 0, scale: 1 };

function curve(from, to, way) {
  let [x, y] = [from.x + from.w, from.y + from.h / 2];
  let drawn = `M${x} ${y}`;
  const bendTo = (next, level) => {
    const bend = Math.min(90, Math.max(24, (next - x) / 2));
    drawn += `C${x + bend} ${y} ${next - bend} ${level} ${next} ${level}`;
    [x, y] = [next, level];
  };
  // Between the boxes of a column it is straight.
  for (const [middle, level] of way) {
    bendTo(middle - from.w / 2, level);
    drawn += `h${from.w}`;
    x += from.w;
  }
  bendTo(to.x - 1, to.y + to.h / 2);
  return `${drawn}m-7 -4l7 4l-7 4`;
}

function graph(one) {
  one.redraw = false;
  const { boxes, arrows } = one.graph;
  paths = arrows.map(([from, to, kind, way]) =>
    draw('path', { class: known(kind, ['dependency', 'child', 'choice']), d: curve(boxes[from], boxes[to], way) }));
  nodes = boxes.map((box, at) => {
    const group = draw('g', { class: 'box pending', role: 'button', tabindex: '-1', 'data-at': at });
    const sheet = (dx, dy) => draw('rect', { x: box.x + dx, y: box.y + dy, width: box.w, height: box.h, rx: box.kind === 'group' ? box.h / 2 : 7 });
    if (box.kind === 'parent' || box.kind === 'many') group.append(sheet(4, -4));
    group.append(sheet(0, 0));
    const x = box.x + (box.kind === 'group' ? 20 : 10);
    const first = draw('text', { x, y: box.y + 19 });
    first.append(draw('tspan', { class: 'mark' }, '○'), draw('tspan', { class: 'name', dx: 5 }, box.name));
    group.append(first);
    box.lines.forEach((line, row) => group.append(draw('text', { class: 'text', x, y: box.y + 19 + 16 * (row + 1) }, line)));
    return group;
  });
  one.changed = new Set(boxes.keys());
  one.arrowsChanged = true;
  picture.classList.toggle('large', boxes.length > LARGE);
  picture.replaceChildren(...paths, ...nodes);
  if (one.view) { view = one.view; place(); } else fitAll('first');
  mark(one);
}
const fit = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function statuses(one) {
  if (one.redraw || nodes.length !== one.graph.boxes.length) return;
  for (const at of one.changed) {
    const [node, status, box] = [nodes[at], one.statuses[at], one.graph.boxes[at]];
    if (!node) continue;
    node.setAttribute('class', `box ${status}${box.id === one.selected ? ' selected' : ''}`);
    node.setAttribute('aria-label', `${box.name}, ${status}: ${box.lines.join(' ')}`);
    node.querySelector('.mark').textContent = MARKS[status];
  }
  one.changed.clear();
  if (one.arrowsChanged) {
    one.arrowsChanged = false;
    paths.forEach((path, at) => path.classList.toggle('critical', one.critical[at]));
  }
  legend(one);
}

function legend(one) {
  const there = STATUSES.filter((status) => one.statuses.includes(status));
  const key = there.join(' ');
  if ($('legend').dataset.key === key) return;
  $('legend').dataset.key = key;
  $('legend').replaceChildren(...there.map((status) => make('li', { class: status }, make('i'), status)));
}

function place() {
  const { width, height } = picture.getBoundingClientRect();
  if (!width) return;
  picture.setAttribute('viewBox', `${view.x} ${view.y} ${width / view.scale} ${height / view.scale}`);
  picture.classList.toggle('far', view.scale < 0.5);
  picture.classList.toggle('farther', view.scale < 0.28);
  const one = loops.get(shown);
  if (one) one.view = view;
}
/** Shows the whole graph; at first not so small that nobody can read it, if it is a small one. */
function fitAll(how) {
  const one = loops.get(shown);
  const { width, height } = picture.getBoundingClientRect();
  if (!one || !one.graph.boxes.length || !width) return;
  const boxes = one.graph.boxes;
  const left = Math.min(...boxes.map((box) => box.x)) - 16;
  const top = Math.min(...boxes.map((box) => box.y)) - 20;
  const right = Math.max(...boxes.map((box) => box.x + box.w)) + 16;
  const bottom = Math.max(...boxes.map((box) => box.y + box.h)) + 36;
  let scale = Math.min(1.15, width / (right - left), height / (bottom - top));
  if (how === 'first' && scale < READABLE && boxes.length <= FEW) {
    const busy = boxes[Math.max(0, one.statuses.findIndex((status) => status === 'running' || status === 'ready'))];
    scale = READABLE;
    const start = (from, to, at, room) => (to - from <= room ? (from + to - room) / 2 : Math.min(to - room, Math.max(from, at - room / 2)));
    view = { scale, x: start(left, right, busy.x + busy.w / 2, width / scale), y: start(top, bottom, busy.y + busy.h / 2, height / scale) };
    place();
    return;
  }
  view = { scale, x: (left + right) / 2 - width / scale / 2, y: (top + bottom) / 2 - height / scale / 2 };
  place();
  one.view = null;
}
function zoom(by, x, y) {
  const { width, height, left, top } = picture.getBoundingClientRect();
  const [px, py] = [(x ?? left + width / 2) - left, (y ?? top + height / 2) - top];
  const scale = Math.min(3, Math.max(0.02, view.scale * by));
  view = { scale, x: view.x + px / view.scale - px / scale, y: view.y + py / view.scale - py / scale };
  place();
}

const fingers = new Map();
let moved = false;
picture.addEventListener('pointerdown', (event) => {
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  moved = false;
});
addEventListener('pointermove', (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  const here = [event.clientX, event.clientY];
  const [dx, dy] = [here[0] - before[0], here[1] - before[1]];
  if (!moved && Math.hypot(dx, dy) < 4) return;
  if (!moved) picture.classList.add('moving');
  moved = true;
  if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const apart = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]);
    zoom(apart(here) / Math.max(1, apart(before)), (here[0] + other[0]) / 2, (here[1] + other[1]) / 2);
  } else {
    view = { ...view, x: view.x - dx / view.scale, y: view.y - dy / view.scale };
    place();
  }
  fingers.set(event.pointerId, here);
});
for (const name of ['pointerup', 'pointercancel']) {
  addEventListener(name, (event) => {
    fingers.delete(event.pointerId);
    picture.classList.remove('moving');
  });
}
picture.addEventListener('wheel', (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), event.clientX, event.clientY);
}, { passive: false });
picture.addEventListener('click', (event) => {
  const node = event.target.closest('.box');
  if (moved || !node) return;
  const box = loops.get(shown).graph.boxes[Number(node.dataset.at)];
  if (box?.id) open(box.id);
});
new ResizeObserver(() => {
  const one = loops.get(shown);
  if (one?.view) place(); else fitAll('first');
  touch('time');
}).observe($('graph'));

function mark(one) {
  const at = one.graph.boxes.findIndex((box) => box.id === one.selected);
  nodes.forEach((node, place) => {
    node.classList.toggle('selected', place === at);
    node.setAttribute('tabindex', place === (at < 0 ? 0 : at) ? '0' : '-1');
  });
}

/** Selects a box, and moves the picture so that it is seen. */
function select(at, focus) {
  const one = loops.get(shown);
  const box = one?.graph.boxes[at];
  if (!box) return;
  one.selected = box.id;
  mark(one);
  const { width, height } = picture.getBoundingClientRect();
  const [w, h] = [width / view.scale, height / view.scale];
  const inside = box.x > view.x && box.x + box.w < view.x + w && box.y > view.y && box.y + box.h < view.y + h;
  if (!inside || view.scale < 0.5) {
    const scale = Math.max(view.scale, 0.7);
    view = { scale, x: box.x + box.w / 2 - width / scale / 2, y: box.y + box.h / 2 - height / scale / 2 };
    place();
  }
  if (focus) nodes[at].focus({ preventScroll: true });
  speak(`${box.name}, ${one.statuses[at]}`);
  if (!$('about').hidden) open(box.id, 'stay');
}
function step(by) {
  const one = loops.get(shown);
  const count = one?.graph.boxes.length;
  if (!count) return;
  const at = one.graph.boxes.findIndex((box) => box.id === one.selected);
  select(at < 0 ? 0 : (at + by + count) % count, true);
}
function go(dx, dy) {
  const one = loops.get(shown);
  const boxes = one?.graph.boxes ?? [];
  const from = boxes.find((box) => box.id === one.selected);
  if (!from) return step(1);
  let best = -1;
  let least = Infinity;
  boxes.forEach((box, at) => {
    const [x, y] = [box.x + box.w / 2 - from.x - from.w / 2, box.y + box.h / 2 - from.y - from.h / 2];
    const [along, aside] = dx ? [x * dx, Math.abs(y)] : [y * dy, Math.abs(x)];
    const far = along + 2.5 * aside;
    if (along > 8 && far < least) [best, least] = [at, far];
  });
  if (best >= 0) select(best, true);
}

// ---- The panel of an atom

let asked = null;
let again = null;

function open(id, how) {
  const one = loops.get(shown);
  if (!one) return;
  one.selected = id;
  mark(one);
  $('overview').hidden = true;
  const panel = $('about');
  panel.hidden = false;
  if (panel.dataset.atom !== id || panel.dataset.loop !== one.id) {
    panel.dataset.atom = id;
    panel.dataset.loop = one.id;
    panel.replaceChildren(make('header', {}, make('h2', {}, id), closer()));
  }
  if (how !== 'stay') {
    panel.focus({ preventScroll: true });
    if (matchMedia('(max-width: 760px)').matches) $('side').scrollIntoView({ block: 'start' });
  }
  load(one, id);
}
const closer = () => make('button', { type: 'button', class: 'close quiet', 'aria-label': 'Close', title: 'Close (Esc)', onclick: close }, '✕');
function close() {
  if ($('about').hidden) return;
  $('about').hidden = true;
  delete $('about').dataset.atom;
  $('overview').hidden = false;
  const one = loops.get(shown);
  const at = one ? one.graph.boxes.findIndex((box) => box.id === one.selected) : -1;
  if (at >= 0) nodes[at]?.focus({ preventScroll: true });
}
/** What is shown of it has changed: it is asked for again, but not with every change. */
function refresh(one) {
  const atom = $('about').dataset.atom;
  if ($('about').hidden || !atom || atom === ' ' || again) return;
  again = setTimeout(() => {
    again = null;
    if ($('about').dataset.atom === atom) load(one, atom);
  }, 300);
}
async function load(one, id) {
  const turn = {};
  asked = turn;
  const group = one.head.groups?.[id];
  if (group) return about(one, id, { group });
  const answer = await fetch(`loops/${one.id}/atoms/${encodeURIComponent(id)}`).catch(() => null);
  if (asked !== turn || $('about').dataset.atom !== id) return;
  if (!answer?.ok) return about(one, id, null);
  const told = await answer.json();
  if (asked === turn && $('about').dataset.atom === id) about(one, id, told);
}

function about(one, id, told) {
  const panel = $('about');
  const opened = new Set([...panel.querySelectorAll('details[open]')].map((one) => one.dataset.key));
  const scrolled = new Map([...panel.querySelectorAll('details[open] pre')].map((one) => [one.parentElement.dataset.key, one.scrollTop]));
  const at = one.graph.boxes.findIndex((box) => box.id === id);
  const status = one.statuses[at] ?? '';
  const parts = [make('header', {}, make('h2', {}, id), make('span', { class: `chip ${known(status, STATUSES)}` }, status), closer())];
  if (!told) parts.push(make('section', {}, make('p', { class: 'empty' }, 'Nothing is known of it yet.')));
  else if (told.group) parts.push(...aboutGroup(one, id, told.group));
  else parts.push(...aboutAtom(one, id, told));
  panel.replaceChildren(...parts);
  for (const details of panel.querySelectorAll('details')) {
    if (!opened.has(details.dataset.key)) continue;
    details.open = true;
    const pre = details.querySelector('pre');
    if (pre) pre.scrollTop = scrolled.get(details.dataset.key) ?? 0;
  }
  live(one);
}

const jump = (id) => make('button', { type: 'button', class: 'link', onclick: () => open(id) }, id);
const list = (ids) => ids.flatMap((id, at) => (at ? [', ', jump(id)] : [jump(id)]));
const row = (name, ...value) => [make('dt', {}, name), make('dd', {}, ...value)];
const section = (title, ...inside) => make('section', {}, make('h3', {}, title), ...inside);
const fold = (key, summary, ...inside) => make('details', { 'data-key': key }, make('summary', {}, ...summary), ...inside);
const chip = (word) => make('span', { class: `chip ${known(word, ['pass', 'fail', 'error', 'resolved', 'failed', 'running', 'pending'])}` }, word);

function aboutGroup(one, id, group) {
  const rows = group.choices.map((choice) => {
    const failed = group.failed.includes(choice);
    const word = failed ? 'failed' : choice === group.selected ? 'selected' : 'untried';
    const take = word === 'untried' ? make('button', { type: 'button', onclick: () => redirect({ select: `${id}=${choice}` }) }, 'Take this one …') : '';
    return make('li', {}, make('span', { class: 'what' }, jump(choice), ` ${word}`), take);
  });
  return [section('Alternatives', make('ul', { class: 'rows mini-rows' }, ...rows))];
}

function checkText(check) {
  if (!check) return '';
  const one = check.check ?? check;
  if (one.type) return `${one.type}: ${typeof one.value === 'string' ? one.value : JSON.stringify(one.value ?? '')}`;
  return JSON.stringify(check);
}

function aboutAtom(one, id, told) {
  const { atom, binding } = told;
  const facts = make('dl', { class: 'of' });
  if (atom.depends_on?.length) facts.append(...row('after', ...list(atom.depends_on)));
  if (told.needed_by?.length) facts.append(...row('before', ...list(told.needed_by)));
  if (told.children?.length) facts.append(...row('parts', ...list(told.children)));
  if (atom.or_group) facts.append(...row('one of', jump(atom.or_group)));
  if (atom.check) facts.append(...row('check', make('code', { class: 'theirs' }, checkText(atom.check))));
  if (atom.run) facts.append(...row('runs', make('code', { class: 'theirs' }, atom.run)));
  if (atom.agent) facts.append(...row('agent', atom.agent));
  const group = one.head.groups?.[atom.or_group];
  const other = group && group.selected !== id && !group.failed.includes(id);
  const parts = [make('section', {},
    make('p', { class: 'theirs' }, atom.description), make('p', { class: 'live theirs', hidden: true }), facts,
    ...(told.assertions ?? []).map((item) => make('div', {}, make('p', { class: 'theirs' }, item), claim(one, item))),
    make('div', { class: 'mini rows' },
      make('button', { type: 'button', onclick: () => redirect({ redo: id }) }, 'Do again …'),
      atom.status === 'pending' ? make('button', { type: 'button', onclick: () => redirect({ remove: id }) }, 'Remove …') : '',
      other ? make('button', { type: 'button', onclick: () => redirect({ select: `${atom.or_group}=${id}` }) }, 'Take this alternative …') : ''))];
  if (binding) {
    const dl = make('dl', { class: 'of' });
    if (binding.artifacts?.length) dl.append(...row('files', binding.artifacts.join(', ')));
    if (binding.commit) dl.append(...row('commit', make('code', {}, binding.commit.slice(0, 12))));
    parts.push(section('Result', make('p', { class: 'theirs' }, binding.summary), dl));
  }
  if (told.attempts?.length) {
    parts.push(section('Attempts', ...told.attempts.map((attempt, at) => {
      const word = attempt.outcome ?? (attempt.to ? 'ended' : 'running');
      const took = span((attempt.to ?? Date.now()) - attempt.from);
      const text = attempt.reason ?? attempt.summary ?? '';
      const one = fold(`t${attempt.from}`, [chip(word), `iteration ${attempt.attempt ?? '?'}, ${took}, ${clock(attempt.from)}`],
        make('pre', {}, text || 'Nothing is said of it.'));
      // Why it failed last is what people look for.
      one.open = at === 0 && word === 'failed';
      return one;
    })));
  }
  if (told.evidence?.length) parts.push(section('Evidence', ...told.evidence.map(piece)));
  if (told.transcripts?.length) {
    parts.push(section('Transcripts', ...told.transcripts.map((one) =>
      fold(`s${one.at}`, [one.title], make('p', { class: 'quiet-text' }, clock(one.at)), make('pre', { tabindex: 0 }, one.run)))));
  }
  return parts;
}

function piece(line) {
  const seen = line.evidence;
  const how = [`${clock(seen.at)}, ${span(seen.milliseconds)}`];
  if (seen.exit !== null && seen.exit !== undefined) how.push(`exit ${seen.exit}`);
  const output = seen.output ? [seen.output.head, seen.output.omitted ? `[… ${seen.output.omitted} bytes …]` : '', seen.output.tail].filter(Boolean).join('\n') : '';
  return fold(`e${line.item}${seen.at}`, [chip(line.outcome), line.item],
    make('p', { class: 'quiet-text theirs' }, `${seen.why} (${how.join(', ')})`),
    make('p', {}, make('code', { class: 'theirs' }, seen.ran), ' in ', make('code', {}, seen.folder || '.')),
    output ? make('pre', { tabindex: 0 }, output) : '');
}

async function evidence(one) {
  const answer = await fetch(`loops/${one.id}/checks`).catch(() => null);
  if (!answer?.ok) return;
  const lines = await answer.json();
  const panel = $('about');
  panel.dataset.atom = ' ';
  $('overview').hidden = true;
  panel.hidden = false;
  panel.replaceChildren(make('header', {}, make('h2', {}, 'Evidence'), closer()),
    make('section', {}, ...(lines.length ? lines.map(piece) : [make('p', { class: 'empty' }, 'The checks were not run yet.')])));
  panel.focus({ preventScroll: true });
}

/** What its agent does now. */
function live(one) {
  const line = $('about').querySelector('.live');
  if (!line) return;
  const job = one.doing[$('about').dataset.atom];
  line.hidden = !job;
  line.textContent = job ? job.waiting ? `waits to land: ${job.waiting}` : job.line ?? 'at work' : '';
}

// ---- The timeline

const canvas = $('bars');
const ROW = 17;
const TOP = 22;
let hits = [];
let colours = null;
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { colours = null; touch('time'); });

/** The lowest row that is free when a bar begins. */
function lane(one, bar) {
  if (bar.row !== 'attempts') return;
  let at = one.lanes.findIndex((last) => last.to !== null && last.to <= bar.from);
  if (at < 0) at = one.lanes.length;
  one.lanes[at] = bar;
  bar.lane = at;
}
function lanes(one) {
  one.lanes = [];
  one.bars.forEach((bar) => lane(one, bar));
}

function time(one) {
  if (!colours) {
    const of = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(['text', 'quiet', 'line', 'shade', 'card', 'accent', 'running', 'running-fill', 'resolved', 'resolved-fill', 'failed', 'failed-fill', 'pending', 'pending-fill', 'claimed', 'claimed-fill']
      .map((name) => [name, of.getPropertyValue(`--${name}`).trim()]));
  }
  const width = $('time').clientWidth;
  const rows = Math.max(1, one.lanes.length);
  const height = TOP + rows * ROW + 8;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = '11px system-ui, sans-serif';
  pen.textBaseline = 'middle';
  const attempts = one.bars.filter((bar) => bar.row === 'attempts');
  hits = [];
  if (!attempts.length) {
    pen.fillStyle = colours.quiet;
    pen.fillText('Nothing has run yet', 12, TOP + ROW / 2);
    return;
  }
  const goes = one.bars.some((bar) => bar.to === null);
  const from = one.bars[0].from;
  const last = one.bars.reduce((last, bar) => Math.max(last, bar.to ?? 0, bar.from), 0);
  const to = Math.max(goes ? Date.now() : last, from + 1000);
  const x = (at) => 10 + ((at - from) / (to - from)) * (width - 20);
  axis(pen, from, to, x, height, width);
  for (const bar of one.bars) {
    const [left, right] = [x(bar.from), x(bar.to ?? to)];
    if (bar.row === 'waiting') {
      pen.fillStyle = colours['claimed-fill'];
      pen.fillRect(left, TOP - 3, Math.max(1, right - left), height - TOP);
    } else if (bar.row === 'iterations') {
      pen.fillStyle = colours.pending;
      pen.fillRect(left, TOP - 4, 1, height - TOP);
    }
  }
  for (const bar of attempts) {
    const [left, right, y] = [x(bar.from), x(bar.to ?? to), TOP + bar.lane * ROW];
    const wide = Math.max(2, right - left - 1);
    const kind = bar.to === null ? 'running' : bar.outcome === 'resolved' ? 'resolved' : bar.outcome === 'failed' ? 'failed' : 'pending';
    pen.fillStyle = colours[`${kind}-fill`];
    pen.strokeStyle = bar.name === one.selected ? colours.accent : colours[kind];
    pen.lineWidth = bar.name === one.selected ? 2 : 1;
    pen.beginPath();
    pen.roundRect(left + 0.5, y + 0.5, wide, ROW - 4, Math.min(3, wide / 2));
    pen.fill();
    pen.stroke();
    hits.push([left, y, left + wide, y + ROW - 3, bar]);
    if (wide > 22) {
      pen.save();
      pen.beginPath();
      pen.rect(left + 3, y, wide - 4, ROW);
      pen.clip();
      pen.fillStyle = colours.text;
      pen.fillText(bar.name, left + 5, y + ROW / 2 - 1);
      pen.restore();
    }
  }
}

function axis(pen, from, to, x, height, width) {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].map((seconds) => seconds * 1000);
  const step = steps.find((step) => ((width - 20) * step) / (to - from) > 70) ?? 604800000;
  pen.strokeStyle = colours.line;
  pen.lineWidth = 1;
  pen.fillStyle = colours.quiet;
  for (let at = 0; at <= to - from; at += step) {
    const place = Math.round(x(from + at)) + 0.5;
    pen.beginPath();
    pen.moveTo(place, 16);
    pen.lineTo(place, height);
    pen.stroke();
    if (place < width - 40) pen.fillText(at === 0 ? clock(from) : `+${span(at)}`, place + 3, 9);
  }
}

function hit(event) {
  const { left, top } = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - left, event.clientY - top];
  return hits.findLast(([x1, y1, x2, y2]) => x >= x1 - 1 && x <= x2 + 1 && y >= y1 && y <= y2)?.[4];
}
canvas.addEventListener('pointermove', (event) => {
  const bar = hit(event);
  $('tip').hidden = !bar;
  canvas.style.cursor = bar ? 'pointer' : '';
  if (!bar) return;
  const took = span((bar.to ?? Date.now()) - bar.from);
  $('tip').textContent = `${bar.name}: ${bar.outcome ?? 'running'}, ${took}${bar.why ? `. ${fit(bar.why, 160)}` : ''}`;
  $('tip').style.left = `${Math.min(event.clientX + 12, innerWidth - 370)}px`;
  $('tip').style.top = `${event.clientY - $('tip').offsetHeight - 12}px`;
});
canvas.addEventListener('pointerleave', () => { $('tip').hidden = true; });
canvas.addEventListener('click', (event) => {
  const bar = hit(event);
  if (bar) open(bar.name);
});

// What goes on grows with the time.
setInterval(() => {
  const one = loops.get(shown);
  if (!one) return;
  if (one.bars.some((bar) => bar.to === null)) touch('time');
  for (const since of document.querySelectorAll('#now [data-since]')) since.textContent = span(Date.now() - Number(since.dataset.since));
}, 1000);

// ---- What a person does

async function act(one, action, wanted) {
  try {
    const answer = await fetch(`loops/${one.id}/${action}`, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(wanted),
    });
    if (answer.headers.get('content-type') === 'application/json') return await answer.json();
    return { error: { message: `the server said ${answer.status}`, hint: '' } };
  } catch {
    return { error: { message: 'the server cannot be reached', hint: '' } };
  }
}
const problem = (answer) => [answer.error.message, answer.error.hint].filter(Boolean).join('. ');

function say(dialog, text, good) {
  const said = dialog.querySelector('.said');
  said.hidden = !text;
  said.textContent = text ?? '';
  said.classList.toggle('good', Boolean(good));
}
/** Does something while the buttons of a dialog wait. */
async function busy(dialog, task) {
  const buttons = [...dialog.querySelectorAll('button')];
  buttons.forEach((button) => { button.disabled = true; });
  try { return await task(); } finally { buttons.forEach((button) => { button.disabled = false; }); }
}

function askToStop() {
  if ($('stop').disabled) return;
  say($('stop-dialog'), null);
  $('stop-dialog').showModal();
}
async function stop(now) {
  const one = loops.get(shown);
  const answer = await busy($('stop-dialog'), () => act(one, 'stop', { reason: $('stop-reason').value.trim() || null, now }));
  if (answer.error) return say($('stop-dialog'), problem(answer));
  $('stop-dialog').close();
}

let target = null;
function redirect(wanted) {
  const one = loops.get(shown);
  if (!one) return;
  target = one;
  const at = one.head;
  const ids = one.graph.boxes.filter((box) => box.kind === 'atom' || box.kind === 'parent').map((box) => box.id);
  const options = (values, chosen) => [make('option', { value: '' }, '–'),
    ...values.map((value) => make('option', { value, selected: value === chosen }, value))];
  $('r-goal').value = at.goal ?? '';
  $('r-done').value = at.done ?? '';
  for (const id of ['r-add', 'r-after', 'r-check', 'r-reason', 'r-iterations', 'r-parallel']) $(id).value = '';
  $('r-iterations').placeholder = at.limits?.max_iterations ?? '';
  $('r-parallel').placeholder = at.limits?.max_parallel_agents ?? '';
  $('r-redo').replaceChildren(...options(ids, wanted?.redo));
  $('r-remove').replaceChildren(...options(ids, wanted?.remove));
  const ways = Object.entries(at.groups ?? {}).flatMap(([name, group]) => group.choices.map((choice) => `${name}=${choice}`));
  $('r-select').replaceChildren(...options(ways, wanted?.select));
  back();
  say($('redirect-dialog'), null);
  $('redirect-dialog').showModal();
  if (wanted?.redo) $('r-reason').focus();
}
/** What the form asks for, as the verb takes it. */
function changes() {
  const at = target.head;
  const value = (id) => $(id).value.trim();
  const wanted = {};
  if (value('r-goal') && value('r-goal') !== (at.goal ?? '').trim()) wanted.goal = value('r-goal');
  if (value('r-done') && value('r-done') !== (at.done ?? '').trim()) wanted.done = value('r-done');
  if (value('r-add')) {
    const atom = { description: value('r-add'), depends_on: value('r-after').split(/[\s,]+/).filter(Boolean) };
    if (value('r-check')) atom.check = value('r-check');
    wanted.add = [atom];
  }
  if (value('r-redo')) wanted.redo = [value('r-redo')];
  if (value('r-remove')) wanted.remove = [value('r-remove')];
  if (value('r-select')) {
    const [group, atom] = value('r-select').split('=');
    wanted.select = [{ group, atom }];
  }
  const limits = {};
  if (value('r-iterations')) limits.max_iterations = Number(value('r-iterations'));
  if (value('r-parallel')) limits.max_parallel_agents = Number(value('r-parallel'));
  if (Object.keys(limits).length) wanted.set = limits;
  if (value('r-reason')) wanted.reason = value('r-reason');
  return wanted;
}
async function preview() {
  say($('redirect-dialog'), null);
  const answer = await busy($('redirect-dialog'), () => act(target, 'preview', changes()));
  if (answer.error) return say($('redirect-dialog'), problem(answer));
  $('difference').textContent = answer.preview.join('\n').trim() || 'Nothing is different.';
  $('preview').hidden = false;
  $('make').hidden = false;
  $('show-preview').classList.remove('primary');
  $('make').focus();
}
async function makeIt() {
  const answer = await busy($('redirect-dialog'), () => act(target, 'redirect', changes()));
  if (answer.error) return say($('redirect-dialog'), problem(answer));
  $('redirect-dialog').close();
  speak('The direction is changed');
}
/** What was previewed is not what the form says any more. */
function back() {
  $('preview').hidden = true;
  $('make').hidden = true;
  $('show-preview').classList.add('primary');
}

for (const dialog of document.querySelectorAll('dialog')) {
  dialog.querySelector('.cancel').addEventListener('click', () => dialog.close());
  dialog.querySelector('form').addEventListener('submit', (event) => {
    event.preventDefault();
    if (dialog.id === 'stop-dialog') stop(false);
    if (dialog.id === 'redirect-dialog') preview();
  });
}
$('redirect-dialog').addEventListener('input', back);
$('stop').addEventListener('click', askToStop);
$('stop-now').addEventListener('click', () => stop(true));
$('redirect').addEventListener('click', () => redirect());
$('make').addEventListener('click', makeIt);
$('help').addEventListener('click', () => $('help-dialog').showModal());
$('closer').addEventListener('click', () => zoom(1.3));
$('farther').addEventListener('click', () => zoom(1 / 1.3));
$('fit').addEventListener('click', () => fitAll());

function neighbour(by) {
  const at = order.indexOf(shown);
  show(order[(at + by + order.length) % order.length]);
}
const KEYS = {
  ArrowLeft: () => go(-1, 0), ArrowRight: () => go(1, 0), ArrowUp: () => go(0, -1), ArrowDown: () => go(0, 1),
  j: () => step(1), k: () => step(-1), Escape: close, s: askToStop, r: () => redirect(), '?': () => $('help-dialog').showModal(),
  '+': () => zoom(1.3), '-': () => zoom(1 / 1.3), 0: () => fitAll(), '[': () => neighbour(-1), ']': () => neighbour(1),
  Enter: () => { const one = loops.get(shown); if (one?.selected) open(one.selected); },
};
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (event.target.matches('input, textarea, select')) return;
  // A button that has the focus is pressed by Enter.
  if (event.key === 'Enter' && event.target.matches('button, summary')) return;
  // What can be scrolled is scrolled by the arrows.
  if (event.key.startsWith('Arrow') && event.target.closest('#side')) return;
  const key = KEYS[event.key];
  if (!key) return;
  event.preventDefault();
  key();
});

connect();
