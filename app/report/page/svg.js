// Drawings that can be taken along: elements of SVG, and what makes a file of them.
function svgNode(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function svgText(x, y, text, attributes = {}) {
  return svgNode("text", {x: x.toFixed(1), y: y.toFixed(1), ...attributes}, text);
}

function download(name, svg) {
  svg.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], {type: "image/svg+xml"}));
  node("a", {href: address, download: `${name}.svg`}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function downloadButton(name, title, draw) {
  return node("button", {type: "button", "aria-label": `Download ${title} as SVG`, click: () => download(name, onPaper(draw))}, "SVG");
}

// The line of a path; a null ends a piece, and what is undefined belongs to another line.
function pathOf(xs, ys, at) {
  let path = "", down = false;
  for (let i = 0; i < xs.length; ++i) {
    if (ys[i] === undefined) continue;
    if (ys[i] === null) {
      down = false;
      continue;
    }
    const [x, y] = at(xs[i], ys[i]);
    path += `${down ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    down = true;
  }
  return path;
}

// A drawing of what a plot of curves shows now, with its legend below.
function svgOfCurves(plot) {
  const chart = plot.chart, ratio = devicePixelRatio;
  const [left, top, width, height] = ["left", "top", "width", "height"].map(side => chart.bbox[side] / ratio);
  const shown = plot.drawn, foot = 40, row = 18;
  const total = [chart.width, chart.height + 24 + foot + row * shown.length];
  const svg = svgNode("svg", {width: total[0], height: total[1], viewBox: `0 0 ${total.join(" ")}`,
                              "font-family": "sans-serif", "font-size": 12, fill: css("--text")});
  svg.append(svgNode("rect", {width: "100%", height: "100%", fill: css("--ground")}), svgText(left, 16, plot.title, {"font-weight": "bold"}));
  const body = svgNode("g", {transform: "translate(0 24)"});
  const x = value => chart.valToPos(value, "x") + left, y = value => chart.valToPos(value, "y") + top;
  const [across, up] = chart.axes;
  (across._splits ?? []).forEach((value, i) => {
    const text = across._values?.[i];
    if (value === null || text === null || text === "" || x(value) < left || x(value) > left + width + 1) return;
    body.append(svgNode("path", {d: `M${x(value)} ${top}V${top + height}`, stroke: css("--line"), fill: "none"}),
                svgText(x(value), top + height + 16, text, {"text-anchor": "middle"}));
  });
  (up._splits ?? []).forEach((value, i) => {
    const text = up._values?.[i];
    if (value === null || text === null || text === "" || y(value) < top - 1 || y(value) > top + height + 1) return;
    body.append(svgNode("path", {d: `M${left} ${y(value)}H${left + width}`, stroke: css("--line"), fill: "none"}),
                svgText(left - 6, y(value) + 4, text, {"text-anchor": "end"}));
  });
  body.append(svgText(left + width / 2, top + height + 34, plot.across.name, {"text-anchor": "middle"}));
  const clip = `clip-${plot.id}`;
  body.append(svgNode("clipPath", {id: clip}, svgNode("rect", {x: left, y: top, width, height})));
  const inside = svgNode("g", {"clip-path": `url(#${clip})`, fill: "none"});
  const [xs, ...columns] = chart.data;
  const at = (a, b) => [x(a), y(b)];
  shown.forEach((line, i) => {
    const stroke = css(`--g${line.group % 10}`);
    const column = plot.columns[i];
    if (line.low) {
      const there = [...xs.keys()].filter(k => columns[column + 1][k] != null && columns[column + 2][k] != null);
      const edge = [...there.map(k => at(xs[k], columns[column + 1][k])), ...there.reverse().map(k => at(xs[k], columns[column + 2][k]))];
      inside.append(svgNode("polygon", {points: edge.map(p => p.map(v => v.toFixed(1)).join(",")).join(" "), fill: stroke, "fill-opacity": 0.18}));
    }
    const dash = plot.dash(line);
    inside.append(svgNode("path", {d: pathOf(xs, columns[column], at), stroke, "stroke-width": 1.5,
                                   ...(dash ? {"stroke-dasharray": dash.join(" ")} : {})}));
    const base = chart.height + 18 + row * i;
    body.append(svgNode("path", {d: `M${left} ${base - 4}h24`, stroke, "stroke-width": 2, ...(dash ? {"stroke-dasharray": dash.join(" ")} : {})}),
                svgText(left + 30, base, plot.nameOf(line)));
  });
  body.append(inside);
  svg.append(body);
  return svg;
}
