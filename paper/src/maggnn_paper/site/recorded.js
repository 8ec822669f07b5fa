// Answers of a recorded page: what the server of `maggnn show` said for every placement of the marks, as a table.
const recorded = JSON.parse(document.getElementById("recorded").textContent);
const find = (name) => recorded.runs.find((run) => run.facts.name === name) ?? recorded.runs[0];

// The state with these marks; tables have one row for each tuple of two nodes.
function stateAt(graph, tuples, moved = []) {
  const nodes = graph.picture.positions.length, [first, second] = tuples[0];
  const { answer, score, gains } = graph.states[first * nodes + second];
  const table = Array.from({ length: nodes }, (_, node) => [[gains[2 * node], gains[2 * node + 1]]]);
  return { tuples, q_table: table, answer, score, moved };
}

function moveTo(tuples, slot, node) {
  const slots = [...tuples[0]];
  slots[slot] = node;
  return [slots];
}

function walk(graph, { tuples, moves = 1, policy = "agent" }) {
  const nodes = graph.picture.positions.length, steps = [];
  for (let move = 0; move < moves; move++) {
    const [slot, node] = policy === "agent" ? graph.states[tuples[0][0] * nodes + tuples[0][1]].move
      : [Math.floor(2 * Math.random()), Math.floor(nodes * Math.random())];
    tuples = moveTo(tuples, slot, node);
    steps.push(stateAt(graph, tuples, [[0, slot, node]]));
  }
  return { steps };
}

function start(graph, { at_random: atRandom }) {
  const nodes = graph.picture.positions.length, anywhere = () => Math.floor(nodes * Math.random());
  return stateAt(graph, atRandom ? [[anywhere(), anywhere()]] : graph.start);
}

const ANSWERS = {
  "/api/runs": () => ({ folder: "recorded", runs: recorded.runs.map(({ facts: { name, stage } }) => ({ name, stage })) }),
  "/api/run": ({ run }) => find(run).facts,
  "/api/metrics": ({ run, place }) => ({ lines: place ? [] : find(run).lines, place: "end", fresh: !place, more: false, unreadable: 0 }),
  "/api/moves": ({ run }) => find(run).moves,
  "/api/gallery": ({ run }) => find(run).gallery,
  "/api/graph": ({ run, graph }) => find(run).graphs[graph].picture,
  "/api/start": (question) => start(find(question.run).graphs[question.graph], question),
  "/api/place": ({ run, graph, tuples }) => stateAt(find(run).graphs[graph], tuples),
  "/api/walk": (question) => walk(find(question.run).graphs[question.graph], question),
};

globalThis.maggnnAnswers = async (path, question) => {
  const url = new URL(path, "http://recorded/");
  const answer = ANSWERS[url.pathname]?.(question ?? Object.fromEntries(url.searchParams));
  if (!answer) throw new Error("this was not recorded: `maggnn show` answers it for a model of your own");
  return structuredClone(answer);
};
