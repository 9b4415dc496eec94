"use strict";
// Shows what /api/search and /api/info answer. Document text is only ever set as text, never as HTML.

const found = document.getElementById("found");
const bases = document.getElementById("bases");
const choice = document.getElementById("kb");
let latest = 0; // number of the search whose answer is shown

function make(tag, content = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = content;
  if (className) element.className = className;
  return element;
}

async function ask(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  const value = await answer.json().catch(() => ({ error: `the server answered ${answer.status}` }));
  if (!answer.ok) throw new Error(value.error || `the server answered ${answer.status}`);
  return value;
}

function marked(text, terms) {
  const pre = make("pre");
  const low = text.toLowerCase();
  const hits = new Uint8Array(text.length); // 1 for a character that is marked: pairs of Korean syllables overlap
  for (const term of low.length === text.length ? terms : []) {
    for (let at = term.length > 1 ? low.indexOf(term) : -1; at >= 0; at = low.indexOf(term, at + 1)) {
      hits.fill(1, at, at + term.length);
    }
  }
  for (let from = 0, at = 1; at <= text.length; at++) {
    if (at < text.length && hits[at] === hits[from]) continue;
    const part = text.slice(from, at);
    pre.append(hits[from] ? make("mark", part) : document.createTextNode(part));
    from = at;
  }
  return pre;
}

function hit(result) {
  const article = make("article");
  const name = result.source_path.split(/[\\/]/).pop();
  article.append(make("h3", result.location ? `${name}, ${result.location}` : name));
  article.append(make("div", `${result.source_path} · ${result.kb_id} · score ${result.score.toFixed(2)}`, "soft"));
  const why = result.explanation || { legs: [], terms: {}, cosine: null };
  article.append(marked(result.content, Object.keys(why.terms)));
  const details = make("details");
  details.append(make("summary", "Why it is here", "soft"));
  const list = make("ul", "", "soft");
  list.append(make("li", `found by ${why.legs.join(", ") || "nothing"}`));
  for (const [term, part] of Object.entries(why.terms)) list.append(make("li", `“${term}” ${part}`));
  if (why.cosine !== null) list.append(make("li", `closeness of meaning ${why.cosine}`));
  list.append(make("li", `passage ${result.chunk_index + 1} of ${result.total_chunks}, ${result.chunk_id}`));
  details.append(list);
  article.append(details);
  return article;
}

async function search(event) {
  event.preventDefault();
  const number = ++latest;
  const asked = new URLSearchParams(new FormData(event.target));
  if (!asked.get("q").trim()) return found.replaceChildren();
  found.setAttribute("aria-busy", "true");
  let shown;
  try {
    const answer = await ask(`/api/search?${asked}`);
    const count = answer.results.length;
    const how = `${count} ${count === 1 ? "passage" : "passages"} (${answer.search_mode}: ${answer.search_mode_reason})`;
    shown = [make("p", how, "soft"), ...answer.notes.map((note) => make("p", note, "soft")), ...answer.results.map(hit)];
  } catch (error) {
    shown = [make("p", error.message, "fault")];
  }
  if (number !== latest) return; // a later search was quicker
  found.replaceChildren(...shown);
  found.removeAttribute("aria-busy");
}

function base(info) {
  const box = make("div", "", "base");
  box.append(make("h3", info.name));
  const counts = `${info.total_files} files, ${info.total_chunks} passages, ${info.status.replace("_", " ")}`;
  box.append(make("div", `${info.kb_id} · ${counts}`, "soft"), make("div", info.folders.join(" · "), "soft"));
  if (info.progress) {
    const { stage, done, total, unit, within_file, remaining_seconds } = info.progress;
    const bar = make("progress");
    if (total) Object.assign(bar, { max: total, value: done });
    bar.setAttribute("aria-label", `progress of ${info.name}`);
    const left = remaining_seconds ? `, about ${Math.ceil(remaining_seconds)} s left` : "";
    const within = within_file ? `, ${within_file}` : "";
    box.append(bar, make("div", `${stage}: ${done ?? 0} of ${total ?? "?"} ${unit ?? ""}${within}${left}`, "soft"));
  }
  for (const entry of info.queue) if (entry.state !== "running") box.append(make("div", `in the queue: ${entry.state}`, "soft"));
  for (const note of info.notes) box.append(make("div", note, "fault"));
  const open = bases.querySelector(`details[data-id="${CSS.escape(info.kb_id)}"]`);
  if (info.problems.length) {
    const details = make("details");
    details.dataset.id = info.kb_id;
    details.open = Boolean(open && open.open);
    details.append(make("summary", `${info.problems.length} files with something to say`));
    const list = make("ul", "", "soft");
    for (const one of info.problems) list.append(make("li", `${one.path}: ${one.reason} (${one.state})`));
    details.append(list);
    box.append(details);
  }
  return box;
}

async function refresh() {
  let wait = 5000;
  try {
    const answer = await ask("/api/info");
    const all = answer.knowledge_bases;
    const none = make("p", "None yet. `seoga add FOLDER` in a terminal makes one.", "soft");
    bases.replaceChildren(...(all.length ? all.map(base) : [none]), ...answer.notes.map((note) => make("p", note, "fault")));
    const known = new Set([...choice.options].map((option) => option.value));
    for (const info of all) if (!known.has(info.kb_id)) choice.append(new Option(info.name, info.kb_id));
    for (const option of [...choice.options]) if (option.value && !all.some((one) => one.kb_id === option.value)) option.remove();
    if (all.some((info) => info.progress || info.queue.length)) wait = 1000;
  } catch (error) {
    bases.replaceChildren(make("p", `The server does not answer: ${error.message}`, "fault"));
  }
  setTimeout(refresh, document.hidden ? 15000 : wait);
}

const form = document.getElementById("ask");
form.addEventListener("submit", search);
const asked = new URLSearchParams(location.search).get("q");
if (asked) { form.elements.q.value = asked; form.requestSubmit(); }
refresh();
