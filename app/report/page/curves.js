// A plot of curves: mean lines, and the spread over seeds as a band. With `spec.across`, the name of a separate axis,
// its lines have their places in `x`; otherwise they have one for each of the axes.
class Curves {
  constructor(spec) {
    this.id = spec.id;
    this.title = spec.title;
    this.lines = spec.lines;
    this.own = spec.across ? {name: spec.across, text: plainNumber} : null;
    this.names = new Set(spec.lines.map(line => line.name));
    this.logY = false;
    const log = node("input", {type: "checkbox", change: () => {
      this.logY = log.checked;
      this.draw();
    }});
    this.host = node("div", {class: "host", tabindex: "0", role: "group", "aria-describedby": "keys",
                             "aria-label": `${spec.title}: plot`, keydown: event => this.key(event)});
    this.readout = node("p", {class: "readout", "aria-live": "polite"});
    this.figure = node("figure", {id: `plot-${spec.id}`},
      node("figcaption", {}, node("h3", {}, spec.title),
        node("span", {class: "buttons"}, node("label", {}, log, " log y"),
          node("button", {type: "button", "aria-label": `Show all of ${spec.title}`, click: () => this.reset()}, "all"),
          downloadButton(spec.id, spec.title, () => this.paint(svgOfCurves)))),
      this.host, this.readout,
      tableBehind(() => ["curve", ...(this.own ? [this.own.name] : ["steps", "seconds", "bytes"]), "mean", "lowest", "highest"],
                  () => this.rows()));
  }

  get across() {
    return this.own ?? axes[state.x];
  }

  xs(line) {
    return this.own ? line.x : line[state.x];
  }

  // The lines of groups that are not hidden.
  shown() {
    return this.lines.filter(line => !state.hidden.has(line.group));
  }

  nameOf(line) {
    const {name, runs} = data.groups[line.group];
    return name + (this.names.size > 1 ? ` (${line.name})` : "") + (runs > 1 ? `, mean of ${runs} runs` : "");
  }

  // What is not the first kind of a plot is dashed, and so are groups that share a colour with another one.
  dash(line) {
    if (this.names.size > 1 && ["train", "memory"].includes(line.name)) return [3, 4];
    return line.group < 10 ? null : [[10, 4], [6, 3, 2, 3]][Math.floor(line.group / 10) % 2];
  }

  rows() {
    const text = value => value === null ? "not finite" : plainNumber(value);
    const places = (line, i) => this.own ? [text(line.x[i])] : [text(line.steps[i]), text(line.seconds[i]), String(line.bytes[i])];
    return this.shown().flatMap(line => line.mean.map((mean, i) => [
      this.nameOf(line), ...places(line, i), text(mean), text((line.low ?? line.mean)[i]), text((line.high ?? line.mean)[i])]));
  }

  // A table for uPlot of one line: points that a logarithmic axis cannot show are left out, or gaps.
  table(line) {
    const xs = this.xs(line), kept = [...xs.keys()].filter(i => !state.logX || xs[i] > 0).sort((a, b) => xs[a] - xs[b]);
    const values = column => kept.map(i => this.logY && column[i] !== null && column[i] <= 0 ? null : column[i]);
    const columns = line.low ? [line.mean, line.low, line.high] : [line.mean];
    return [kept.map(i => xs[i]), ...columns.map(values)];
  }

  options(width) {
    const grid = {stroke: css("--line"), width: 1}, font = "12px system-ui, sans-serif";
    const axis = {stroke: css("--text"), grid, ticks: grid, font, labelFont: font};
    const across = this.across;
    const few = values => values.map(value => value === null ? null : across.text(value));
    return {
      width, height: Math.round(Math.min(420, Math.max(220, width * 0.55))), legend: {show: false},
      padding: [10, 16, 0, 0],
      cursor: {drag: {x: true, y: false}, points: {size: 7}, dataIdx: (chart, series, i) => nearest(chart.data[series], chart.data[0], i)},
      scales: {x: {time: false, distr: state.logX ? 3 : 1}, y: {distr: this.logY ? 3 : 1}},
      axes: [{...axis, label: across.name, labelSize: 20, space: 70, values: (chart, splits) => few(splits)},
             {...axis, values: (chart, splits) => splits.map(value => value === null ? null : plainNumber(value)),
              size: (chart, values) => 16 + 7 * Math.max(3, ...(values ?? []).map(text => (text ?? "").length))}],
      hooks: {setCursor: [chart => this.read(chart)]},
    };
  }

  draw() {
    this.chart?.destroy();
    this.chart = null;
    const shown = this.shown().map(line => [line, this.table(line)]).filter(([, table]) => table[0].length > 0);
    this.host.replaceChildren();
    this.readout.textContent = "";
    if (shown.length === 0) return;
    this.drawn = shown.map(([line]) => line);
    const options = this.options(Math.max(200, this.host.clientWidth));
    options.series = [{}];
    options.bands = [];
    this.columns = [];  // where each of the lines that are drawn begins in the data of the chart
    this.meanOf = [];  // the line of each series that is a mean
    for (const [line, table] of shown) {
      const stroke = css(`--g${line.group % 10}`), dash = this.dash(line) ?? undefined;
      this.columns.push(options.series.length - 1);
      this.meanOf[options.series.length] = line;
      options.series.push({stroke, dash, width: 1.5, points: {show: new Set(table[0]).size < 2}});
      if (!line.low) continue;
      options.bands.push({series: [options.series.length + 1, options.series.length], fill: `color-mix(in srgb, ${stroke} 18%, transparent)`});
      options.series.push({width: 0, points: {show: false}}, {width: 0, points: {show: false}});
    }
    this.chart = new uPlot(options, joined(shown.map(([, table]) => table)), this.host);
  }

  // Draws again with the present colours, makes something of the drawing, and draws as before.
  paint(make) {
    if (!this.chart) return svgNode("svg", {width: 10, height: 10});
    return make(this);
  }

  resize() {
    const width = Math.max(200, this.host.clientWidth);
    if (this.chart && width !== this.chart.width) this.chart.setSize({width, height: this.options(width).height});
  }

  reset() {
    this.draw();
  }

  // Takes up newer points. What was zoomed into stays in view.
  update(spec) {
    const before = this.chart && {...this.chart.scales.x}, xs = this.chart?.data[0];
    const zoomed = before && (before.min > xs[0] || before.max < xs[xs.length - 1]);
    this.lines = spec.lines;
    this.draw();
    if (zoomed && this.chart) this.chart.setScale("x", {min: before.min, max: before.max});
  }

  // The values below the cursor.
  read(chart) {
    const at = chart.cursor.idx;
    if (at === null || at === undefined) {
      this.readout.textContent = "";
      return;
    }
    const values = this.meanOf.map((line, series) => [line, chart.cursor.idxs[series], series]).filter(([, i]) => i != null);
    this.readout.replaceChildren(node("span", {}, `${this.across.name} ${this.across.text(chart.data[0][at])}`),
      ...values.map(([line, i, series]) => node("span", {}, chip(line.group), `${this.nameOf(line)} ${plainNumber(chart.data[series][i])}`)));
  }

  key(event) {
    const chart = this.chart;
    if (!chart || event.ctrlKey || event.metaKey || event.altKey) return;
    const {min, max} = chart.scales.x, xs = chart.data[0];
    const linear = value => state.logX ? Math.log10(value) : value, back = value => state.logX ? 10 ** value : value;
    const show = (from, to) => {
      const least = linear(xs[0]), most = linear(xs[xs.length - 1]);
      if (least === most) return;  // there is nothing to zoom into
      chart.setScale("x", {min: back(Math.max(from, least)), max: back(Math.min(to, most))});
    };
    const a = linear(min), b = linear(max), middle = chart.cursor.idx == null ? (a + b) / 2 : linear(xs[chart.cursor.idx]);
    const along = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (event.key === "+" || event.key === "=") show(middle - (middle - a) / 2, middle + (b - middle) / 2);
    else if (event.key === "-") show(middle - (middle - a) * 2, middle + (b - middle) * 2);
    else if (event.key === "0" || event.key === "Escape") this.reset();
    else if (along !== 0 && event.shiftKey) show(a + along * (b - a) / 4, b + along * (b - a) / 4);
    else if (along !== 0) {
      const step = Math.max(1, Math.round(xs.length / 200));
      const first = xs.findIndex(x => x >= min), last = xs.findLastIndex(x => x <= max);
      const next = Math.min(last, Math.max(first, (chart.cursor.idx ?? first - along * step) + along * step));
      chart.setCursor({left: chart.valToPos(xs[next], "x"), top: chart.bbox.height / devicePixelRatio / 2});
    } else return;
    event.preventDefault();
  }
}

// Tables of ascending places on one axis. Unlike uPlot.join() it keeps all values of a line that has several at one
// place, as the losses of steps between which nothing is sent have against bytes.
function joined(tables) {
  const counts = new Map();  // of each place: how many values a line has there at most
  const places = tables.map(([xs]) => {
    let nth = 0;
    return xs.map((x, i) => {
      nth = x === xs[i - 1] ? nth + 1 : 0;
      counts.set(x, Math.max(nth + 1, counts.get(x) ?? 0));
      return nth;
    });
  });
  const all = [], first = new Map();
  for (const x of [...counts.keys()].sort((a, b) => a - b)) {
    first.set(x, all.length);
    for (let i = 0; i < counts.get(x); ++i) all.push(x);
  }
  const columns = tables.flatMap(([xs, ...values], t) => values.map(column => {
    const spread = Array(all.length).fill(undefined);
    column.forEach((value, i) => spread[first.get(xs[i]) + places[t][i]] = value);
    return spread;
  }));
  return [all, ...columns];
}

// The index next to i at which a series has a value, as lines have points at different places; null: it has none.
function nearest(values, xs, i) {
  if (values[i] != null) return i;
  let before = i, after = i;
  while (before >= 0 && values[before] == null) --before;
  while (after < values.length && values[after] == null) ++after;
  if (before < 0) return after < values.length ? after : null;
  if (after >= values.length) return before;
  return xs[i] - xs[before] <= xs[after] - xs[i] ? before : after;
}
