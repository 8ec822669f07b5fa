// The scalars of a run against its steps, and the metric against moves; one card each.
import { made, number } from "./asking.js";

const MEANINGS = {
  "predictor/loss": ["Loss of the predictor", "The task's loss on random tuples (Eq. 4)."],
  "agent/reward": ["Reward of a move", "What a move of the ε-greedy agent earns (Eq. 8)."],
  "agent/epsilon": ["Epsilon", "Share of graphs that move at random."],
  "agent/q_loss": ["Loss of Q", "Squared error of the Q-network against its target."],
  "validation/score_spread": ["Score spread", "How much marks matter: deviation of a graph's scores over places of a tuple."],
  "validation/score_range": ["Score range", "Worst minus best score over places of a tuple."],
  "validation/trimmed_mae": ["Validation MAE, trimmed", "Without the worst hundredth of the rows: chooses the best weights."],
  "validation/loss": ["Validation loss", "Cross-entropy, or error in units of the targets' spread."],
  "validation/accuracy": ["Validation accuracy", "In percent, after the moves with which the model answers."],
  "validation/auroc": ["Validation AUROC", "In percent, after the moves with which the model answers."],
  "validation/mae": ["Validation MAE", "In the targets' units, after the moves with which the model answers."],
};
const METRICS = { accuracy: "Accuracy", auroc: "AUROC", mae: "MAE" };
const MARGIN = { left: 56, right: 14, top: 10, bottom: 34 };

export const titleOf = (name) => MEANINGS[name]?.[0] ?? name;

export class Curve {
  constructor(name) {
    this.name = name;
    this.points = []; // [step, value or null]
    this.value = made("span", { class: "value" });
    this.svg = made("svg", { role: "img" });
    const [title, meaning] = MEANINGS[name] ?? [name, ""];
    const head = made("div", { class: "head" }, made("h2", {}, title), this.value);
    this.card = made("figure", { class: "card curve" }, head, made("p", { class: "soft meaning" }, meaning), this.svg);
    this.card.dataset.metric = name;
    this.pointed = null; // where the pointer is, from the left
    this.svg.addEventListener("pointermove", (event) => {
      this.pointed = event.clientX - this.svg.getBoundingClientRect().left;
      this.point();
    });
    this.svg.addEventListener("pointerleave", () => { this.pointed = null; this.draw(); });
  }

  draw() {
    const known = this.points.filter(([, value]) => value !== null);
    const last = this.points.at(-1);
    this.value.textContent = last ? `${number(last[1])} at step ${last[0] + 1}` : "";
    this.card.dataset.points = this.points.length;
    const missing = this.points.length - known.length;
    this.svg.setAttribute("aria-label", `${titleOf(this.name)}: ${this.value.textContent}`
      + (missing ? `; ${missing} values are not numbers` : ""));
    if (!this.svg.clientWidth) return;
    this.frame = frameOf(this.svg, [0, Math.max(last?.[0] ?? 0, 1)], extent(known.map(([, value]) => value)), "step");
    if (known.length > 60) {
      this.svg.append(made("path", { class: "curve-raw", d: this.path(thinned(this.points, this.frame.width)) }));
      this.svg.append(made("path", { class: "curve-line", d: this.path(thinned(smoothed(this.points), this.frame.width)) }));
    } else {
      this.svg.append(made("path", { class: "curve-line", d: this.path(this.points) }));
      if (known.length < 30) for (const point of known) this.svg.append(this.dot(point));
    }
    const base = this.frame.y(this.frame.low);
    for (const [step, value] of this.points) {
      if (value === null) this.svg.append(made("line", { class: "not-number", x1: this.frame.x(step), x2: this.frame.x(step), y1: base - 8, y2: base }));
    }
    this.point();
  }

  dot([step, value]) {
    return made("circle", { class: "curve-dot", cx: this.frame.x(step), cy: this.frame.y(value), r: 3 });
  }

  path(points) {
    let pen = "M";
    return points.map(([step, value]) => {
      if (value === null) { pen = "M"; return ""; }
      const part = `${pen}${this.frame.x(step).toFixed(1)} ${this.frame.y(value).toFixed(1)}`;
      pen = "L";
      return part;
    }).join("");
  }

  // The value under the pointer, which stays there while new ones come in.
  point() {
    if (!this.frame || !this.points.length || this.pointed === null) return;
    const at = this.pointed;
    const near = this.points.reduce((best, point) =>
      Math.abs(this.frame.x(point[0]) - at) < Math.abs(this.frame.x(best[0]) - at) ? point : best);
    this.svg.querySelectorAll(".cross, .cross-dot").forEach((element) => element.remove());
    const x = this.frame.x(near[0]);
    this.svg.append(made("line", { class: "cross", x1: x, x2: x, y1: MARGIN.top, y2: this.frame.bottom }));
    if (near[1] !== null) {
      const dot = this.dot(near);
      dot.classList.add("cross-dot");
      this.svg.append(dot);
    }
    this.value.textContent = `${number(near[1])} at step ${near[0] + 1}`;
  }
}

export class MovesCurve {
  constructor() {
    this.name = "moves";
    this.title = made("h2", {}, "Metric against moves");
    this.meaning = made("p", { class: "soft meaning" });
    this.value = made("span", { class: "value" });
    this.svg = made("svg", { role: "img" });
    this.card = made("figure", { class: "card curve" }, made("div", { class: "head" }, this.title, this.value), this.meaning, this.svg);
    this.card.dataset.metric = "moves";
  }

  tell(words) {
    this.measured = null;
    this.meaning.textContent = words;
    this.value.textContent = "";
    this.svg.replaceChildren();
    delete this.card.dataset.points;
  }

  draw() {
    if (!this.measured) return;
    const { metric, tests, graphs, policies } = this.measured;
    this.title.textContent = `${METRICS[metric] ?? metric} against moves`;
    this.meaning.textContent = `Solid: the agent. Dashed: random moves from the same starts. Mean of ${tests} tests on ${graphs} test graphs.`;
    const agent = policies.agent, moves = agent.length - 1;
    this.value.textContent = `${number(agent[0])} → ${number(agent[moves])}`;
    this.card.dataset.points = agent.length;
    this.svg.setAttribute("aria-label", `${this.title.textContent}: the agent from ${number(agent[0])} to `
      + `${number(agent[moves])} after ${moves} moves, random moves to ${number(policies["random moves"][moves])}`);
    if (!this.svg.clientWidth) return;
    const all = Object.values(policies).flat().filter((value) => value !== null);
    const frame = frameOf(this.svg, [0, moves], extent(all), "moves", moves);
    for (const [policy, values] of [["random moves", policies["random moves"]], ["agent", agent]]) {
      const kind = policy === "agent" ? "" : "random";
      const known = values.map((value, move) => [move, value]).filter(([, value]) => value !== null);
      const d = known.map(([move, value], place) => `${place ? "L" : "M"}${frame.x(move)} ${frame.y(value)}`).join("");
      this.svg.append(made("path", { class: `curve-line ${kind}`, d }));
      for (const [move, value] of known) this.svg.append(made("circle", { class: `curve-dot ${kind}`, cx: frame.x(move), cy: frame.y(value), r: 3.5 }));
    }
  }
}

// Clear an SVG and draw axes; returns the two scales.
export function frameOf(svg, [first, last], [low, high], words, ticks = 4) {
  const width = svg.clientWidth, height = svg.clientHeight, bottom = height - MARGIN.bottom;
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const x = (value) => MARGIN.left + (value - first) / (last - first || 1) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => bottom - (value - low) / (high - low || 1) * (bottom - MARGIN.top);
  for (const value of rounded(low, high, 5)) {
    svg.append(made("line", { class: "grid-line", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(value), y2: y(value) }));
    svg.append(made("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)));
  }
  for (const value of rounded(first, last, Math.min(ticks, 8))) {
    if (words !== "step" && !Number.isInteger(value)) continue;
    svg.append(made("text", { x: x(value), y: bottom + 15, "text-anchor": "middle" }, number(value)));
  }
  svg.append(made("line", { class: "axis-line", x1: MARGIN.left, x2: width - MARGIN.right, y1: bottom, y2: bottom }));
  svg.append(made("text", { x: width - MARGIN.right, y: bottom + 29, "text-anchor": "end" }, words));
  return { x, y, low, high, bottom, width };
}

export function extent(values) {
  if (!values.length) return [0, 1];
  let low = Infinity, high = -Infinity;
  for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

function rounded(low, high, count) {
  const rough = (high - low) / Math.max(count, 1), power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough) ?? power;
  const ticks = [];
  for (let place = Math.ceil(low / step); place * step <= high + step * 1e-9; place++) ticks.push(Number((place * step).toPrecision(12)));
  return ticks;
}

// The mean over a fiftieth of the points; a gap stays a gap.
function smoothed(points) {
  const reach = Math.max(1, Math.floor(points.length / 100));
  const sums = [0], counts = [0];
  for (const [, value] of points) {
    sums.push(sums.at(-1) + (value ?? 0));
    counts.push(counts.at(-1) + (value === null ? 0 : 1));
  }
  return points.map(([step, value], place) => {
    const from = Math.max(0, place - reach), to = Math.min(points.length, place + reach + 1);
    return [step, value === null ? null : (sums[to] - sums[from]) / (counts[to] - counts[from])];
  });
}

// At most a few points for each pixel: the smallest and the largest of each run of points.
function thinned(points, width) {
  const size = Math.ceil(points.length / Math.max(width, 50));
  if (size < 3) return points;
  const kept = [];
  for (let from = 0; from < points.length; from += size) {
    const run = points.slice(from, from + size).filter(([, value]) => value !== null);
    if (!run.length) { kept.push(points[from]); continue; }
    const least = run.reduce((a, b) => (b[1] < a[1] ? b : a)), most = run.reduce((a, b) => (b[1] > a[1] ? b : a));
    kept.push(...(least[0] < most[0] ? [least, most] : [most, least]));
  }
  return kept;
}
