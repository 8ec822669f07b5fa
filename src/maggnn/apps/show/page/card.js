// The model card: the few forms of Markdown that `maggnn fit` writes, put into text nodes and never into HTML.
import { made } from "./asking.js";

export function showCard(element, text) {
  element.replaceChildren(...blocks(text).map(block));
}

// Lines between blank ones; a heading is a separate block.
function blocks(text) {
  return text.replace(/^(#+ .*)$/gm, "\n$1\n").split(/\n\s*\n/).map((part) => part.replace(/^\n+|\s+$/g, "")).filter(Boolean);
}

function block(text) {
  const lines = text.split("\n");
  if (text.startsWith("#")) return made(text.startsWith("##") ? "h3" : "h2", {}, plain(text.replace(/^#+ /, "")));
  if (text.startsWith("    ")) return made("pre", {}, lines.map((line) => line.slice(4)).join("\n"));
  if (text.startsWith("|")) return table(lines);
  if (text.startsWith("- ")) return made("ul", {}, ...text.split(/\n(?=- )/).map((item) => made("li", {}, plain(item.slice(2)))));
  if (text.startsWith("![")) return made("span");
  return made("p", {}, plain(lines.join(" ")));
}

function table(lines) {
  const rows = lines.filter((line) => !/^\|[\s:|-]+\|$/.test(line))
    .map((line) => line.slice(1, -1).split(/(?<!\\)\|/).map((cell) => plain(cell.trim())));
  const cells = (row, tag) => made("tr", {}, ...row.map((cell) => made(tag, {}, cell)));
  return made("div", { class: "wide" }, made("table", {}, cells(rows[0], "th"), ...rows.slice(1).map((row) => cells(row, "td"))));
}

// Text without escapes.
function plain(text) {
  const entities = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'", "&#39;": "'" };
  return text.replace(/`/g, "").replace(/\\([\\!-/:-@[-`{-~])/g, "$1").replace(/&(lt|gt|amp|quot|#x27|#39);/g, (found) => entities[found]);
}
