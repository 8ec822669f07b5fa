// The prediction of a step as text and bars, and the chart of a walk.
import { byId, change, made, number } from "./asking.js";
import { extent, frameOf } from "./curves.js";

const MOST_BARS = 8;

// Classes whose names are numbers get a prefix.
const className = (name) => (/^\d+$/.test(name) ? `class ${name}` : name);

export function inWords(step, facts) {
  if (facts.task === "regression") {
    const more = facts.names.length > 1 ? ` and ${facts.names.length - 1} more` : "";
    return `${facts.names[0]}: ${number(step.answer[0])}${more}`;
  }
  const place = best(step.answer);
  if (place >= 0 && facts.task === "multilabel") return `${facts.names[place]}: ${percent(step.answer[place])}, the highest of ${facts.names.length}`;
  return place < 0 ? "not a number" : `${className(facts.names[place])}, ${percent(step.answer[place])}`;
}

export function showAnswer(step, before, graph, facts) {
  byId("answer").textContent = inWords(step, facts);
  const single = facts.task === "regression" && facts.names.length === 1;
  const changed = single && before ? change(step.answer[0] - before.answer[0]) : "";
  if (changed) byId("answer").append(made("span", { class: "change" }, `(${changed})`));
  const rows = facts.task === "regression" ? valueRows(step, before, graph, facts) : classRows(step, before, graph, facts);
  byId("bars").replaceChildren(...rows);
  byId("truth").textContent = truth(step, before, graph, facts);
}

function truth(step, before, graph, facts) {
  if (!graph.target) return "The target is not known, so there is no score.";
  const known = facts.task === "classification" ? className(facts.names[graph.target[0]]) : number(graph.target[0]);
  const gain = before ? change(step.score - before.score) : "";
  const unit = facts.score_unit ? ` ${facts.score_unit}` : "";
  const score = `Score ${number(step.score)}${gain ? ` (${gain})` : ""}${unit}; 0 is best.`;
  return graph.target.length > 1 ? score : `True: ${known}. ${score}`;
}

function classRows(step, before, graph, facts) {
  const order = step.answer.map((value, place) => [value ?? -1, place]).sort((a, b) => b[0] - a[0]).map(([, place]) => place);
  const shown = order.slice(0, MOST_BARS), several = facts.task === "multilabel";
  const right = several ? undefined : graph.target?.[0];
  // 1: more is better, -1: less is better, 0: unknown. Each of several two-class targets has its own truth.
  const direction = (place) => (several ? Math.sign((graph.target?.[place] ?? 0.5) - 0.5) : place === right ? 1 : right === undefined ? 0 : -1);
  if (right !== undefined && !shown.includes(right)) shown[shown.length - 1] = right;
  return shown.map((place) => {
    const row = made("li", direction(place) > 0 ? { class: "true" } : {});
    const fill = made("div", { class: "fill" });
    fill.style.width = percent(step.answer[place]);
    const words = className(facts.names[place]), name = made("span", { class: "name", title: words }, words);
    row.append(name, made("div", { class: "track" }, fill), made("span", { class: "number" }, percent(step.answer[place])),
      difference(before ? 100 * (step.answer[place] - before.answer[place]) : 0, direction(place), 1));
    return row;
  });
}

function valueRows(step, before, graph, facts) {
  if (facts.names.length === 1) return [];
  return facts.names.map((name, place) => made("li", { class: "values" }, made("span", { class: "name" }, name),
    made("span", { class: "number" }, number(step.answer[place])),
    made("span", { class: "soft number" }, graph.target ? `true ${number(graph.target[place])}` : ""),
    difference(before ? step.answer[place] - before.answer[place] : 0, 0)));
}

// Green where the change is for the better (direction 1: more is better, -1: less is better, 0: unknown).
function difference(value, direction, digits) {
  const good = value * direction;
  return made("span", { class: `change ${good > 0 ? "up" : good < 0 ? "down" : ""}` }, Math.abs(value) < 0.05 && direction ? "" : digits === undefined ? change(value) : change(Number(value.toFixed(digits))));
}

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)}%`);

function best(values) {
  return values.reduce((top, value, place) => (value !== null && (top < 0 || value > values[top]) ? place : top), -1);
}

// The value that is drawn for a walk: the score if there is one, else the answer it began with.
function height(step, facts, followed) {
  return step.score ?? step.answer[facts.task === "regression" ? 0 : followed];
}

export function showCourse(svg, steps, beside, here, facts, go) {
  const followed = Math.max(0, best(steps[0].answer)), scored = steps[0].score !== null;
  const of = (list) => list.map((step, place) => [place, step ? height(step, facts, followed) : null]).filter(([, value]) => value !== null && value !== undefined);
  const own = of(steps), random = of(beside);
  const words = scored ? "score at each step" : facts.task === "regression" ? `${facts.names[0]} at each step` : `probability of ${className(facts.names[followed])} at each step`;
  svg.setAttribute("aria-label", `${words}: ${own.map(([, value]) => number(value)).join(", ")}`);
  const frame = frameOf(svg, [0, Math.max(1, steps.length - 1)], extent([...own, ...random].map(([, value]) => value)), words, Math.max(1, steps.length - 1));
  const path = (points) => points.map(([place, value], k) => `${k ? "L" : "M"}${frame.x(place)} ${frame.y(value)}`).join("");
  if (random.length) svg.append(made("path", { class: "curve-line random", d: path(random) }));
  svg.append(made("path", { class: "curve-line", d: path(own) }));
  for (const [place, value] of own) {
    const stop = made("circle", { class: `stop${place === here ? " here" : ""}`, cx: frame.x(place), cy: frame.y(value), r: 5 });
    stop.addEventListener("click", () => go(place));
    svg.append(stop);
  }
}
