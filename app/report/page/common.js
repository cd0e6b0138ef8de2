"use strict";
// What the page knows of the runs: to_page() wrote it.
let data = JSON.parse(document.getElementById("data").textContent);
const state = {x: "steps", logX: false, hidden: new Set()};  // hidden: groups that are not drawn

const axes = {
  steps: {name: "steps", text: plainNumber},
  seconds: {name: "seconds", text: plainNumber},
  bytes: {name: "bytes sent by all ranks", text: bytesText},
};

function bytesText(value) {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit + 1 < units.length) {
    value /= 1000;
    ++unit;
  }
  return `${+value.toPrecision(3)} ${units[unit]}`;
}

function plainNumber(value) {
  if (value === null || value === undefined) return "-";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e7) ? value.toExponential(2) : String(+value.toPrecision(6));
}

// An element with attributes; functions among them are listeners. Children are elements or texts.
function node(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function chip(group) {
  return node("i", {class: `chip g${group % 10}`});
}

// The table behind a plot, made when it is opened. `rows()` gives rows of texts.
function tableBehind(headings, rows) {
  const details = node("details", {}, node("summary", {}, "Table"));
  details.addEventListener("toggle", () => {
    details.querySelector(".scroll")?.remove();
    if (!details.open) return;
    const cells = row => row.map((text, i) => node(i === 0 ? "th" : "td", i === 0 ? {scope: "row"} : {}, text));
    const head = node("tr", {}, ...headings().map(text => node("th", {scope: "col"}, text)));
    const body = node("tbody", {}, ...rows().map(row => node("tr", {}, ...cells(row))));
    details.append(node("div", {class: "scroll", tabindex: "0"}, node("table", {}, node("thead", {}, head), body)));
  });
  return details;
}

// Draws with the colours of paper, whatever the screen has.
function onPaper(draw) {
  document.documentElement.dataset.theme = "light";
  try {
    return draw();
  } finally {
    delete document.documentElement.dataset.theme;
  }
}
