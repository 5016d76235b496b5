// SPDX-License-Identifier: Apache-2.0
// The page of a profile: flame graph, time, functions. Names come from the sampled process: they reach the page as text
// (textContent, canvas) only. Runs in a page and in a standalone SVG picture alike.
(function () {
"use strict";
const XHTML = "http://www.w3.org/1999/xhtml", SVG = "http://www.w3.org/2000/svg";
const D = JSON.parse(document.getElementById("data").textContent), A = D.about;
const ROW = 19, SMALL = 0.7, TABLE_MOST = 1000, LANES_MOST = 64;
const PYTHON = 0, NATIVE = 1, MARK = 2;
const STATES = ["running", "holding the GIL", "waiting for the GIL", "idle"], IDLE = 3;

// ---- what was sampled -------------------------------------------------------------------------------------------------
const nodeCount = D.nodes.length / 2, nodeParent = new Int32Array(nodeCount), nodeFrame = new Int32Array(nodeCount);
for (let i = 0; i < nodeCount; i++) {
  nodeParent[i] = D.nodes[2 * i] - 1;
  nodeFrame[i] = D.nodes[2 * i + 1];
}
const isLibrary = file => /\/(site|dist)-packages\/|\/lib(64)?\/python\d|^<frozen/.test(file);
const shortFile = file => file.replace(/^.*\/(site|dist)-packages\//, "").replace(/^.*\/lib(64)?\/python\d[^/]*\//, "");
const baseName = file => file.slice(file.lastIndexOf("/") + 1);
const frames = D.frames.map(([name, file, line, first, kind, object]) => ({
  name, line, first, kind, file: D.files[file] || object, group: kind === PYTHON && isLibrary(D.files[file]) ? "library"
    : kind === PYTHON ? "own" : kind === NATIVE ? "native" : "mark",
}));
// A hint of lightness by name, to tell neighbours apart.
function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length && i < 200; i++)
    h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return (h ^ h >>> 15) >>> 0;
}
for (const f of frames)
  f.shade = hash(f.name) % 7 - 3;
// Functions: frames of one name and file (and first line, where it is known), whatever their line.
const functions = [], functionOf = new Int32Array(frames.length), functionIndex = new Map();
frames.forEach((f, i) => {
  const key = f.kind + "\0" + f.name + "\0" + f.file + "\0" + f.first;
  if (!functionIndex.has(key)) {
    functionIndex.set(key, functions.length);
    functions.push({ name: f.name, file: f.file, line: f.first, first: f.first, kind: f.kind, group: f.group, shade: f.shade });
  }
  functionOf[i] = functionIndex.get(key);
});
const tracks = D.tracks;
tracks.forEach((t, i) => {
  t.index = i;
  t.counts = t.sums || t.runs;
  t.samples = t.busy = 0;
  for (let r = 0; r < t.counts.length; r += 4) {
    t.samples += t.counts[r + 2];
    t.busy += t.counts[r + 3] === IDLE ? 0 : t.counts[r + 2];
  }
});
const allSamples = tracks.reduce((sum, t) => sum + t.samples, 0);
const statesSeen = [0, 0, 0, 0];
for (const t of tracks)
  for (let r = 0; r < t.counts.length; r += 4)
    statesSeen[t.counts[r + 3]] += t.counts[r + 2];

// ---- options ----------------------------------------------------------------------------------------------------------
const opt = { view: "graph", merge: "function", root: "top", start: "callers", colour: "kind", who: "all", state: "all", search: "" };

const wantedTracks = () => tracks.filter(t => opt.who === "all" || opt.who === "p" + t.pid || opt.who === "t" + t.index);
const wantedState = state => opt.state === "all" || opt.state === String(state);
const labels = () => opt.merge === "line" ? frames : functions;
const labelOf = node => opt.merge === "line" ? nodeFrame[node] : functionOf[nodeFrame[node]];
// A function that calls itself directly can be one box.
const folds = (label, above) => opt.merge === "folded" && label === above;

// ---- boxes: of each view, parents before children, rows sorted from left to right ----------------------------------------
function Boxes() {
  return { parent: [], label: [], row: [], x0: [], x1: [], self: [], states: [], rows: [], lanes: [], total: 0, width: 0 };
}

function addBox(v, parent, label, row, x0, x1) {
  const box = v.label.length;
  v.parent.push(parent);
  v.label.push(label);
  v.row.push(row);
  v.x0.push(x0);
  v.x1.push(x1);
  v.self.push(0);
  v.states.push(0);
  while (v.rows.length <= row)
    v.rows.push([]);
  v.rows[row].push(box);
  return box;
}

// Samples of the wanted threads and states that ended in each node; [state * nodeCount + node].
function ended() {
  const out = new Float64Array(4 * nodeCount);
  for (const t of wantedTracks())
    for (let r = 0; r < t.counts.length; r += 4)
      if (wantedState(t.counts[r + 3]))
        out[t.counts[r + 3] * nodeCount + t.counts[r]] += t.counts[r + 2];
  return out;
}

// The tree of labels; [0] is the root that holds all.
function tree() {
  const t = { parent: [-1], label: [-1], depth: [0], self: [0], total: [0], states: [[0, 0, 0, 0]] };
  const index = new Map(), width = labels().length + 1, counts = ended();
  const child = (parent, label) => {
    if (folds(label, t.label[parent]))
      return parent;
    const key = parent * width + label;
    let at = index.get(key);
    if (at === undefined) {
      at = t.label.length;
      index.set(key, at);
      t.parent.push(parent);
      t.label.push(label);
      t.depth.push(t.depth[parent] + 1);
      t.self.push(0);
      t.total.push(0);
      t.states.push([0, 0, 0, 0]);
    }
    return at;
  };
  const add = (at, node, self) => {
    for (let s = 0; s < 4; s++) {
      const n = counts[s * nodeCount + node];
      t.states[at][s] += n;
      t.total[at] += n;
      if (self)
        t.self[at] += n;
    }
  };
  if (opt.start === "callers") {
    const totals = new Float64Array(nodeCount), at = new Int32Array(nodeCount).fill(-1);
    for (let i = nodeCount - 1; i >= 0; i--) {
      for (let s = 0; s < 4; s++)
        totals[i] += counts[s * nodeCount + i];
      if (nodeParent[i] >= 0)
        totals[nodeParent[i]] += totals[i];
    }
    t.of = at;
    t.totals = totals;
    for (let i = 0; i < nodeCount; i++) {
      if (!totals[i])
        continue;
      at[i] = child(nodeParent[i] < 0 ? 0 : at[nodeParent[i]], labelOf(i));
      add(at[i], i, true);
    }
    for (let i = t.label.length - 1; i > 0; i--) {
      t.total[t.parent[i]] += t.total[i];
      for (let s = 0; s < 4; s++)
        t.states[t.parent[i]][s] += t.states[i][s];
    }
  } else {
    for (let i = 0; i < nodeCount; i++) {
      let n = 0;
      for (let s = 0; s < 4; s++)
        n += counts[s * nodeCount + i];
      if (!n)
        continue;
      add(0, i, false);
      for (let node = i, at = 0; node >= 0; node = nodeParent[node]) {
        const above = at;
        at = child(above, labelOf(node));
        if (at !== above)
          add(at, i, node === i);
      }
    }
  }
  return t;
}

function graphBoxes() {
  const t = tree(), n = t.label.length, v = Boxes(), L = labels();
  const first = new Int32Array(n).fill(-1), next = new Int32Array(n).fill(-1);
  for (let i = n - 1; i > 0; i--) {
    next[i] = first[t.parent[i]];
    first[t.parent[i]] = i;
  }
  v.total = v.width = t.total[0];
  const boxOf = new Int32Array(n), todo = n > 1 ? [[0, -1, 0]] : [];
  while (todo.length) {
    const [at, parent, x] = todo.pop();
    const box = addBox(v, parent, t.label[at], t.depth[at], x, x + t.total[at]);
    v.self[box] = t.self[at];
    v.states[box] = t.states[at];
    boxOf[at] = box;
    const below = [];
    for (let c = first[at]; c >= 0; c = next[c])
      below.push(c);
    below.sort((a, b) => t.total[b] - t.total[a] || (L[t.label[a]].name < L[t.label[b]].name ? -1 : 1));
    let right = x;
    const placed = below.map(c => { const p = [c, box, right]; right += t.total[c]; return p; });
    while (placed.length)
      todo.push(placed.pop()); // the leftmost is taken next: rows stay sorted
  }
  if (t.of) {
    v.nodeBox = t.of.map(at => at < 0 ? -1 : boxOf[at]);
    v.nodeTotals = t.totals;
  }
  return v;
}

// Where even idle threads are sampled, a tick without any is one that came late: no reason to part what stands around it.
function sampledTicks() {
  const seen = [];
  if (A.idle)
    for (const t of tracks)
      for (let r = 0; r < t.runs.length; r += 4)
        for (let tick = t.runs[r + 1]; tick < t.runs[r + 1] + t.runs[r + 2]; tick++)
          seen[tick] = 1;
  return seen;
}

// Main threads by rank, so that ranks stand beside one another; then the busiest.
function byLane(a, b) {
  const mainA = a.tid === a.pid, mainB = b.tid === b.pid;
  return mainB - mainA || (mainA ? a.rank - b.rank || a.pid - b.pid : b.busy - a.busy);
}

// A lane a thread: what it ran, sample after sample. Equal callers of two samples in a row are one box.
function timeBoxes() {
  const v = Boxes(), path = [], seen = sampledTicks();
  let row = 0;
  for (const t of wantedTracks().filter(x => x.runs.length).sort(byLane)) {
    if (v.lanes.length === LANES_MOST) {
      v.more = wantedTracks().length - LANES_MOST;
      break;
    }
    const open = [];
    let until = -1, deepest = 0;
    v.lanes.push({ row, name: [tracks.length > 1 && t.process, "thread " + t.tid + (t.thread ? " " + t.thread : "")].filter(Boolean).join(", ") });
    while (v.rows.length <= row)
      v.rows.push([]);
    for (let r = 0; r < t.runs.length; r += 4) {
      const node = t.runs[r], tick = t.runs[r + 1], end = tick + t.runs[r + 2], state = t.runs[r + 3];
      if (!wantedState(state))
        continue;
      path.length = 0;
      for (let at = node; at >= 0; at = nodeParent[at])
        if (nodeParent[at] < 0 || !folds(labelOf(at), labelOf(nodeParent[at])))
          path.push(at);
      path.reverse();
      let same = 0;
      while (A.idle && until >= 0 && until < tick && !seen[until])
        until++;
      if (tick === until)
        while (same < path.length && same < open.length && v.label[open[same]] === labelOf(path[same]))
          same++;
      open.length = same;
      for (let d = same; d < path.length; d++)
        open.push(addBox(v, d ? open[d - 1] : -1, labelOf(path[d]), row + 1 + d, tick, end));
      for (const box of open) {
        v.x1[box] = end;
        v.states[box] = v.states[box] || [0, 0, 0, 0];
        v.states[box][state] += end - tick;
      }
      if (open.length)
        v.self[open[open.length - 1]] += end - tick;
      until = end;
      deepest = Math.max(deepest, path.length);
      v.total += end - tick;
      v.width = Math.max(v.width, end);
    }
    row += deepest + 2;
  }
  return v;
}

// ---- the page ---------------------------------------------------------------------------------------------------------
function el(tag, attributes, ...children) {
  const e = document.createElementNS(XHTML, tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name.startsWith("on"))
      e.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null)
      e.setAttribute(name, value === true ? "" : value);
  e.append(...children.filter(c => c !== null && c !== false));
  return e;
}
const samples = n => number(n) + (n === 1 ? " sample" : " samples");
const number = n => Math.round(n).toLocaleString("en-US");
const percent = (part, whole) => {
  const p = whole ? 100 * part / whole : 0;
  return (p >= 99.95 || p === 0 ? p.toFixed(0) : p >= 10 ? p.toFixed(1) : p.toFixed(2)) + " %";
};
const duration = s => s >= 100 ? s.toFixed(0) + " s" : s >= 10 ? s.toFixed(1) + " s" : s >= 1 ? s.toFixed(2) + " s" : (1000 * s).toFixed(s < 0.01 ? 1 : 0) + " ms";
const lasting = samples => duration(samples * A.sample_seconds); // those that came late were left out: the others stand for them
const between = ticks => duration(ticks * A.every / A.rate); // of the view of time, where they are gaps
const place = f => f.file ? shortFile(f.file) + (f.line > 0 ? ":" + f.line : "") : "";

function mount() {
  const picture = document.getElementById("picture");
  const alone = document.documentElement.namespaceURI === SVG;
  if (!alone) {
    picture.remove();
    return document.body;
  }
  const root = document.documentElement, holder = document.createElementNS(SVG, "foreignObject");
  for (const child of [...root.children])
    if (!["script", "style"].includes(child.localName))
      child.remove();
  root.removeAttribute("viewBox");
  const fit = () => {
    for (const e of [root, holder]) {
      e.setAttribute("width", window.innerWidth);
      e.setAttribute("height", window.innerHeight);
    }
  };
  window.addEventListener("resize", fit);
  fit();
  root.append(holder);
  return holder;
}

function facts() {
  const out = [], threads = tracks.length;
  out.push(A.name + (A.processes > 1 ? " and " + (A.processes - 1) + " more" : ""));
  out.push(A.rate + " samples/s for " + (A.seconds >= 10 ? A.seconds.toFixed(1) : A.seconds.toFixed(2)) + " s");
  out.push(number(allSamples) + (allSamples === 1 ? " stack" : " stacks") + " of " + threads + (threads === 1 ? " thread" : " threads") +
    (A.gil ? " that held the GIL" : A.idle ? ", idle ones too" : " that ran"));
  if (A.stacks)
    out.push("moved while read " + percent(A.unstable, A.stacks) + ", not readable " + percent(A.unreadable, A.stacks));
  if (A.late)
    out.push(samples(A.late) + " came late, left out");
  if (A.start_ms > 0)
    out.push(new Date(A.start_ms).toISOString().slice(0, 16).replace("T", " ") + " UTC");
  out.push(A.exporter);
  return out;
}

const scroll = el("div", { class: "scroll", tabindex: "0", role: "application", "aria-label": "Stacks as boxes; arrow keys move, Enter zooms, Escape goes back" });
const canvas = el("canvas", { "aria-hidden": "true" }), spacer = el("div");
scroll.append(canvas, spacer);
const ctx = canvas.getContext("2d");
const tableHolder = el("div", { class: "scroll", hidden: true });
const empty = el("div", { class: "empty", hidden: true });
const found = el("span", { class: "found", id: "found", role: "status" });
const note = el("p", { class: "note", id: "note" });
const details = el("div", { id: "details", "aria-live": "polite" });
const legend = el("div", { class: "legend", "aria-hidden": "true" });
const searchField = el("input", { type: "search", id: "search", placeholder: "Search: name, file or /regex/", "aria-label": "Search functions and files", oninput: () => { opt.search = searchField.value; search(); } });
const back = el("button", { id: "reset", type: "button", title: "Escape goes back one step", onclick: () => zoomOut(true) }, "Reset zoom");
const tabs = {};

function tab(view, text, title) {
  tabs[view] = el("button", { type: "button", id: "view-" + view, title, onclick: () => { opt.view = view; rebuild(); } }, text);
  return tabs[view];
}

function choice(name, text, values) {
  const select = el("select", { id: "choose-" + name, onchange: () => { opt[name] = select.value; rebuild(); } },
    ...values.map(([value, label]) => el("option", { value }, label)));
  return el("label", { class: "group" }, text, select);
}

function threadChoices() {
  const out = [["all", "all threads"]], processes = new Map();
  for (const t of tracks)
    processes.set(t.pid, t.process || "process " + t.pid);
  if (processes.size > 1)
    for (const [pid, name] of processes)
      out.push(["p" + pid, name]);
  for (const t of [...tracks].sort((a, b) => b.busy - a.busy))
    out.push(["t" + t.index, (processes.size > 1 ? (t.process || "process " + t.pid) + ", " : "") + "thread " + t.tid + " " + t.thread]);
  return out;
}

const choices = {
  merge: choice("merge", "a box is a", [["function", "function"], ["folded", "folded recursion"], ["line", "line"]]),
  start: choice("start", "from", [["callers", "callers to callees"], ["callees", "callees to callers"]]),
  root: choice("root", "root", [["top", "on top"], ["bottom", "at the bottom"]]),
  colour: choice("colour", "colour by", [["kind", "kind of code"], ["state", "state"], ["file", "file"]]),
  who: choice("who", "of", threadChoices()),
  state: choice("state", "in state", [["all", "any"], ...STATES.map((s, i) => [String(i), s]).filter((s, i) => statesSeen[i])]),
};
choices.who.hidden = tracks.length < 2;
choices.state.hidden = statesSeen.filter(Boolean).length < 2;

const app = el("div", { class: "al" },
  el("header", null, el("h1", { title: A.command || A.name }, A.command || A.name),
    el("p", { class: "facts", id: "facts" }, ...facts().map(f => el("span", null, f)))),
  el("div", { class: "bar" },
    el("span", { class: "tabs", role: "group", "aria-label": "View" },
      tab("graph", "Flame graph", "Where the time went: equal stacks put together (key 1)"),
      tab("time", "Time", "What ran when, sample after sample: a flame chart (key 2)"),
      tab("functions", "Functions", "A table (key 3)")),
    el("span", { class: "group" }, searchField, found), back),
  el("div", { class: "bar" }, ...Object.values(choices)),
  note, el("div", { class: "stage" }, scroll, tableHolder, empty),
  el("footer", null, el("div", { class: "foot" }, details, legend)));
mount().append(app);

// ---- what is shown ----------------------------------------------------------------------------------------------------
let boxes = Boxes(), win = [0, 1], history = [], hovered = -1, cursor = -1, hits = null;

const flipped = () => opt.view === "graph" && opt.root === "bottom";
const rowTop = row => (flipped() ? boxes.rows.length - 1 - row : row) * ROW + (opt.view === "time" ? 20 : 4);
const height = () => boxes.rows.length * ROW + (opt.view === "time" ? 24 : 8);

function rebuild() {
  const view = opt.view;
  for (const [name, button] of Object.entries(tabs))
    button.setAttribute("aria-pressed", String(name === view));
  choices.root.hidden = view !== "graph";
  choices.start.hidden = view !== "graph";
  choices.colour.hidden = view === "functions";
  choices.merge.hidden = view === "functions";
  tableHolder.hidden = view !== "functions";
  scroll.hidden = view === "functions";
  legend.hidden = view === "functions";
  if (view === "functions") {
    boxes = Boxes();
    fillTable();
  } else {
    boxes = view === "graph" ? graphBoxes() : timeBoxes();
  }
  win = [0, boxes.width || 1];
  history = [];
  hovered = cursor = -1;
  spacer.style.height = "0";
  empty.hidden = view === "functions" || boxes.label.length > 0;
  empty.textContent = !allSamples ? "No sample: no thread was seen " + (A.gil ? "with the GIL" : "running") + ". alula profile --idle also counts those that sleep or wait."
    : view === "time" && A.disordered ? "The order of these many samples was not kept; the flame graph holds their counts." : "Nothing with this choice.";
  tell();
  tellHint();
  search();
  resize();
  if (flipped())
    scroll.scrollTop = scroll.scrollHeight;
}

function tell() {
  const shown = opt.view === "functions" ? tableTotal : boxes.total, parts = [], warn = text => parts.push(el("span", { class: "warn" }, " " + text));
  if (opt.view === "graph")
    parts.push(opt.start === "callers" ? "Flame graph: width is the share of samples, a box hangs on its caller; left to right is not time. " : "Flame graph from the other end: each function that was running, then who called it; width is the share of samples. ");
  else if (opt.view === "time")
    parts.push("Flame chart: left to right is time, what each thread ran at each sample; where nothing is drawn it was not sampled. ");
  else
    parts.push("Self: samples in the function itself. Total: with what it called. ");
  parts.push("Shown: ", samples(shown) + ", " + lasting(shown * (opt.view === "time" ? A.every : 1)) + " of threads' time.");
  if (A.rare)
    warn(samples(A.rare) + " (" + percent(A.rare, allSamples) + ") of stacks too rare to be held one by one: [rarer stacks].");
  if (opt.view === "time" && A.every > 1)
    warn("There were too many samples for a picture: one of every " + A.every + " is shown.");
  if (opt.view === "time" && boxes.more > 0)
    warn(boxes.more + " threads with fewer samples are not drawn; choose one.");
  if (opt.view === "functions" && tableMore > 0)
    warn(number(tableMore) + " more functions are not listed; search for them.");
  note.replaceChildren(...parts);
}

// ---- search -----------------------------------------------------------------------------------------------------------
function matcher(text) {
  if (!text)
    return null;
  const regex = /^\/(.+)\/$/.exec(text);
  if (regex) {
    try {
      const r = new RegExp(regex[1], "i");
      return f => r.test(f.name) || r.test(f.file);
    } catch (e) {
      return () => false;
    }
  }
  const wanted = text.toLowerCase();
  return f => f.name.toLowerCase().includes(wanted) || f.file.toLowerCase().includes(wanted);
}

const samplesIn = box => boxes.states[box].reduce((sum, n) => sum + n, 0);

function search() {
  const match = matcher(opt.search.trim());
  hits = null;
  found.textContent = "";
  if (opt.view === "functions") {
    fillTable();
    tell();
    return;
  }
  if (match) {
    hits = Uint8Array.from(labels(), f => match(f) ? 1 : 0);
    const covered = new Uint8Array(boxes.label.length);
    let share = 0, many = 0;
    for (let i = 0; i < boxes.label.length; i++) {
      const hit = boxes.label[i] >= 0 && hits[boxes.label[i]], above = boxes.parent[i] >= 0 && covered[boxes.parent[i]];
      many += hit ? 1 : 0;
      covered[i] = hit || above ? 1 : 0;
      if (hit && !above)
        share += samplesIn(i);
    }
    found.textContent = many ? percent(share, boxes.total) + " of samples match" : "no match";
  }
  draw();
}

function nextHit(step) {
  if (!hits)
    return;
  const n = boxes.label.length;
  for (let i = 1; i <= n; i++) {
    const box = ((cursor < 0 ? (step > 0 ? -1 : 0) : cursor) + step * i + 2 * n) % n;
    if (boxes.label[box] >= 0 && hits[boxes.label[box]]) {
      moveTo(box);
      return;
    }
  }
}

// ---- colours ----------------------------------------------------------------------------------------------------------
const darkQuery = window.matchMedia("(prefers-color-scheme: dark)");
const hue = new Map();
const PALETTE = { // hue, saturation and lightness in light and in dark
  own: [36, 82, 74, 34, 50, 38], library: [212, 40, 84, 212, 26, 33], native: [268, 42, 85, 268, 24, 38], mark: [45, 10, 85, 45, 6, 27],
  idle: [195, 16, 91, 200, 8, 23], s0: [152, 36, 76, 152, 26, 33], s1: [36, 82, 74, 34, 50, 38], s2: [6, 72, 79, 6, 42, 42], s3: [195, 16, 91, 200, 8, 23],
};
const NAMES = { own: "own Python code", library: "Python library", native: "native code", mark: "no code", idle: "mostly idle", s0: STATES[0], s1: STATES[1], s2: STATES[2], s3: STATES[3] };
function tone([h, s, l, dh, ds, dl], jitter) {
  return darkQuery.matches ? `hsl(${dh},${ds}%,${dl + jitter}%)` : `hsl(${h},${s}%,${l + jitter}%)`;
}

function groupOf(box) {
  const f = boxes.label[box] < 0 ? null : labels()[boxes.label[box]], states = boxes.states[box];
  let most = 0;
  for (let s = 1; s < 4; s++)
    most = states[s] > states[most] ? s : most;
  if (!f)
    return "mark";
  return opt.colour === "state" ? "s" + most : f.group !== "mark" && most === IDLE && statesSeen[0] + statesSeen[1] + statesSeen[2] > 0 ? "idle" : f.group;
}

function colourOf(box) {
  const f = boxes.label[box] < 0 ? null : labels()[boxes.label[box]];
  if (opt.colour === "file" && f && f.file) {
    if (!hue.has(f.file))
      hue.set(f.file, hash(f.file) % 360);
    return tone([hue.get(f.file), 45, 80, hue.get(f.file), 28, 36], 0);
  }
  return tone(PALETTE[groupOf(box)], f && opt.colour !== "state" ? f.shade : 0);
}

function fillLegend(groups) {
  const items = opt.colour === "file" ? [] : Object.keys(NAMES).filter(g => groups.has(g)).map(g => {
    const swatch = el("i");
    swatch.style.background = tone(PALETTE[g], 0);
    return el("span", null, swatch, NAMES[g]);
  });
  legend.replaceChildren(...items);
}

// ---- drawing ----------------------------------------------------------------------------------------------------------
let wide = 0, high = 0, letter = 6.6;
const FONT = '11.5px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';

function resize() {
  wide = scroll.clientWidth;
  high = scroll.clientHeight;
  if (!wide || !high)
    return;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(high * ratio);
  canvas.style.width = wide + "px";
  canvas.style.height = high + "px";
  spacer.style.height = Math.max(0, height() - high) + "px";
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.font = FONT;
  letter = ctx.measureText("MMMMMMMMMM").width / 10;
  draw();
}

const HALF = /[\ud800-\udbff]$/; // of a letter that takes two places
const cut = (text, room) => text.length <= room ? text : room < 3 ? "" : text.slice(0, room - 1).replace(HALF, "") + "\u2026";

// The first of the row that ends behind x.
function firstAfter(row, x, from) {
  let low = from, up = row.length;
  while (low < up) {
    const mid = low + up >> 1;
    if (boxes.x1[row[mid]] > x)
      up = mid;
    else
      low = mid + 1;
  }
  return low;
}

function drawBox(box, x, y, w, colours) {
  const f = boxes.label[box] < 0 ? null : labels()[boxes.label[box]];
  const hit = hits && f && hits[boxes.label[box]];
  const left = Math.max(x, 0), room = Math.min(x + w, wide) - left;
  ctx.globalAlpha = hits && !hit ? 0.42 : 1;
  ctx.fillStyle = hit ? colours.hit : colourOf(box);
  ctx.fillRect(left, y, Math.max(room - (w > 2 ? 1 : 0), 0.5), ROW - 1);
  if (f)
    colours.groups.add(groupOf(box));
  if (room < 4 * letter)
    return;
  const letters = Math.floor((room - 7) / letter);
  const name = f ? f.name : "all: " + samples(boxes.total), n = boxes.x1[box] - boxes.x0[box];
  const where = [f && opt.merge === "line" && f.line > 0 && baseName(f.file) + ":" + f.line,
    f && (opt.view === "time" ? between(n) : percent(n, boxes.total))].filter(Boolean).join("  ");
  ctx.fillStyle = colours.text;
  ctx.fillText(cut(name, letters), left + 4, y + ROW / 2, room - 6);
  if (where && letters > name.length + where.length + 2) {
    ctx.globalAlpha *= 0.6;
    ctx.fillText(where, left + 4 + (name.length + 2) * letter, y + ROW / 2, room);
  }
}

function drawRow(row, y, colours) {
  const scale = wide / (win[1] - win[0]), list = boxes.rows[row];
  for (let i = firstAfter(list, win[0], 0); i < list.length && boxes.x0[list[i]] < win[1];) {
    const box = list[i], x = (boxes.x0[box] - win[0]) * scale, w = (boxes.x1[box] - boxes.x0[box]) * scale;
    if (w >= SMALL) {
      drawBox(box, x, y, w, colours);
      i++;
      continue;
    }
    // Too narrow to be seen: what follows within this pixel is one mark.
    const pixel = Math.floor(x) + 1, next = firstAfter(list, win[0] + pixel / scale, i + 1);
    ctx.globalAlpha = hits ? 0.3 : 0.8;
    ctx.fillStyle = colourOf(box);
    colours.groups.add(groupOf(box));
    for (let k = i; hits && k < Math.min(next, i + 200); k++)
      if (hits[boxes.label[list[k]]]) {
        ctx.globalAlpha = 1;
        ctx.fillStyle = colours.hit;
        break;
      }
    ctx.fillRect(Math.floor(x), y, 1, ROW - 1);
    i = next;
  }
}

function outline(box, colour, thick) {
  if (box < 0)
    return;
  const scale = wide / (win[1] - win[0]), x = (boxes.x0[box] - win[0]) * scale, w = (boxes.x1[box] - boxes.x0[box]) * scale;
  const left = Math.max(x, 0), right = Math.min(x + w - (w > 2 ? 1 : 0), wide);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colour;
  ctx.lineWidth = thick;
  ctx.strokeRect(left + thick / 2, rowTop(boxes.row[box]) - scroll.scrollTop + thick / 2, Math.max(right - left - thick, 1), ROW - 1 - thick);
}

function drawRuler(colours) {
  const perSecond = A.rate / A.every, span = (win[1] - win[0]) / perSecond, wish = span / (wide / 110);
  const power = Math.pow(10, Math.floor(Math.log10(wish))), step = [1, 2, 5, 10].map(x => x * power).find(x => x >= wish) || power * 10;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  ctx.globalAlpha = 1;
  ctx.fillStyle = colours.back;
  ctx.fillRect(0, 0, wide, 18);
  for (let s = Math.ceil(win[0] / perSecond / step) * step; s <= win[1] / perSecond; s += step) {
    const x = (s * perSecond - win[0]) / (win[1] - win[0]) * wide;
    ctx.fillStyle = colours.line;
    ctx.fillRect(Math.round(x), 0, 1, 18);
    ctx.fillStyle = colours.dim;
    ctx.fillText(s.toFixed(digits) + " s", x + 4, 9);
  }
}

let drawing = false;
function draw() {
  if (!drawing) {
    drawing = true;
    requestAnimationFrame(() => { drawing = false; drawNow(); });
  }
}

function drawNow() {
  if (opt.view === "functions" || !wide)
    return;
  const style = getComputedStyle(app), value = name => style.getPropertyValue(name).trim();
  const dark = darkQuery.matches, colours = {
    back: value("--bg"), text: dark ? "#f0f0f0" : "#1d1f23", dim: value("--dim"), line: value("--line"), accent: value("--accent"),
    hit: dark ? "hsl(325,55%,46%)" : "hsl(325,78%,76%)", groups: new Set(),
  };
  ctx.globalAlpha = 1;
  ctx.fillStyle = colours.back;
  ctx.fillRect(0, 0, wide, high);
  ctx.font = FONT;
  ctx.textBaseline = "middle";
  for (let row = 0; row < boxes.rows.length; row++) {
    const y = rowTop(row) - scroll.scrollTop;
    if (y > -ROW && y < high)
      drawRow(row, y, colours);
  }
  ctx.globalAlpha = 1;
  for (const lane of boxes.lanes) {
    ctx.fillStyle = colours.dim;
    ctx.fillText(cut(lane.name, Math.floor(wide / letter)), 4, rowTop(lane.row) - scroll.scrollTop + ROW / 2);
  }
  outline(hovered, colours.text, 1);
  outline(cursor, colours.accent, 2);
  if (opt.view === "time")
    drawRuler(colours);
  fillLegend(colours.groups);
  back.disabled = win[0] <= 0 && win[1] >= boxes.width;
}

// ---- zoom, pointer and keys -------------------------------------------------------------------------------------------
function show(x0, x1) {
  const least = Math.min(boxes.width, 1e-3 * boxes.width / (boxes.width + 1) || 1e-6);
  const size = Math.min(Math.max(x1 - x0, least), boxes.width || 1), left = Math.min(Math.max(x0, 0), (boxes.width || 1) - size);
  win = [left, left + size];
  draw();
}

function zoomTo(box) {
  if (box < 0 || boxes.x1[box] <= boxes.x0[box])
    return;
  if (win[0] !== boxes.x0[box] || win[1] !== boxes.x1[box])
    history.push(win);
  show(boxes.x0[box], boxes.x1[box]);
  tellBox(box);
}

function zoomOut(whole) {
  const last = whole ? null : history.pop();
  if (whole)
    history = [];
  last ? show(last[0], last[1]) : show(0, boxes.width);
}

function boxAt(x, y) {
  const at = Math.floor((y + scroll.scrollTop - (opt.view === "time" ? 20 : 4)) / ROW), row = flipped() ? boxes.rows.length - 1 - at : at;
  const list = boxes.rows[row];
  if (!list || (opt.view === "time" && y < 18))
    return -1;
  const value = win[0] + x / wide * (win[1] - win[0]), i = firstAfter(list, value, 0);
  return i < list.length && boxes.x0[list[i]] <= value ? list[i] : -1;
}

const tellHint = () => details.replaceChildren(el("div", { class: "hint" }, opt.view === "functions"
  ? "A click on a function shows it in the flame graph, one on a heading sorts, / searches, 1 2 3 change the view."
  : "Click or Enter zooms, Escape goes back, arrow keys move, / searches, n and N go to the next and last match, + and \u2212 zoom, 1 2 3 change the view."));

// Lines of the function in this box, of the samples below it.
function linesOf(box) {
  if (opt.merge === "line" || !boxes.nodeBox || boxes.label[box] < 0)
    return "";
  const lines = new Map();
  for (let i = 0; i < nodeCount; i++) {
    const line = boxes.nodeBox[i] === box ? frames[nodeFrame[i]].line : 0;
    if (line > 0 && (nodeParent[i] < 0 || boxes.nodeBox[nodeParent[i]] !== box)) // of recursion in one box, the outermost
      lines.set(line, (lines.get(line) || 0) + boxes.nodeTotals[i]);
  }
  const whole = boxes.x1[box] - boxes.x0[box], sorted = [...lines].sort((a, b) => b[1] - a[1]);
  return sorted.length ? (sorted.length === 1 ? "line " : "lines ") + sorted.slice(0, 5).map(([line, n]) => line + " (" + percent(n, whole) + ")").join(", ") + (sorted.length > 5 ? ", ..." : "") : "";
}

function tellBox(box) {
  if (box < 0) {
    tellHint();
    return;
  }
  const f = boxes.label[box] < 0 ? null : labels()[boxes.label[box]], n = samplesIn(box);
  const states = boxes.states[box], spread = STATES.map((s, i) => [s, states[i]]).filter(s => s[1]);
  const numbers = opt.view === "time"
    ? "from " + between(boxes.x0[box]) + " to " + between(boxes.x1[box]) + ": " + between(boxes.x1[box] - boxes.x0[box]) + ", " + samples(n) + ", itself " + number(boxes.self[box])
    : samples(n) + ", " + lasting(n) + ", " + percent(n, boxes.total) + (boxes.total !== allSamples ? " of what is shown" : "") +
      "; itself " + number(boxes.self[box]) + ", " + percent(boxes.self[box], boxes.total) +
      (boxes.parent[box] > 0 ? "; " + percent(n, boxes.x1[boxes.parent[box]] - boxes.x0[boxes.parent[box]]) + " of its " + (opt.start === "callers" ? "caller" : "callee") : "");
  const more = [linesOf(box), spread.length > 1 ? spread.map(([s, m]) => s + " " + percent(m, n)).join(", ") : ""].filter(Boolean).join("; ");
  details.replaceChildren(
    el("div", { class: "who" }, el("b", null, f ? f.name : "all"), f && f.file ? el("span", null, "  " + f.file + (f.line > 0 ? ":" + f.line : "")) : ""),
    el("div", null, numbers), el("div", { class: "lines" }, more));
}

function hover(box) {
  if (box === hovered)
    return;
  hovered = box;
  canvas.style.cursor = box < 0 ? "default" : "pointer";
  tellBox(box < 0 ? cursor : box);
  draw();
}

function moveTo(box) {
  if (box < 0 || box === undefined)
    return;
  cursor = box;
  if (boxes.x1[box] <= win[0] || boxes.x0[box] >= win[1]) { // out of sight: its surroundings come into view
    const parent = boxes.parent[box] >= 0 ? boxes.parent[box] : box;
    history.push(win);
    show(boxes.x0[parent], boxes.x1[parent]);
  }
  const y = rowTop(boxes.row[box]);
  if (y < scroll.scrollTop + 20)
    scroll.scrollTop = y - 20;
  else if (y + ROW > scroll.scrollTop + high)
    scroll.scrollTop = y + ROW - high;
  tellBox(box);
  draw();
}

function neighbour(step) {
  const list = boxes.rows[boxes.row[cursor]];
  return list[firstAfter(list, boxes.x0[cursor], 0) + step];
}

function childOf(box) {
  const list = boxes.rows[boxes.row[box] + 1];
  const i = list ? firstAfter(list, Math.max(boxes.x0[box], win[0]), 0) : 0;
  return list && i < list.length && boxes.x0[list[i]] < boxes.x1[box] ? list[i] : -1;
}

function zoomBy(factor, around) {
  const at = around === undefined ? (win[0] + win[1]) / 2 : around, left = at - (at - win[0]) * factor;
  show(left, left + (win[1] - win[0]) * factor);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey)
    return;
  const typing = ["INPUT", "SELECT"].includes(event.target.nodeName.toUpperCase());
  if (event.key === "Escape") {
    typing ? scroll.focus() : zoomOut(false);
  } else if (typing) {
    if (event.key === "Enter" && event.target === searchField) {
      scroll.focus();
      nextHit(1);
    }
    return;
  } else if (event.key === "/") {
    searchField.focus();
    searchField.select();
  } else if (["1", "2", "3"].includes(event.key)) {
    tabs[["graph", "time", "functions"][event.key - 1]].click();
  } else if (opt.view === "functions") {
    return;
  } else if (event.key === "n" || event.key === "N") {
    nextHit(event.key === "n" ? 1 : -1);
  } else if (event.key === "+" || event.key === "=" || event.key === "-") {
    zoomBy(event.key === "-" ? 1.5 : 1 / 1.5, cursor >= 0 ? (boxes.x0[cursor] + boxes.x1[cursor]) / 2 : undefined);
  } else if (event.target === scroll) {
    if (!onArrow(event.key))
      return;
  } else {
    return;
  }
  event.preventDefault();
}

function onArrow(key) {
  if (!["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter", "Home"].includes(key) || !boxes.label.length)
    return false;
  if (cursor < 0 || key === "Home")
    moveTo(0);
  else if (key === "Enter")
    zoomTo(cursor);
  else if (key === "ArrowLeft" || key === "ArrowRight")
    moveTo(neighbour(key === "ArrowLeft" ? -1 : 1));
  else
    moveTo((key === "ArrowDown") !== flipped() ? childOf(cursor) : boxes.parent[cursor]);
  return true;
}

let drag = null;
canvas.addEventListener("pointerdown", e => {
  if (e.button === 0)
    drag = { x: e.clientX, y: e.clientY, win, top: scroll.scrollTop, moved: false };
});
window.addEventListener("pointermove", e => {
  if (drag) {
    const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
    drag.moved = drag.moved || Math.abs(dx) + Math.abs(dy) > 4;
    if (drag.moved) {
      const by = dx / wide * (drag.win[1] - drag.win[0]);
      scroll.scrollTop = drag.top - dy;
      show(drag.win[0] - by, drag.win[1] - by);
    }
    return;
  }
  const area = canvas.getBoundingClientRect();
  hover(e.target === canvas ? boxAt(e.clientX - area.left, e.clientY - area.top) : -1);
});
window.addEventListener("pointerup", e => {
  const moved = drag && drag.moved, here = drag && e.target === canvas;
  drag = null;
  if (!here || moved)
    return;
  const area = canvas.getBoundingClientRect(), box = boxAt(e.clientX - area.left, e.clientY - area.top);
  scroll.focus({ preventScroll: true });
  if (box >= 0) {
    cursor = box;
    zoomTo(box);
  }
});
canvas.addEventListener("wheel", e => {
  if (!e.ctrlKey && !e.metaKey && !e.shiftKey)
    return;
  e.preventDefault();
  const area = canvas.getBoundingClientRect();
  zoomBy(Math.pow(1.002, e.deltaY || e.deltaX), win[0] + (e.clientX - area.left) / wide * (win[1] - win[0]));
}, { passive: false });
scroll.addEventListener("scroll", draw);
window.addEventListener("resize", resize);
window.addEventListener("keydown", onKey);
darkQuery.addEventListener("change", draw);

// ---- functions --------------------------------------------------------------------------------------------------------
let tableTotal = 0, tableMore = 0, sortBy = "self";

function functionShares() {
  const self = new Float64Array(functions.length), total = new Float64Array(functions.length), counts = ended();
  const sums = new Float64Array(nodeCount);
  let all = 0;
  for (let i = nodeCount - 1; i >= 0; i--) {
    let n = 0;
    for (let s = 0; s < 4; s++)
      n += counts[s * nodeCount + i];
    all += n;
    self[functionOf[nodeFrame[i]]] += n;
    sums[i] += n;
    if (nodeParent[i] >= 0)
      sums[nodeParent[i]] += sums[i];
  }
  for (let i = 0; i < nodeCount; i++) {
    if (!sums[i])
      continue;
    const f = functionOf[nodeFrame[i]];
    let above = nodeParent[i];
    while (above >= 0 && functionOf[nodeFrame[above]] !== f)
      above = nodeParent[above];
    if (above < 0) // recursion counts once
      total[f] += sums[i];
  }
  return { self, total, all };
}

function fillTable() {
  const { self, total, all } = functionShares(), match = matcher(opt.search.trim());
  const order = functions.map((f, i) => i).filter(i => total[i] && (!match || match(functions[i])));
  const value = sortBy === "self" ? self : total, other = sortBy === "self" ? total : self;
  if (sortBy === "name")
    order.sort((a, b) => functions[a].name < functions[b].name ? -1 : 1);
  else
    order.sort((a, b) => value[b] - value[a] || other[b] - other[a]);
  tableTotal = all;
  tableMore = order.length - TABLE_MOST;
  found.textContent = match ? number(order.length) + (order.length === 1 ? " function" : " functions") : "";
  const head = (name, text, className) => el("th", { class: className, "aria-sort": sortBy === name ? (name === "name" ? "ascending" : "descending") : "none" },
    el("button", { type: "button", onclick: () => { sortBy = name; fillTable(); } }, text + (sortBy === name ? (name === "name" ? " \u2191" : " \u2193") : "")));
  const share = n => {
    const bar = el("i");
    bar.style.width = (all ? 100 * n / all : 0) + "%";
    return el("td", { class: "n" }, percent(n, all), el("span", { class: "meter" }, bar));
  };
  tableHolder.replaceChildren(el("table", null,
    el("thead", null, el("tr", null, head("self", "Self", "n"), el("th", { class: "n count" }, "Samples"), head("total", "Total", "n"), el("th", { class: "n count" }, "Samples"), head("name", "Function", ""))),
    el("tbody", null, ...order.slice(0, TABLE_MOST).map(i => el("tr", null, share(self[i]), el("td", { class: "n count" }, number(self[i])), share(total[i]), el("td", { class: "n count" }, number(total[i])),
      el("td", { class: "f" }, el("button", { type: "button", title: "Show it in the flame graph", onclick: () => showFunction(i) }, functions[i].name), el("span", null, place(functions[i]))))))));
}

function showFunction(i) {
  searchField.value = opt.search = functions[i].name;
  opt.view = "graph";
  rebuild();
  scroll.focus();
  nextHit(1);
}

tellHint();
rebuild();
})();
