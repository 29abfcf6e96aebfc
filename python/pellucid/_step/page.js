// Shows one step of the recording at a time. The state is the number of the step, which the address ends with.
const data = JSON.parse(document.getElementById("data").textContent);
const { captures, codes, steps, texts } = data;
const [CODE, OFFSET, LOCALS, STACK, CALLER, OUTER, GRAPH, GUARDS, END] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const element = (id) => document.getElementById(id);
let now = 0;

const captureOf = (at) => captures.findLastIndex((capture) => capture.first <= at);
const lineOf = (frame) => (codes[frame[CODE]].instructions[frame[OFFSET]] ?? [0])[0];
const sourceOf = (frame) => (codes[frame[CODE]].source[lineOf(frame)] ?? "").trim();
const placeOf = (frame) => `${codes[frame[CODE]].file.split("/").pop()}:${lineOf(frame)}, in ${codes[frame[CODE]].name}: ${sourceOf(frame)}`;

function version(changes, number) {
  const lines = [];
  for (const [common, tail] of changes.slice(0, number + 1)) lines.splice(common, lines.length, ...tail.map((text) => texts[text]));
  return lines;
}

function framesOf(at) {
  let step = steps[at];
  const frames = [step];
  while (step[CALLER] >= 0) {
    step = steps[step[CALLER]];
    frames.push(step);
  }
  return [...frames, ...captures[captureOf(at)].outer.slice(0, step[OUTER]).reverse()];
}

// Fills a panel: each line a text, marked as the place where we are or as new since the step before.
function fill(id, lines) {
  const panel = element(id);
  panel.replaceChildren(...lines.map(([text, mark]) => {
    const line = document.createElement("div");
    line.textContent = text;
    if (mark) line.className = mark;
    return line;
  }));
  const marked = panel.querySelector(".here") ?? panel.querySelector(".new:last-child");
  if (marked) marked.scrollIntoView({ block: "nearest" });
  if (id === "graph" || id === "guards") panel.scrollTop = panel.scrollHeight;
}

function withNew(lines, before) {
  const known = new Set(before);
  return lines.map((line) => [line, known.has(line) ? "" : "new"]);
}

function show(at, keep) {
  now = Math.max(0, Math.min(at, steps.length - 1));
  const step = steps[now];
  const number = captureOf(now);
  const capture = captures[number];
  const code = codes[step[CODE]];
  const before = now > capture.first ? steps[now - 1] : null;
  element("slider").value = now;
  element("capture").value = number;
  element("number").textContent = `step ${now} of ${steps.length - 1}`;
  const instruction = step[END] ? `(${capture.end_words})` : (code.instructions[step[OFFSET]] ?? [0, "?"])[1];
  element("place").textContent = `${placeOf(step)}   —   offset ${step[OFFSET]}: ${instruction}`;
  element("end").hidden = !step[END] || capture.why.length === 0;
  element("end").textContent = capture.why.join("\n");
  fill("source", Object.entries(code.source).map(([line, text]) => [`${line.padStart(5)}  ${text}`, Number(line) === lineOf(step) ? "here" : ""]));
  fill("bytecode", Object.entries(code.instructions).map(([offset, [line, text]]) => [
    `${String(line).padStart(5)} ${offset.padStart(5)}  ${text}`, Number(offset) === step[OFFSET] ? "here" : ""]));
  fill("frames", framesOf(now).map((frame, index) => [placeOf(frame), index === 0 ? "here" : ""]));
  const values = (row) => (row ? row[LOCALS].map(([name, value]) => `${texts[name]} = ${texts[value]}`) : []);
  fill("locals", withNew(values(step), values(before)));
  fill("stack", step[STACK].map((value, index) => [`${index}: ${texts[value]}`, ""]).reverse());
  fill("graph", withNew(version(capture.graphs, step[GRAPH]), before ? version(capture.graphs, before[GRAPH]) : []));
  fill("guards", withNew(version(capture.guards, step[GUARDS]), before ? version(capture.guards, before[GUARDS]) : []));
  if (!keep) history.replaceState(null, "", `#${now}`);
}

const sameLine = (one, other) => one[CODE] === other[CODE] && lineOf(one) === lineOf(other) && one[CALLER] === other[CALLER];

function lineForward() {
  let at = now;
  while (at < steps.length - 1 && sameLine(steps[at], steps[now])) at += 1;
  return at;
}

function lineBack() {
  let at = now;
  while (at > 0 && sameLine(steps[at], steps[now])) at -= 1;
  while (at > 0 && sameLine(steps[at - 1], steps[at])) at -= 1;
  return at;
}

function captureBack() {
  const { first } = captures[captureOf(now)];
  return now > first ? first : captures[Math.max(captureOf(now) - 1, 0)].first;
}

const keys = {
  ArrowRight: () => now + 1,
  ArrowLeft: () => now - 1,
  ArrowDown: lineForward,
  ArrowUp: lineBack,
  PageDown: () => captures[captureOf(now) + 1]?.first ?? steps.length - 1,
  PageUp: captureBack,
  Home: () => 0,
  End: () => steps.length - 1,
};

function start() {
  if (steps.length === 0) {
    element("place").textContent = "Nothing was captured.";
    return;
  }
  element("slider").max = steps.length - 1;
  element("capture").replaceChildren(...captures.map((capture, index) => new Option(
    `${index}: ${capture.name || "(nothing became of it)"}, ${capture.function}${capture.goes_on ? " behind a graph break" : ""}`, index)));
  element("slider").addEventListener("input", () => show(Number(element("slider").value)));
  element("capture").addEventListener("change", () => {
    show(captures[Number(element("capture").value)].first);
    element("capture").blur();
  });
  document.addEventListener("keydown", (event) => {
    const to = keys[event.key];
    if (!to || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    show(to());
  });
  addEventListener("hashchange", () => show(Number(location.hash.slice(1)) || 0, true));
  show(Number(location.hash.slice(1)) || 0, true);
}

start();
