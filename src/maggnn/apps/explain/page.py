"""An explanation as one HTML page that needs no network: both walks step by step, charts, and the best moves.

Without JavaScript all steps are shown one below the other; the script only hides all but the chosen one.
"""

from __future__ import annotations

from html import escape

from maggnn.apps.draw.marked import step_name
from maggnn.apps.draw.shapes import to_svg
from maggnn.apps.explain.chart import charts
from maggnn.apps.explain.explanation import BestMove, Explanation
from maggnn.apps.explain.picture import legend, panel
from maggnn.apps.explain.trace import Trace

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #212529; --soft: #5f6871; --line: #ced4da;
  --button: #f8f9fa; --rim: #8a949e; --accent: #c25200; --up: #1557a0; --down: #b03010; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #15191d; --ink: #e8ecef; --soft: #a5b0ba; --line: #39424b; --button: #262e36;
    --rim: #76838f; --accent: #ff9d52; --up: #7fc0fa; --down: #ff9a80; }
  /* Dark becomes light and hues stay; a little less than inverted, so that faint lines are seen on the ground. */
  svg { filter: invert(0.9) hue-rotate(180deg); }
}
body { font: 15px/1.45 Helvetica, Arial, 'DejaVu Sans', sans-serif; color: var(--ink); background: var(--ground);
  margin: 0 auto; max-width: 1000px; padding: 20px; }
h1 { font-size: 22px; margin: 0 0 2px; overflow-wrap: anywhere; } h2 { font-size: 16px; margin: 26px 0 6px; }
p { margin: 4px 0; } .soft { color: var(--soft); }
.controls { display: flex; gap: 10px; align-items: center; margin: 18px 0 4px; }
.controls input { flex: 1; accent-color: var(--accent); } .controls output { min-width: 9em; }
button { font: inherit; color: inherit; padding: 4px 12px; border: 1px solid var(--rim); border-radius: 6px;
  background: var(--button); cursor: pointer; }
.walks, .charts { display: flex; flex-wrap: wrap; gap: 20px; } .walks > section { flex: 1 1 340px; }
svg { max-width: 100%; height: auto; } .walks svg { width: 100%; }
table { border-collapse: collapse; } th, td { padding: 3px 18px 3px 0; text-align: left; }
th { border-bottom: 1px solid var(--line); font-weight: 600; } td.number { font-variant-numeric: tabular-nums; }
tr.made td { font-weight: 600; } .stepping .step { display: none; } .stepping .step.now { display: block; }
.stepping table.step.now { display: table; }
h2.part { border-top: 1px solid var(--line); padding-top: 14px; }
article { border-bottom: 1px solid var(--line); padding: 12px 0; } .answer { font-weight: 600; }
.property { display: flex; flex-wrap: wrap; gap: 26px; align-items: center; margin: 10px 0; }
.similar { display: flex; flex-wrap: wrap; gap: 12px; } .similar figure { margin: 0; width: 180px; font-size: 13px; }
figcaption { overflow-wrap: anywhere; } summary { cursor: pointer; margin: 8px 0; }
.up { color: var(--up); } .down { color: var(--down); }
.controls input { min-width: 0; } .controls button { white-space: nowrap; }
@media (max-width: 600px) {
  body { padding: 14px; font-size: 14px; } th, td { padding-right: 9px; } .controls output { min-width: 6.5em; }
}
"""

SCRIPT = """
const slider = document.getElementById("step"), shown = document.getElementById("shown");
function show(step) {
  slider.value = step;
  for (const part of document.querySelectorAll(".step")) {
    part.classList.toggle("now", part.dataset.step === slider.value);
  }
  const here = document.querySelector(".step.now");
  shown.textContent = here ? here.dataset.name : "";
}
document.body.classList.add("stepping");
document.getElementById("controls").hidden = false;
slider.addEventListener("input", () => show(slider.value));
for (const [name, by] of [["back", -1], ["next", 1]]) {
  document.getElementById(name).addEventListener("click", () => show(Number(slider.value) + by));
}
show(0);
"""

PANEL = 360.0
"""The width of a panel before the page scales it."""


def page(explanation: Explanation, above: str = "") -> str:
    """Return the whole page.

    Args:
        above: HTML above the search: the explanation of the property.
    """
    body = f"""<h1>{escape(explanation.name)}</h1>
{above}
{'<h2 class="part">Where the marks moved</h2>' if above else ""}
{search(explanation, fitted=bool(above))}
<script>{SCRIPT}</script>"""
    return document(f"{explanation.name}: where the marks moved", body)


def document(title: str, body: str) -> str:
    """Return an HTML document that needs no network."""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head><body>
{body}</body></html>
"""


def search(explanation: Explanation, fitted: bool = False) -> str:
    """Return both walks, the moves with the largest expected gains and the charts, as HTML.

    Args:
        fitted: whether the page also has the prediction of a fitted model, which blends and calibrates networks.
    """
    last = len(explanation.agent.steps) - 1
    best = "".join(_best(explanation, number) for number in range(last + 1))
    drawn = "".join(to_svg(drawing) for drawing in charts(explanation))
    return f"""{_facts(explanation, fitted)}
<div class="controls" id="controls" hidden><button id="back" type="button">&#9664; back</button>
<input id="step" type="range" min="0" max="{last}" value="0" aria-label="step">
<button id="next" type="button">next &#9654;</button><output id="shown"></output></div>
<div class="walks">{_walk(explanation, "Agent", explanation.agent)}
{_walk(explanation, "Random moves, from the same start", explanation.random[0])}</div>
{to_svg(legend(explanation), "what shades and rings mean")}
<h2>The moves with the largest expected gains from here</h2>
{best}
<h2>After each move</h2>
<p class="soft">The band contains the middle 80 % of the random walks, and its line is their mean.</p>
<div class="charts">{drawn}</div>"""


def walk_only(explanation: Explanation) -> str:
    """Return the agent's walk as a row of panels."""
    panels = "".join(
        to_svg(panel(explanation, explanation.agent, number, PANEL), step_name(number))
        for number in range(len(explanation.agent.steps))
    )
    key = to_svg(legend(explanation), "what shades and rings mean")
    return f'{_facts(explanation, fitted=True)}<div class="charts">{panels}</div>{key}'


def _facts(explanation: Explanation, fitted: bool) -> str:
    answer = "; ".join(explanation.answer_text(explanation.agent.steps[explanation.answer_step]))
    who = "The network alone, without calibration and blending, answers" if fitted else "The model answers"
    lines = [f"{who} {answer} ({step_name(explanation.answer_step)})."]
    true = explanation.target_text()
    if true:
        lines.append(f"True: {true}. The score is minus the loss of Eq. 5; gains are differences of scores (Eq. 8).")
    return "\n".join(f"<p>{escape(line)}</p>" for line in lines) + "".join(
        f'\n<p class="soft">{escape(note)}</p>' for note in explanation.notes
    )


def _walk(explanation: Explanation, title: str, walk: Trace) -> str:
    panels = [
        f'<div class="step" data-step="{number}" data-name="{step_name(number)}">'
        f"{to_svg(panel(explanation, walk, number, PANEL), f'{title}, {step_name(number)}')}</div>"
        for number in range(len(walk.steps))
    ]
    return f"<section><h2>{escape(title)}</h2>{''.join(panels)}</section>"


def _best(explanation: Explanation, number: int) -> str:
    """Return the table of one step."""
    moves = explanation.best_moves[number]
    true = "<th>true gain</th>" if any(move.true is not None for move in moves) else ""
    rows = "".join(_row(explanation, move) for move in moves)
    return (
        f'<table class="step" data-step="{number}" data-name="{step_name(number)}">'
        f"<tr><th>mark</th><th>from</th><th>to</th><th>expected gain</th>{true}<th></th></tr>{rows}</table>"
    )


def _row(explanation: Explanation, move: BestMove) -> str:
    several = len(explanation.agent.steps[0].tuples) > 1
    mark = f"{move.slot + 1} of tuple {move.number + 1}" if several else f"{move.slot + 1}"
    names = [explanation.graph.node_name(node) for node in (move.old, move.new)]
    names[1] = "stays" if move.new == move.old else names[1]
    numbers = [move.expected] if move.true is None else [move.expected, move.true]
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in [mark, *names])
    cells += "".join(f'<td class="number">{_gain(value)}</td>' for value in numbers)
    return f'<tr class="made">{cells}<td>made</td></tr>' if move.made else f"<tr>{cells}<td></td></tr>"


def _gain(value: float) -> str:
    """Format a gain; values below the resolution of single precision become 0."""
    return f"{value:+.4g}" if abs(value) > 1e-6 else "0"
