// Requests to the server, and small functions that every part of the page uses.

// A page that contains its responses (the player of the documentation) sets `maggnnAnswers`.
export async function ask(path, question) {
  return (globalThis.maggnnAnswers ?? askServer)(path, question);
}

async function askServer(path, question) {
  const options = question === undefined ? {} :
    { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question) };
  let reply;
  try {
    reply = await fetch(path, options);
  } catch {
    throw new Error("the server does not answer: is `maggnn show` still running?");
  }
  const said = await reply.json().catch(() => ({ error: `the server answered ${reply.status}` }));
  if (!reply.ok) throw new Error(said.error ?? `the server answered ${reply.status}`);
  return said;
}

export const byId = (name) => document.getElementById(name);

export function showError(error) {
  byId("error").textContent = error ? error.message ?? String(error) : "";
  byId("error").hidden = !error;
}

// Run an action of the user and show its error, if any, in one line.
export const guarded = (action) => async (event) => {
  event?.preventDefault?.();
  try {
    showError(null);
    await action(event);
  } catch (error) {
    showError(error);
  }
};

export function made(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "circle", "line", "text", "rect"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Four significant digits, without trailing zeros.
export function number(value) {
  if (value === null || value === undefined) return "not a number";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
  return text.replaceAll("-", "−");
}

export function change(value) {
  if (!Number.isFinite(value) || Math.abs(value) < 5e-7) return "";
  return (value > 0 ? "+" : "") + number(value);
}

export function fillSelect(select, entries, chosen) {
  const same = select.options.length === entries.length
    && entries.every(([value, text], place) => select.options[place].value === value && select.options[place].text === text);
  if (!same) select.replaceChildren(...entries.map(([value, text]) => new Option(text, value)));
  if (chosen !== undefined) select.value = chosen;
}
