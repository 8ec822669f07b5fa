// The page as a whole: which run and which view are shown, and polling every second.
import { ask, byId, fillSelect, guarded, showError } from "./asking.js";
import { showCard } from "./card.js";
import { Curve, MovesCurve, titleOf } from "./curves.js";
import { Playing } from "./playing.js";

const EVERY_MS = 1000;
const ALL = "";
const VIEWS = ["training", "graphs", "card"];

class Page {
  constructor() {
    this.playing = new Playing();
    this.moves = new MovesCurve();
    this.paused = false;
    this.view = document.body.dataset.view ?? "training";
    this.reset();
    this.listen();
  }

  reset() {
    this.curves = new Map();
    this.place = "";
    this.unreadable = 0;
    this.model = undefined; // the version whose gallery and moves are shown
    this.last = undefined;
    this.moves.tell("Measured when training ends.");
    this.playing.close();
    byId("curves").replaceChildren();
  }

  async begin() {
    await guarded(() => this.listRuns())();
    if (this.runs?.length) await this.choose(this.runs[0].name);
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
      if (this.paused || this.choosing || document.hidden) continue;
      try {
        await this.listRuns();
        // `maggnn fit` removes the folder that it trained in when the model is there.
        if (this.choosing || this.paused) continue;
        if (this.runs.some(({ name }) => name === this.run)) await this.look();
        else await this.choose(this.runs[0].name);
        if (byId("error").dataset.lost) showError(null);
        delete byId("error").dataset.lost;
      } catch (error) {
        showError(error);
        byId("error").dataset.lost = "1";
      }
    }
  }

  async listRuns() {
    const found = await ask("/api/runs");
    this.runs = found.runs;
    document.title = `maggnn show ${found.folder}`;
    fillSelect(byId("run"), found.runs.map(({ name, stage }) => [name, stage === "finished" ? name : `${name} (${stage})`]), this.run);
  }

  async choose(run) {
    this.run = run;
    byId("run").value = run;
    this.reset();
    this.choosing = run;
    await guarded(() => this.look())();
    if (run !== this.run) return;
    this.choosing = null;
    const logged = [...this.curves.values()].some((curve) => curve.points.length);
    const there = { training: logged || this.facts?.stage === "training", graphs: true, card: this.facts?.card };
    this.show(there[this.view] ? this.view : "graphs");
  }

  // Updates of the run: its progress, new lines of its log, and a new model.
  async look() {
    const run = this.run, at = encodeURIComponent(run), look = this.current = {};
    const facts = await ask(`/api/run?run=${at}`);
    if (look !== this.current) return;
    this.facts = facts;
    this.describe();
    if (!byId("curves").children.length) this.arrange();
    let found;
    do {
      found = await ask(`/api/metrics?run=${at}&place=${encodeURIComponent(this.place)}`);
      if (look !== this.current) return;
      this.take(found);
    } while (found.more);
    if (facts.model && facts.model !== this.model) await this.newModel(run, facts.model);
  }

  async newModel(run, version) {
    this.model = version;
    if (this.facts.kind === "train") {
      this.moves.tell("Measuring…");
      ask(`/api/moves?run=${encodeURIComponent(run)}`).then((measured) => {
        if (run !== this.run) return;
        this.moves.measured = measured;
        this.moves.draw();
      }, (error) => { if (run === this.run) this.moves.tell(`Not measured: ${error.message}.`); });
    }
    if (this.facts.card) await this.readCard(run);
    await this.playing.open(run);
  }

  async readCard(run) {
    const at = encodeURIComponent(run), { text, picture } = await ask(`/api/card?run=${at}`);
    if (run !== this.run) return;
    showCard(byId("card-text"), text);
    byId("card-picture").hidden = !picture;
    if (picture) byId("card-picture").src = `/api/card-picture?run=${at}&model=${this.model}`;
  }

  describe() {
    const { stage, data, m, k, t, kind } = this.facts;
    byId("stage").textContent = stage;
    byId("stage").className = `chip ${stage}`;
    byId("view-card").hidden = !this.facts.card;
    const marks = k === undefined || k === null ? "" : k ? `m = ${m}, k = ${k}, t = ${t}` : "no marks (k = 0)";
    byId("about").textContent = [kind === "fit" ? "maggnn fit" : data.split("/").at(-1), marks].filter(Boolean).join(" · ");
    if (!this.facts.model) {
      byId("no-graphs").hidden = false;
      byId("no-graphs").textContent = "There is no model yet: it is written when training ends, and then graphs appear here.";
      byId("playground").hidden = true;
      byId("add").hidden = true;
    }
  }

  take(found) {
    if (found.fresh) { for (const curve of this.curves.values()) curve.points = []; this.unreadable = 0; }
    this.place = found.place;
    this.unreadable += found.unreadable;
    for (const { phase, step, ...scalars } of found.lines) {
      for (const [name, value] of Object.entries(scalars)) {
        if (!this.curves.has(name)) this.addCurve(name);
        this.curves.get(name).points.push([step, value]);
      }
      this.last = { phase, step };
    }
    if (found.lines.length || found.fresh) this.drawCurves();
    const lost = this.unreadable ? ` ${this.unreadable} ${this.unreadable > 1 ? "lines" : "line"} cannot be read.` : "";
    byId("log-note").textContent = this.progress() + lost;
    const none = !this.curves.size;
    byId("no-curves").hidden = !none;
    byId("no-curves").textContent = this.facts.kind === "fit"
      ? "No training log is kept in this folder; the model card says how well the model does."
      : "Nothing has been logged yet.";
  }

  progress() {
    if (!this.last || !this.curves.size) return "";
    const total = this.facts.steps[this.last.phase];
    const phase = this.facts.steps.length > 1 ? [", predictor", ", agent"][this.last.phase] ?? "" : "";
    return `step ${this.last.step + 1}${total ? ` of ${total}` : ""}${phase}.`;
  }

  addCurve(name) {
    this.curves.set(name, new Curve(name));
    this.arrange();
  }

  arrange() {
    const shown = byId("metric").value, names = [...this.curves.keys()];
    const entries = [[ALL, "All curves"], ...names.map((name) => [name, titleOf(name)])];
    if (this.facts.kind === "train") entries.push(["moves", "Metric against moves"]);
    fillSelect(byId("metric"), entries, entries.some(([value]) => value === shown) ? shown : ALL);
    const cards = [...this.curves.values(), ...(this.facts.kind === "train" ? [this.moves] : [])];
    const chosen = byId("metric").value;
    byId("curves").classList.toggle("one", chosen !== ALL);
    byId("curves").replaceChildren(...cards.filter(({ name }) => chosen === ALL || name === chosen).map(({ card }) => card));
  }

  drawCurves() {
    if (byId("training").hidden) return;
    for (const curve of [...this.curves.values(), this.moves]) if (curve.card.isConnected) curve.draw();
  }

  show(view) {
    this.view = view;
    for (const name of VIEWS) {
      byId(name).hidden = name !== view;
      if (name === view) byId(`view-${name}`).setAttribute("aria-current", "page");
      else byId(`view-${name}`).removeAttribute("aria-current");
    }
    if (view === "training") this.drawCurves();
    else if (this.playing.steps && this.playing.facts) this.playing.show();
  }

  listen() {
    byId("run").addEventListener("change", () => this.choose(byId("run").value));
    byId("metric").addEventListener("change", () => { this.arrange(); this.drawCurves(); });
    byId("pause").addEventListener("click", () => {
      this.paused = !this.paused;
      if (!this.choosing) this.current = null; // a pending response is ignored
      byId("pause").textContent = this.paused ? "Resume updates" : "Pause updates";
      byId("pause").setAttribute("aria-pressed", String(this.paused));
    });
    for (const name of VIEWS) byId(`view-${name}`).addEventListener("click", () => this.show(name));
    let width = 0;
    new ResizeObserver(([entry]) => {
      if (entry.contentRect.width === width) return;
      width = entry.contentRect.width;
      this.drawCurves();
    }).observe(byId("curves"));
  }
}

new Page().begin();
