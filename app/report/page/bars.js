// Bars, one below another, each under its name. A row is {name, group, parts: [{name, value, colour}], text, low, high}.
class Bars {
  constructor(id, title, rows, headings, tableRows) {
    Object.assign(this, {id, title, rows});
    this.host = node("div", {class: "host", role: "img", "aria-label": `${title}; the table has the numbers`});
    this.figure = node("figure", {id: `bars-${id}`},
      node("figcaption", {}, node("h3", {}, title), node("span", {class: "buttons"}, downloadButton(id, title, () => this.make(this.width(), true)))),
      this.host, tableBehind(() => headings, () => tableRows));
  }

  width() {
    return Math.max(220, Math.floor(this.host.clientWidth));
  }

  draw() {
    this.host.replaceChildren(this.make(this.width(), false));
  }

  resize() {
    if (this.drawn !== this.width()) this.draw();
  }

  make(width, alone) {
    if (!alone) this.drawn = width;
    const legend = [...new Map(this.rows.flatMap(row => row.parts).filter(part => part.name).map(part => [part.name, part.colour]))];
    const rowHeight = 36, letter = 6.6, head = (alone ? 22 : 0);
    let x = 0, y = head + 12;
    const svg = svgNode("svg", {"font-family": "sans-serif", "font-size": 12, fill: css("--text")});
    if (alone) svg.append(svgNode("rect", {width: "100%", height: "100%", fill: css("--ground")}), svgText(0, 14, this.title, {"font-weight": "bold"}));
    for (const [name, colour] of legend) {
      const wide = 18 + letter * name.length + 12;
      if (x > 0 && x + wide > width) [x, y] = [0, y + 18];
      svg.append(svgNode("rect", {x, y: y - 10, width: 12, height: 12, rx: 2, fill: css(colour)}), svgText(x + 17, y, name));
      x += wide;
    }
    y += legend.length > 0 ? 8 : -12;
    const most = Math.max(...this.rows.map(row => Math.max(row.high ?? 0, row.parts.reduce((sum, part) => sum + part.value, 0))), 1e-12);
    for (const row of this.rows) {
      const room = Math.max(4, Math.floor((width - letter * row.text.length - 16) / letter));
      const name = row.name.length > room ? row.name.slice(0, room - 1) + "\u2026" : row.name;
      svg.append(svgNode("g", {}, svgNode("title", {}, `${row.name}: ${row.text}`), svgText(0, y + 13, name),
                         svgText(width, y + 13, row.text, {"text-anchor": "end"})));
      let from = 0;
      for (const part of row.parts) {
        const wide = part.value / most * width;
        if (wide > 0) svg.append(svgNode("rect", {x: from.toFixed(2), y: y + 17, width: wide.toFixed(2), height: 12, fill: css(part.colour)}));
        from += wide;
      }
      if (row.high > row.low) {
        const [a, b] = [row.low / most * width, row.high / most * width].map(v => Math.min(width - 1, Math.max(1, v)).toFixed(1));
        svg.append(svgNode("path", {d: `M${a} ${y + 19}v8M${a} ${y + 23}H${b}M${b} ${y + 19}v8`, stroke: css("--text"), fill: "none"}));
      }
      y += rowHeight;
    }
    for (const [key, value] of Object.entries({width, height: y + 4, viewBox: `0 0 ${width} ${y + 4}`})) svg.setAttribute(key, value);
    return svg;
  }
}

// Steps, time and bytes until the target, as means over the runs of a group that reached it.
function targetBars() {
  const kinds = {steps: ["Steps", value => String(+value.toPrecision(4))], seconds: ["Time", value => `${+value.toPrecision(4)} s`], bytes: ["Bytes sent by all ranks", bytesText]};
  return Object.entries(kinds).map(([key, [title, text]]) => {
    const rows = data.target.rows.map(row => {
      const group = data.groups[row.group], some = row.reached > 0;
      const [mean, low, high] = some ? row[key] : [0, 0, 0];
      const of = row.runs > 1 || !some ? ` (${row.reached} of ${row.runs})` : "";
      return {name: group.title, text: some ? text(mean) + of : `not reached${of}`, low, high,
              parts: [{name: "", value: mean, colour: `--g${row.group % 10}`}]};
    });
    const table = data.target.rows.map(row => [data.groups[row.group].title, `${row.reached} of ${row.runs}`,
      ...(row.reached > 0 ? row[key].map(plainNumber) : ["-", "-", "-"])]);
    return new Bars(`target-${key}`, `${title} to ${data.target.text}`, rows, ["runs", "reached it", "mean", "least", "most"], table);
  });
}

// Two bars each: the step as its rank spends it, and the exchange, which may overlap with computing.
function timeBars(id, title, times, nameOf) {
  const ms = value => `${+value.toPrecision(4)} ms`;
  const rows = times.flatMap(time => {
    const data = Math.min(time.data, time.compute), rest = Math.max(0, time.step - time.compute - time.wait);
    const hidden = time.hidden === null ? "" : `, ${Math.round(100 * time.hidden)} % hidden`;
    return [{name: `${nameOf(time)}: step`, text: ms(time.step), parts: [
              {name: "compute", value: time.compute - data, colour: "--compute"}, {name: "data", value: data, colour: "--data"},
              {name: "waiting", value: time.wait, colour: "--wait"}, {name: "rest", value: rest, colour: "--rest"}]},
            {name: "exchange", text: ms(time.encode + time.network + time.decode) + hidden, parts: [
              {name: "encode", value: time.encode, colour: "--encode"}, {name: "network", value: time.network, colour: "--network"},
              {name: "decode", value: time.decode, colour: "--decode"}]}];
  });
  const columns = ["step", "compute", "data", "wait", "encode", "network", "decode"];
  const table = times.map(time => [nameOf(time), ...columns.map(column => plainNumber(time[column])),
                                   time.hidden === null ? "-" : plainNumber(time.hidden)]);
  return new Bars(id, title, rows, ["run", ...columns.map(column => `${column} ms`), "hidden share"], table);
}

// The bytes of each tensor in the messages of a group of runs. Tensors with less than a hundredth of the bytes share a bar.
function tensorBars() {
  return data.tensors.map(({group, steps, rows}) => {
    const sum = rows.reduce((all, row) => all + row.bytes, 0), ratio = row => row.bytes > 0 && row.elements > 0 ? 4 * row.elements / row.bytes : null;
    const together = rows.at(-1), tensors = rows.slice(0, -1);
    const small = tensors.filter(row => row.bytes < sum / 100), shown = tensors.filter(row => row.bytes >= sum / 100);
    if (small.length > 0) {
      const total = key => small.reduce((all, row) => all + row[key], 0);
      shown.push({name: small.length > 1 ? `${small.length} small ones` : small[0].name, elements: total("elements"), bytes: total("bytes")});
    }
    const bar = row => ({name: row.name, parts: [{name: "", value: Math.max(0, row.bytes), colour: `--g${group % 10}`}],
      text: bytesText(row.bytes) + (ratio(row) === null ? "" : `, ${+ratio(row).toPrecision(3)}x smaller`)});
    const table = rows.map(row => [row.name, row.elements > 0 ? String(row.elements) : "-", String(+row.bytes.toFixed(1)), plainNumber(ratio(row)), plainNumber(row.bytes / sum)]);
    const of = steps > 1 ? `mean of ${steps} gradients` : "one gradient";
    return new Bars(`tensors-${group}`, `${data.groups[group].title}: ${bytesText(sum)}, ${of}`, [...shown, together].map(bar),
      ["tensor", "elements", "bytes", "ratio", "share"], table);
  });
}
