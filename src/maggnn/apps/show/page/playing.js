// The gallery: the graph that is shown, the steps of its walk so far, and all controls.
import { ask, byId, fillSelect, guarded, made, number } from "./asking.js";
import { inWords, showAnswer, showCourse } from "./answers.js";
import { COLOURS, Picture } from "./picture.js";

class Late extends Error {} // a response that arrived after another run had been chosen

export class Playing {
  constructor() {
    this.chosen = { tuple: 0, slot: 0 };
    this.seed = 0;
    this.picture = new Picture(byId("picture"), {
      onNode: (node) => this.act(() => this.place(node)),
      onHover: (words) => { byId("hovered").textContent = words; },
    });
    this.besidePicture = new Picture(byId("beside-picture"));
    this.queue = Promise.resolve();
    this.listen();
  }

  // Actions are queued: a quick second click continues from the result of the first.
  act(action) {
    return this.inTurn(() => (this.facts ? action() : undefined));
  }

  inTurn(action) {
    this.queue = this.queue.then(guarded(async () => {
      try {
        await action();
      } catch (error) {
        if (!(error instanceof Late)) throw error;
      }
    }));
    return this.queue;
  }

  async ask(path, question) {
    const visit = this.visit, said = await ask(path, question);
    if (visit !== this.visit) throw new Late();
    return said;
  }

  // Another run is chosen: nothing of this one stays.
  close() {
    this.visit = {};
    this.facts = this.steps = this.graph = null;
    this.beside = [];
    byId("playground").hidden = true;
    byId("add").hidden = true;
    for (const name of ["position", "answer", "graph-note", "notes"]) byId(name).textContent = "";
    fillSelect(byId("graph"), []);
  }

  open(run) {
    this.close();
    this.run = run;
    return this.inTurn(async () => {
      this.facts = await this.ask(`/api/gallery?run=${encodeURIComponent(run)}`);
      byId("add").hidden = !this.facts.takes_molecules;
      this.chosen = { tuple: 0, slot: 0 };
      this.choices();
      this.listGraphs();
      if (this.facts.titles.length) await this.choose(0);
    });
  }

  listGraphs() {
    const titles = this.facts.titles;
    fillSelect(byId("graph"), titles.map((title, place) => [String(place), title]));
    byId("no-graphs").hidden = titles.length > 0;
    byId("no-graphs").textContent = this.facts.takes_molecules
      ? "Type a SMILES above to see what the model predicts for it, or start maggnn show with --molecules table.csv to see those of a table." : "This model has no graphs to show.";
    byId("playground").hidden = !titles.length;
  }

  choices() {
    const { m, k, t, moves } = this.facts;
    byId("marks-card").hidden = byId("walk-card").hidden = byId("own-caption").hidden = !k;
    byId("tuples").hidden = m === 1;
    byId("q-colours").closest("label").hidden = !moves;
    byId("beside").closest("label").hidden = !moves;
    byId("agent").hidden = !moves;
    byId("all-moves").hidden = !moves || t < 2;
    byId("all-moves").textContent = `Agent makes ${Math.max(t, 1)} ${t > 1 ? "moves" : "move"}`;
    byId("notes").textContent = this.facts.notes.join(" ");
    this.radios("tuples", "tuple", m);
    this.radios("slots", "slot", k);
  }

  radios(fieldset, kind, count) {
    const labels = Array.from({ length: count }, (_, place) => {
      const radio = made("input", { type: "radio", name: kind, value: place });
      radio.checked = place === this.chosen[kind];
      radio.addEventListener("change", () => { this.chosen = { ...this.chosen, [kind]: place }; this.show(); });
      const label = made("label", kind === "tuple" ? { class: `tuple-${place % COLOURS}` } : {}, radio);
      if (kind === "tuple") label.append(made("span", { class: "dot" }));
      label.append(String(place + 1));
      return label;
    });
    byId(fieldset).replaceChildren(byId(fieldset).firstElementChild, ...labels);
  }

  async choose(place) {
    const graph = await this.ask(`/api/graph?run=${encodeURIComponent(this.run)}&graph=${place}`);
    this.number = place;
    this.graph = graph;
    byId("graph").value = String(place);
    const left = this.facts.left_out ? ` ${this.facts.left_out} rows left out.` : "";
    const [nodes, edges] = graph.labels ? ["atoms", "bonds"] : ["nodes", "edges"];
    byId("graph-note").textContent = `${place + 1} of ${this.facts.titles.length}, ${graph.positions.length} ${nodes}, ${graph.edges.length} ${edges}. ${graph.note}${left}`;
    for (const words of document.getElementsByClassName("node-word")) words.textContent = graph.labels ? "an atom" : "a node";
    byId("node").max = graph.positions.length - 1;
    byId("playground").hidden = false;
    byId("no-graphs").hidden = true;
    for (const picture of [this.picture, this.besidePicture]) picture.draw(graph);
    byId("picture").setAttribute("aria-label", `${graph.title}: ${graph.positions.length} nodes and ${graph.edges.length} edges`);
    byId("beside-picture").setAttribute("aria-label", `${graph.title} with random moves`);
    await this.start(false);
  }

  question(rest) {
    return { run: this.run, graph: this.number, ...rest };
  }

  async start(atRandom) {
    const step = await this.ask("/api/start", this.question({ seed: atRandom ? ++this.seed : 0, at_random: atRandom }));
    this.steps = [{ ...step, byHand: true, since: 0 }];
    this.beside = [];
    await this.go(0);
  }

  // The node that a number of the SMILES means: molecules have their atoms in canonical order.
  nodeOf(number) {
    return this.graph.numbers ? this.graph.numbers.indexOf(number) : number;
  }

  async place(node) {
    if (!this.facts.k) return;
    const tuples = this.now.tuples.map((slots) => [...slots]);
    tuples[this.chosen.tuple][this.chosen.slot] = node;
    const step = await this.ask("/api/place", this.question({ tuples }));
    this.append([{ ...step, byHand: true, since: 0, moved: [[this.chosen.tuple, this.chosen.slot, node]] }]);
    await this.go(this.here + 1);
  }

  // An agent that remembers its walk is asked to walk it again; one that does not goes on from where the marks are.
  async agentMoves(count) {
    const again = this.facts.remembers && this.now.since + count <= this.facts.most_moves ? this.now.since : 0;
    const from = this.steps[this.here - again];
    const walked = await this.ask("/api/walk", this.question({ tuples: from.tuples, moves: again + count }));
    this.append(walked.steps.slice(again).map((step, place) => ({ ...step, byHand: false, since: again + place + 1 })));
    await this.go(this.here + 1);
  }

  append(steps) {
    this.steps = [...this.steps.slice(0, this.here + 1), ...steps];
    this.beside.length = Math.min(this.beside.length, this.here + 1);
  }

  get now() {
    return this.steps[this.here];
  }

  async go(place) {
    this.here = Math.max(0, Math.min(this.steps.length - 1, place));
    this.show();
    if (byId("beside").checked) await this.walkBeside();
  }

  // Random moves keep pace with the agent's; where marks were placed by hand, both begin there.
  async walkBeside() {
    while (this.beside.length < this.steps.length) {
      const place = this.beside.length, step = this.steps[place];
      if (step.byHand) { this.beside.push(step); continue; }
      const question = this.question({ tuples: this.beside[place - 1].tuples, policy: "random moves", seed: ++this.seed });
      this.beside.push((await this.ask("/api/walk", question)).steps[0]);
    }
    this.show();
  }

  show() {
    if (!this.steps) return;
    const before = this.here ? this.steps[this.here - 1] : null, colours = byId("q-colours").checked;
    const range = this.picture.show(this.now, this.chosen, colours);
    byId("legend").hidden = !range;
    if (range) {
      byId("legend-low").textContent = number(range[0]);
      byId("legend-high").textContent = number(range[1]);
      byId("legend-words").textContent = `expected gain of moving ${this.nameOf(this.chosen.tuple, this.chosen.slot)} to ${this.graph.labels ? "an atom" : "a node"}; dashed: best`;
    }
    showAnswer(this.now, before, this.graph, this.facts);
    this.showBeside();
    byId("position").textContent = `step ${this.here} of ${this.steps.length - 1}`;
    byId("back").disabled = this.here === 0;
    byId("forward").disabled = this.here === this.steps.length - 1;
    byId("what-moved").textContent = this.moved();
    const beside = byId("beside").checked ? this.beside : [];
    if (this.facts.k) showCourse(byId("course"), this.steps, beside, this.here, this.facts, (place) => this.act(() => this.go(place)));
  }

  showBeside() {
    const on = byId("beside").checked, step = this.beside[this.here];
    byId("beside-figure").hidden = !on;
    if (!on || !step) return;
    this.besidePicture.show(step, this.chosen, false);
    const score = step.score === null ? "" : `, score ${number(step.score)}`;
    byId("beside-answer").textContent = inWords(step, this.facts) + score;
  }

  nameOf(tuple, slot) {
    return `mark ${slot + 1}${this.facts.m > 1 ? ` of tuple ${tuple + 1}` : ""}`;
  }

  moved() {
    if (!this.now.moved.length) return this.startHint();
    const parts = this.now.moved.map(([tuple, slot, node]) => `${this.nameOf(tuple, slot)} to ${this.graph.labels ? "atom" : "node"} ${this.graph.numbers?.[node] ?? node}`);
    const more = parts.length > 3 ? `, and ${parts.length - 3} more` : "";
    return `${this.now.byHand ? "You" : "The agent"} moved ${parts.slice(0, 3).join(", ")}${more}.${this.gained()}`;
  }

  // What can be done from here.
  startHint() {
    const place = "place a mark by hand";
    return `Start of the search: ${this.facts.moves ? `let the agent move, or ${place}` : place}.`;
  }

  // For one move of the agent: what Q expected and, where there is a score, what came of it.
  gained() {
    const before = this.steps[this.here - 1];
    if (this.now.byHand || this.now.moved.length !== 1 || !before?.q_table) return "";
    const [[tuple, slot, node]] = this.now.moved, expected = before.q_table[node]?.[tuple]?.[slot];
    if (expected === undefined || expected === null) return "";
    const real = this.now.score === null || before.score === null ? "" : `, actual ${number(this.now.score - before.score)}`;
    return ` Expected gain ${number(expected)}${real}.`;
  }

  async add() {
    const smiles = byId("smiles").value.trim();
    if (!smiles) throw new Error("type a SMILES first");
    const { graph } = await this.ask("/api/molecule", { run: this.run, smiles });
    this.facts = await this.ask(`/api/gallery?run=${encodeURIComponent(this.run)}`);
    byId("smiles").value = "";
    this.listGraphs();
    await this.choose(graph);
  }

  turn(by) {
    const count = this.facts.titles.length;
    if (count) return this.choose((this.number + by + count) % count);
    return undefined;
  }

  listen() {
    const on = (name, event, action) => byId(name).addEventListener(event, (occurred) => {
      occurred.preventDefault();
      this.act(action);
    });
    on("agent", "click", () => this.agentMoves(1));
    on("all-moves", "click", () => this.agentMoves(Math.min(this.facts.most_moves, Math.max(this.facts.t, 1))));
    on("back", "click", () => this.go(this.here - 1));
    on("forward", "click", () => this.go(this.here + 1));
    on("restart", "click", () => this.start(false));
    on("random", "click", () => this.start(true));
    on("place-form", "submit", () => this.place(this.nodeOf(Number(byId("node").value))));
    on("add", "submit", () => this.add());
    on("previous-graph", "click", () => this.turn(-1));
    on("next-graph", "click", () => this.turn(1));
    on("fit", "click", () => this.eachPicture((picture) => picture.fit()));
    on("zoom-in", "click", () => this.eachPicture((picture) => picture.zoom(1.4)));
    on("zoom-out", "click", () => this.eachPicture((picture) => picture.zoom(1 / 1.4)));
    byId("graph").addEventListener("change", () => this.act(() => this.choose(Number(byId("graph").value))));
    byId("q-colours").addEventListener("change", () => this.act(() => this.show()));
    byId("beside").addEventListener("change", () => this.act(() => this.go(this.here)));
    document.addEventListener("keydown", (event) => this.key(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show());
    new ResizeObserver(() => { if (this.steps && !byId("graphs").hidden) this.show(); }).observe(byId("course"));
  }

  eachPicture(action) {
    [this.picture, this.besidePicture].forEach(action);
  }

  key(event) {
    const typing = event.target.closest?.("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || byId("graphs").hidden || !this.steps || !this.facts) return;
    const keys = {
      ArrowLeft: () => this.go(this.here - 1), ArrowRight: () => this.go(this.here + 1),
      Home: () => this.go(0), End: () => this.go(this.steps.length - 1),
      a: () => (this.facts.moves ? this.agentMoves(1) : undefined), n: () => this.turn(1), p: () => this.turn(-1),
    };
    const action = keys[event.key] ?? keys[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    this.act(action);
  }
}
