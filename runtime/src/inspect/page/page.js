"use strict";
// Names and texts come from tenants: they are set as text, never as HTML.

// The list of each program. It stands in place of the array of the same name in the status.
const LISTS = { "collector": "/names.json", "ovn-writer": "/sets.json", "policy-writer": "/dnsresolvers.json" };
const NOT_AMONG_FACTS = ["program", "version", "pod", "node", "at", "moreProblems"];
const MOST_ROWS = 500, MOST_PROBLEMS = 20, FEW = 5, EVERY = 10_000, DEADLINE = 25_000;

const byId = (id) => document.getElementById(id);
const filter = byId("filter");
let status = null, list = {}, at = null; // the last answers, and their time by the clock of the program
let after = "", gone = "", loads = 0, timer;

async function ask(path, parameters) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`, { signal: AbortSignal.timeout(DEADLINE) });
  if (!answer.ok) throw new Error(await answer.text());
  return [await answer.json(), new Date(answer.headers.get("date"))];
}

async function load() {
  const number = ++loads;
  let answers = [status, list, at], error = "";
  try {
    const [status, at] = await ask("/status.json");
    const path = LISTS[status.program];
    const [list] = path ? await ask(path, { after, filter: filter.value.trim() }) : [{}];
    answers = [status, list, at];
  } catch (failure) {
    error = `No answer at ${new Date().toLocaleTimeString()}: ${failure.message}`;
  }
  if (number !== loads) return; // A later one is under way.
  [status, list, at] = answers;
  gone = error;
  show();
  clearTimeout(timer);
  timer = setTimeout(reload, EVERY);
}

function reload() {
  if (!document.hidden && !filter.value) return load();
  timer = setTimeout(reload, EVERY);
}

function loadFrom(name) {
  after = name;
  loads++; // What is under way has other rows.
  clearTimeout(timer);
  timer = setTimeout(load, 300);
}

function show() {
  byId("gone").hidden = !gone;
  byId("gone").textContent = gone && status ? `${gone}. Below is the state of ${at.toLocaleTimeString()}.` : gone;
  const problems = status?.problems ?? [], count = problems.length + (status?.moreProblems ?? 0);
  const colour = gone || count ? "d93025" : "1e8e3e";
  byId("icon").href = `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' fill='%23${colour}'/%3E%3C/svg%3E`;
  if (!status) return;
  const { program, version, pod, node } = status;
  const place = [pod && `pod ${pod}`, node && `node ${node}`].filter(Boolean);
  document.title = (gone ? "(?) " : count ? `(${count}) ` : "") + [program, ...place].join(" · ");
  byId("program").textContent = program;
  fill(byId("place"), [version, ...place, `as of ${at.toLocaleString()}`].join(" · "));

  const box = byId("problems"), found = problems.filter(isWanted);
  box.className = count ? "bad" : "";
  box.replaceChildren();
  add(box, "h2", count === 0 ? "No problems" : count === 1 ? "1 problem" : `${count} problems`);
  const items = count ? add(box, "ul") : null;
  for (const { subject, words, docs } of found.slice(0, MOST_PROBLEMS)) {
    const item = add(items, "li");
    cell(item, subject);
    add(item, "span", `: ${words}`);
    if (docs) add(item, "span", ` (remedy: docs/${docs.replace("#", ", section ")})`, "quiet");
  }
  if (found.length > MOST_PROBLEMS) add(box, "p", `and ${found.length - MOST_PROBLEMS} more: filter for them`);

  byId("facts").replaceChildren();
  for (const [key, fact] of Object.entries(status)) {
    if (NOT_AMONG_FACTS.includes(key) || isTable(fact) || text(fact) === "" || (key.startsWith("more") && !fact)) continue;
    add(byId("facts"), "dt", heading(key));
    add(byId("facts"), "dd", text(fact));
  }
  const { problems: _, ...others } = { conditions: [], ...status };
  for (const [key, rows] of Object.entries(others)) {
    if (isTable(rows) && !(key in list)) table(key, rows.filter(isWanted), false);
  }
  for (const [key, rows] of Object.entries(list)) if (isTable(rows)) table(key, rows, true);
}

function table(key, rows, isList) {
  const box = byId(`table-${key}`) ?? add(byId("tables"), "section");
  box.id = `table-${key}`;
  const scroll = box.querySelector(".scroll") ?? add(box, "div", "", "scroll"); // It stays, to keep its place.
  scroll.replaceChildren();
  for (const other of [...box.children]) if (other !== scroll) other.remove();
  if (rows.length === 0 && !(isList && after)) return;
  box.prepend(add(box, "h2", `${heading(key)} (${rows.length}${isList && list.next ? " and more" : ""})`));
  const shown = rows.slice(0, MOST_ROWS), body = add(scroll, "table"), head = add(body, "tr");
  const keys = Object.keys(Object.assign(isList ? { name: "", addresses: "" } : {}, ...shown)); // These are the first columns.
  const columns = keys.filter((key) => key === "holds" || shown.some((row) => !isEmpty(row[key])));
  for (const column of columns) add(head, "th", heading(column));
  for (const row of shown) {
    const line = add(body, "tr");
    for (const column of columns) cell(add(line, "td"), row[column]);
  }
  if (rows.length > MOST_ROWS) add(box, "p", `and ${rows.length - MOST_ROWS} more`);
  if (isList && after) add(box, "button", "First").onclick = () => loadFrom("");
  if (isList && list.next) add(box, "button", "Next").onclick = () => loadFrom(list.next);
}

// A DNS name by itself filters.
function cell(parent, value) {
  if (typeof value !== "string" || !/^\S+\.$/.test(value)) {
    parent.className = text(value).length > 30 ? "long" : "";
    return fill(parent, text(value));
  }
  add(parent, "button", value, "name").onclick = () => {
    filter.value = value;
    filter.dispatchEvent(new Event("input"));
  };
}

function text(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "object") return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? when(value) : String(value);
  if (Array.isArray(value)) {
    const parts = value.slice(0, FEW).map(text), more = value.length - parts.length;
    return parts.join(parts.some((part) => part.includes(" ")) ? "\n" : ", ") + (more ? ` and ${more} more` : "");
  }
  if (value.address) return value.address;
  const parts = Object.entries(value).filter(([, part]) => !isEmpty(part));
  const words = ([key, part]) => (part === true ? spaced(key) : typeof part === "string" ? text(part) : `${spaced(key)} ${text(part)}`);
  return parts.map(words).join(", ");
}

function when(time) {
  const seconds = Math.round((Date.parse(time) - at) / 1000), span = Math.abs(seconds);
  const words = span < 120 ? `${span} s` : span < 7_200 ? `${Math.round(span / 60)} min` : `${Math.round(span / 3_600)} h`;
  return seconds < 0 ? `${words} ago` : `in ${words}`;
}

const spaced = (key) => key.replace(/_|(?=[A-Z])/g, " ").toLowerCase().replace(/\bdns\b/, "DNS");
const heading = (key) => spaced(key).replace(/^./, (letter) => letter.toUpperCase());
const isTable = (value) => Array.isArray(value) && (value.length === 0 || typeof value[0] === "object");
const isEmpty = (value) => !value || (typeof value === "object" && Object.values(value).every(isEmpty));
const texts = (value) => (value && typeof value === "object" ? Object.values(value).map(texts).join(" ") : String(value));
const isWanted = (row) => texts(row).toLowerCase().includes(filter.value.trim().toLowerCase());

function add(parent, tag, words = "", className = "") {
  const element = parent.appendChild(document.createElement(tag));
  element.className = className;
  fill(element, words);
  return element;
}

// Lines break between words only, also in words with hyphens and slashes.
function fill(element, words) {
  element.replaceChildren();
  for (const word of words.split(/(\s+)/)) {
    const part = element.appendChild(document.createElement("span"));
    part.className = /\s/.test(word) ? "" : "word";
    part.textContent = word;
  }
}

filter.addEventListener("input", () => {
  if (status) show();
  loadFrom("");
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !filter.value) load();
});
load();
