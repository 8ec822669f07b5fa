// One graph as an SVG: edges in one path, a circle for each node, a ring for each mark. It can be dragged and zoomed.
import { made, number } from "./asking.js";

const SIZE = 1000;
const INSET = 35; // room for the numbers of atoms
const NEAR = 18; // pixels within which a click means a node
export const COLOURS = 5; // of tuples: --tuple-0 to --tuple-4 of page.css, which are HUES of apps/draw/marked.py in their order

export class Picture {
  constructor(svg, { onNode = () => {}, onHover = () => {} } = {}) {
    this.svg = svg;
    this.onNode = onNode;
    this.onHover = onHover;
    this.view = { x: 0, y: 0, scale: 1 };
    this.marks = new Map();
    this.listen();
  }

  // A new graph: everything is drawn again.
  draw(graph) {
    this.graph = graph;
    const inset = graph.labels ? INSET : 0;
    this.points = graph.positions.map(([x, y]) => [x, y].map((share) => inset + share * (SIZE - 2 * inset)));
    this.radius = radiusFor(this.points);
    this.badge = Math.max(11, Math.min(19, this.radius * 0.68));
    this.layer = made("g");
    this.layer.append(...edgePaths(graph.edges, this.points, this.radius));
    this.nodes = this.points.map(([x, y], node) => made("circle", { class: "node", cx: x, cy: y, r: this.radius, "data-node": node }));
    this.layer.append(...this.nodes);
    for (const root of graph.roots) {
      const [x, y] = this.points[root];
      this.layer.append(made("circle", { class: "root", cx: x, cy: y, r: this.radius * 1.45 }));
    }
    this.labels = this.labelled(graph);
    this.layer.append(...this.labels.filter(Boolean));
    this.markLayer = made("g");
    this.layer.append(this.markLayer);
    this.marks.clear();
    this.svg.replaceChildren(this.layer);
    this.fit();
  }

  labelled(graph) {
    if (graph.labels) {
      const signs = graph.signs ?? graph.labels.map((label) => (label === "C" ? "" : label));
      const written = this.points.map(([x, y], node) => (signs[node] ? this.text(x, y, signs[node]) : null));
      return [...written, ...this.atomNumbers(graph)];
    }
    return this.points.map(([x, y], node) => (this.points.length > 64 ? null : this.text(x, y, String(node))));
  }

  // The numbers of atoms in the SMILES, next to them and away from bonds, badges and each other.
  atomNumbers(graph) {
    const away = this.radius * 1.3 + 24, badge = [this.radius, -this.radius], placed = [];
    const bonds = this.points.map(() => []);
    for (const [u, v] of graph.edges) { bonds[u].push(v); bonds[v].push(u); }
    const distance = ([x, y], [u, v]) => Math.hypot(x - u, y - v);
    this.points.forEach(([x, y], node) => {
      const along = bonds[node].flatMap((end) => [away / (distance([x, y], this.points[end]) || 1), 0.75].map((share) =>
        [x + share * (this.points[end][0] - x), y + share * (this.points[end][1] - y)]));
      const others = this.points.filter((_, place) => place !== node);
      const taken = [...along, ...others, ...placed, [x + badge[0], y + badge[1]]];
      const tried = Array.from({ length: 16 }, (_, place) => [x + away * Math.cos((place * Math.PI) / 8), y + away * Math.sin((place * Math.PI) / 8)]);
      const room = tried.map((place) => Math.min(...taken.map((other) => distance(place, other))));
      placed.push(tried[room.indexOf(Math.max(...room))]);
    });
    return placed.map(([x, y], node) => {
      const label = made("text", { x, y, class: "atom-number" }, String(graph.numbers?.[node] ?? node));
      label.style.fontSize = `${Math.max(25, Math.min(28, this.radius * 0.8))}px`;
      return label;
    });
  }

  text(x, y, words) {
    const label = made("text", { x, y }, words);
    label.style.fontSize = `${this.radius * (words.length > 2 ? 0.75 : 1)}px`;
    return label;
  }

  // The marks of a step, and the colours of Q for the chosen tuple and slot (null: no colours).
  show(step, chosen, colours) {
    this.placeMarks(step, chosen);
    return this.colour(step, chosen, colours);
  }

  placeMarks(step, chosen) {
    const crowd = new Map(), total = new Map(); // how many marks a node has so far, and in all
    for (const node of step.tuples.flat()) total.set(node, (total.get(node) ?? 0) + 1);
    step.tuples.forEach((slots, tuple) => slots.forEach((node, slot) => {
      const key = `${tuple}.${slot}`;
      let mark = this.marks.get(key);
      if (!mark) {
        mark = this.newMark(tuple, slot);
        this.marks.set(key, mark);
        this.markLayer.append(mark);
      }
      const before = crowd.get(node) ?? 0, [x, y] = this.points[node];
      crowd.set(node, before + 1);
      const radius = this.radius * 1.3 + before * 5, angle = -0.8 + before * 1.1;
      mark.style.transform = `translate(${x}px, ${y}px)`;
      mark.dataset.at = node;
      mark.classList.toggle("other", tuple !== chosen.tuple);
      mark.firstChild.setAttribute("r", radius);
      const away = this.radius * 1.3 + (total.get(node) - 1) * 5 + 0.6 * this.badge; // outside all rings of the node
      mark.children[1].setAttribute("transform", `translate(${away * Math.cos(angle)} ${away * Math.sin(angle)})`);
    }));
  }

  newMark(tuple, slot) {
    const label = made("text", {}, String(slot + 1));
    label.style.fontSize = `${this.badge * 1.35}px`;
    const badge = made("g", {}, made("circle", { class: "badge", r: this.badge }), label);
    const mark = made("g", { class: `mark tuple-${tuple % COLOURS}` }, made("circle", { class: "halo" }), badge);
    mark.dataset.mark = `${tuple}.${slot}`;
    return mark;
  }

  // Returns [smallest, largest] value of the colours shown, or null.
  colour(step, chosen, colours) {
    const gains = colours && step.q_table ? step.q_table.map((row) => row[chosen.tuple]?.[chosen.slot] ?? null) : null;
    const known = (gains ?? []).filter((gain) => gain !== null);
    this.gains = gains;
    if (!known.length) {
      this.nodes.forEach((node, place) => this.paint(place, node, "", false, false));
      return null;
    }
    const low = Math.min(...known), high = Math.max(...known), spread = high - low;
    const style = getComputedStyle(this.svg), named = ["--ramp-low", "--ramp-high", "--ink", "--on-strong"];
    const [from, to, ink, onStrong] = named.map((name) => channels(style.getPropertyValue(name)));
    this.nodes.forEach((node, place) => {
      const share = spread > 1e-9 && gains[place] !== null ? (gains[place] - low) / spread : 0;
      const mixed = from.map((channel, k) => Math.round(channel + share * (to[k] - channel)));
      const strong = contrast(mixed, onStrong) > contrast(mixed, ink);
      this.paint(place, node, `rgb(${mixed})`, strong, spread > 1e-9 && gains[place] >= high - 1e-5);
    });
    return [low, high];
  }

  paint(place, node, fill, strong, best) {
    node.style.fill = fill;
    node.classList.toggle("best", best);
    this.labels[place]?.classList.toggle("on-strong", strong);
  }

  words(node) {
    const label = this.graph.labels ? ` (${this.graph.labels[node]})` : "";
    const gain = this.gains?.[node];
    return `node ${this.graph.numbers?.[node] ?? node}${label}` + (gain === null || gain === undefined ? "" : `: expected gain ${number(gain)}`);
  }

  // ---- dragging and zooming

  fit() {
    this.view = { x: 0, y: 0, scale: 1 };
    this.apply();
  }

  zoom(factor, at = [SIZE / 2, SIZE / 2]) {
    const scale = Math.min(20, Math.max(0.4, this.view.scale * factor)), ratio = scale / this.view.scale;
    this.view = { x: at[0] - ratio * (at[0] - this.view.x), y: at[1] - ratio * (at[1] - this.view.y), scale };
    this.apply();
  }

  apply() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const { x, y, scale } = this.view;
      this.layer?.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
      this.svg.classList.toggle("zoomed", scale !== 1);
    });
  }

  // A position on the screen in the coordinates of the viewBox.
  toBox(event) {
    const box = this.svg.getBoundingClientRect(), unit = Math.min(box.width, box.height) / SIZE;
    return [(event.clientX - box.left - (box.width - unit * SIZE) / 2) / unit,
      (event.clientY - box.top - (box.height - unit * SIZE) / 2) / unit, unit];
  }

  nearest(event) {
    if (!this.points) return null;
    const [boxX, boxY, unit] = this.toBox(event), { x, y, scale } = this.view;
    const at = [(boxX - x) / scale, (boxY - y) / scale];
    let best = null, closest = Math.max(this.radius * 1.1, NEAR / unit / scale);
    this.points.forEach((point, node) => {
      const distance = Math.hypot(point[0] - at[0], point[1] - at[1]);
      if (distance < closest) [best, closest] = [node, distance];
    });
    return best;
  }

  listen() {
    let from = null; // where a drag began
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0) from = { at: [event.clientX, event.clientY], view: { ...this.view }, moved: false };
    });
    // A drag may leave the picture, so the window follows it.
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      const shift = [event.clientX - from.at[0], event.clientY - from.at[1]];
      if (!from.moved && Math.hypot(...shift) < 5) return;
      from.moved = true;
      this.svg.classList.add("dragging");
      const unit = this.toBox(event)[2];
      this.view = { ...this.view, x: from.view.x + shift[0] / unit, y: from.view.y + shift[1] / unit };
      this.apply();
    });
    const end = (event) => {
      const node = from && !from.moved && event.type === "pointerup" ? this.nearest(event) : null;
      from = null;
      this.svg.classList.remove("dragging");
      if (node !== null) this.onNode(node);
    };
    window.addEventListener("pointerup", end);
    window.addEventListener("pointercancel", end);
    this.svg.addEventListener("pointermove", (event) => { if (!from) this.hover(event); });
    this.svg.addEventListener("pointerleave", () => this.hover(null));
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 500), this.toBox(event));
    }, { passive: false });
  }

  hover(event) {
    const node = event ? this.nearest(event) : null;
    if (node === this.hovered) return;
    this.nodes?.[this.hovered]?.classList.remove("hovered");
    this.hovered = node;
    this.nodes?.[node]?.classList.add("hovered");
    this.onHover(node === null ? "" : this.words(node));
  }
}

// A third of a small but not the smallest distance between neighbours.
function radiusFor(points) {
  const nearest = points.map(([x, y], node) => Math.min(...points.map(([u, v], other) => (other === node ? Infinity : Math.hypot(x - u, y - v)))));
  const small = nearest.sort((a, b) => a - b)[Math.floor(points.length / 5)];
  return Math.min(30, Math.max(5, 0.34 * (Number.isFinite(small) ? small : 100)));
}

// Single bonds and plain edges in one path, further lines of double bonds beside them, of aromatic ones dashed.
function edgePaths(edges, points, radius) {
  const solid = [], dashed = [], gap = Math.min(radius * 0.42, 7);
  const line = (list, [x1, y1], [x2, y2], shift) => {
    const length = Math.hypot(x2 - x1, y2 - y1) || 1, dx = -(y2 - y1) / length * shift, dy = (x2 - x1) / length * shift;
    list.push(`M${(x1 + dx).toFixed(1)} ${(y1 + dy).toFixed(1)}L${(x2 + dx).toFixed(1)} ${(y2 + dy).toFixed(1)}`);
  };
  for (const [u, v, order] of edges) {
    const shifts = order === 2 ? [-gap / 2, gap / 2] : order === 3 ? [-gap, 0, gap] : order === 1.5 ? [-gap / 2] : [0];
    for (const shift of shifts) line(solid, points[u], points[v], shift);
    if (order === 1.5) line(dashed, points[u], points[v], gap / 2);
  }
  return [made("path", { class: "edges", d: solid.join("") }), made("path", { class: "edges dashed", d: dashed.join("") })];
}

function channels(hex) {
  const value = parseInt(hex.trim().slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// The contrast of two colours, as defined by WCAG.
function contrast(first, second) {
  const [light, dark] = [luminance(first), luminance(second)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(colour) {
  const [red, green, blue] = colour.map((channel) => channel / 255)
    .map((channel) => (channel <= 0.03928 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
