// Puts the page together.
const curves = data.plots.map(spec => new Curves(spec));
let bars = [];

function meanOfRanks(group) {
  const ranks = data.times.filter(time => time.group === group), mean = {group};
  for (const key of Object.keys(ranks[0]).filter(name => name !== "group" && name !== "rank")) {
    const values = ranks.map(rank => rank[key]);
    mean[key] = values.includes(null) ? null : values.reduce((sum, value) => sum + value, 0) / ranks.length;
  }
  return mean;
}

function controls() {
  const redraw = () => curves.forEach(plot => plot.draw());
  const choices = Object.entries(axes).map(([key, axis]) => node("label", {}, node("input",
    {type: "radio", name: "x", value: key, ...(key === state.x ? {checked: ""} : {}), change: () => {
      state.x = key;
      redraw();
    }}), ` ${axis.name}`));
  const log = node("input", {type: "checkbox", id: "log-x", change: () => {
    state.logX = log.checked;
    redraw();
  }});
  const runs = data.groups.map((group, g) => {
    const button = node("button", {type: "button", class: "run", "aria-pressed": "true", title: group.name, click: () => {
      if (!state.hidden.delete(g)) state.hidden.add(g);
      button.setAttribute("aria-pressed", String(!state.hidden.has(g)));
      redraw();
    }}, chip(g), group.title);
    return button;
  });
  const against = curves.every(plot => plot.own) ? [] : [node("fieldset", {}, node("legend", {}, "Against"), ...choices)];
  document.getElementById("controls").append(...against, node("label", {}, log, " log x"),
    node("fieldset", {class: "runs"}, node("legend", {}, "Show"), ...runs));
  document.getElementById("plots").before(node("p", {class: "hint", id: "keys"},
    "Drag over a plot to zoom, double click to see all. Keys in a plot: left and right move the cursor, + and - zoom, shift with left and right moves along, 0 shows all. " + (data.times ? "Dashed lines are of training data, where a plot has both." : "Dashed lines are of memories.")));
}

function times() {
  const place = document.getElementById("times");
  const mean = timeBars("times", "Means over the ranks", data.groups.map((group, g) => meanOfRanks(g)), time => data.groups[time.group].title);
  const each = timeBars("times-of-ranks", "Every rank", data.times, time => `${data.groups[time.group].title}, rank ${time.rank}`);
  const open = place.querySelector(":scope > details")?.open ? {open: ""} : {};
  const more = node("details", {toggle: () => more.open && each.draw(), ...open}, node("summary", {}, "Every rank"), each.figure);
  place.replaceChildren(mean.figure, more);
  bars.push(mean, each);
}

function allBars() {
  bars = [];
  if (data.target) {
    const three = targetBars();
    document.getElementById("target-bars").replaceChildren(node("div", {class: "bars"}, ...three.map(one => one.figure)));
    bars.push(...three);
  }
  if (data.times) times();
  const place = document.getElementById("tensor-bars");
  if (place) {
    const tensors = tensorBars();
    place.replaceChildren(...tensors.map(one => one.figure));
    bars.push(...tensors);
  }
}

function drawAll() {
  for (const one of [...curves, ...bars]) one.draw();
}

controls();
document.getElementById("plots").append(...curves.map(plot => plot.figure));
allBars();
drawAll();

let waiting = 0;
new ResizeObserver(() => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => [...curves, ...bars].forEach(one => one.resize()));
}).observe(document.body);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
addEventListener("beforeprint", () => {
  document.documentElement.dataset.theme = "light";
  drawAll();
});
addEventListener("afterprint", () => {
  delete document.documentElement.dataset.theme;
  drawAll();
});
