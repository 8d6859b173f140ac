// The zoomable plots of a report: the columns that stand in the page, drawn with uPlot when they come into view.
//
// Reads only the page it is in. A plot is a <figure class="plot"> that is hidden until this script runs, with its
// columns as JSON in it (skylight/report/plots.py says what they hold). Colours are the page's own, so that a plot
// follows light and dark mode; operations differ in shape as well.
"use strict";
(() => {
  const OPS = [
    { name: "read", colour: "--s1", shape: "circle" },
    { name: "write", colour: "--s2", shape: "square" },
    { name: "flush", colour: "--s3", shape: "triangle" },
    { name: "trim", colour: "--s4", shape: "diamond" },
  ];
  const FLUSH = 2; // has no address
  const AXES = {
    number: { label: "number of the request", short: "in order", whole: true },
    time: { label: "time since the test began (s)", short: "over time" },
    address: { label: "address (GiB)", short: "over addresses" },
  };
  const HALF_MARK_PX = 2.5;
  const NEAR_PX = 24;
  const AHEAD_PX = 400; // a plot is made when it comes so near to the window
  const LINEAR_BELOW = 20; // a logarithmic axis that spans less than this factor has the ticks of a linear one
  const STEP = 0.25; // of what is shown: a press of an arrow
  const ZOOM = 0.5;

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const column = ({ unit, data }, scale) =>
    Float64Array.from(new Uint32Array(bytes(data).buffer), (n) => (n * unit) / scale);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** A number as people write it, with as many digits as tell it from one a `step` away. */
  function plain(value, step) {
    const digits = Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9)));
    return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }
  const digits3 = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
  const duration = (ms) => (ms >= 1000 ? `${digits3(ms / 1000)} s` : ms >= 1 ? `${digits3(ms)} ms` : `${digits3(ms * 1000)} µs`);

  /** Round steps between two ends, about `count` of them. */
  function evenTicks(low, high, count) {
    const rough = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high; n++) found.push(n * step + 0); // + 0: no -0
    return found;
  }
  /** Powers of ten, and 2 and 5 times them where few decades are shown. */
  function powerTicks(low, high) {
    const parts = high / low > 2000 ? [1] : [1, 2, 5];
    const found = [];
    for (let e = Math.floor(Math.log10(low)); 10 ** e <= high; e++)
      for (const part of parts) if (part * 10 ** e >= low && part * 10 ** e <= high) found.push(part * 10 ** e);
    return found;
  }

  /** The columns of a plot as numbers in the units of its axes, row by row. */
  function decoded(data) {
    const ms = column(data.latency_ns, 1e6);
    const least = data.latency_ns.unit / 1e6;
    const rows = {
      latency: ms.map((value) => Math.max(value, least)), // a logarithm needs more than nothing
      time: column(data.time_ns, 1e9),
      address: column(data.address, 2 ** 30),
      number: data.number ? column(data.number, 1) : Float64Array.from(ms, (_, i) => i + 1),
      op: bytes(data.ops),
      group: new Uint16Array(ms.length),
    };
    let at = 0;
    for (const [group, count] of data.runs) rows.group.fill(group, at, (at += count));
    return rows;
  }

  /** A mark at a place of the canvas, added to a path. */
  function mark(path, shape, x, y, half) {
    if (shape === "circle") {
      path.moveTo(x + half, y);
      path.arc(x, y, half, 0, 2 * Math.PI);
    } else if (shape === "square") {
      path.rect(x - half, y - half, 2 * half, 2 * half);
    } else {
      const wide = 1.3 * half;
      path.moveTo(x, y - wide);
      path.lineTo(x + wide, shape === "triangle" ? y + half : y);
      if (shape === "diamond") path.lineTo(x, y + wide);
      path.lineTo(x - wide, shape === "triangle" ? y + half : y);
      path.closePath();
    }
  }

  /** Draws the marks of a series; what uPlot is given in place of a line. */
  function marks(shape) {
    return (u, series) => {
      const [xs, ys] = u.data[series];
      const { min: left, max: right } = u.scales.x;
      const { min: low, max: high } = u.scales.y;
      const path = new Path2D();
      const half = HALF_MARK_PX * uPlot.pxRatio;
      for (let i = 0; i < xs.length; i++)
        if (xs[i] >= left && xs[i] <= right && ys[i] >= low && ys[i] <= high)
          mark(path, shape, u.valToPos(xs[i], "x", true), u.valToPos(ys[i], "y", true), half);
      u.ctx.save();
      u.ctx.globalAlpha = 0.65;
      u.ctx.fillStyle = u.series[series].stroke(u, series);
      u.ctx.fill(path);
      u.ctx.restore();
      return null;
    };
  }

  class Plot {
    constructor(figure) {
      const data = JSON.parse(figure.querySelector("script").textContent);
      this.figure = figure;
      this.box = figure.querySelector(".box");
      this.told = figure.querySelector(".told");
      this.rows = decoded(data);
      this.groups = data.groups;
      this.axis = data.axis;
      this.group = -1;
      this.log = true;
      this.present = OPS.map((_, op) => this.rows.op.includes(op));
      this.controls();
      this.draw();
      new ResizeObserver(() => this.fit()).observe(this.box);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(true));
    }

    /** Wires the controls that stand in the page. */
    controls() {
      const axis = this.figure.querySelector(".axis");
      for (const [name, { short }] of Object.entries(AXES)) axis.append(new Option(short, name, false, name === this.axis));
      axis.addEventListener("change", () => ((this.axis = axis.value), this.draw()));
      const steps = this.figure.querySelector(".steps");
      steps.append(new Option("all steps", "-1"));
      this.groups.forEach((name, n) => steps.append(new Option(name, n)));
      steps.closest("label").hidden = this.groups.length < 2;
      steps.addEventListener("change", () => ((this.group = Number(steps.value)), this.draw()));
      const scale = this.figure.querySelector(".log");
      scale.addEventListener("change", () => ((this.log = scale.checked), this.draw()));
      const deeds = {
        in: () => this.zoom(ZOOM),
        out: () => this.zoom(1 / ZOOM),
        left: () => this.pan(-STEP),
        right: () => this.pan(STEP),
        whole: () => this.whole(),
      };
      for (const button of this.figure.querySelectorAll("button"))
        button.addEventListener("click", deeds[button.dataset.do]);
      const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "whole", Escape: "whole" };
      this.box.addEventListener("keydown", (event) => {
        if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        deeds[keys[event.key]]();
      });
      for (const key of this.figure.querySelectorAll(".key span")) key.hidden = !this.present[Number(key.dataset.op)];
    }

    /** The rows that are chosen, a list for each operation that the test has. */
    chosen() {
      const { op, group } = this.rows;
      const lists = OPS.map(() => []);
      for (let i = 0; i < op.length; i++)
        if ((this.group < 0 || group[i] === this.group) && !(this.axis === "address" && op[i] === FLUSH))
          lists[op[i]].push(i);
      return lists.filter((_, n) => this.present[n]);
    }

    /** Makes the plot anew; with `keep` it shows what it showed. */
    draw(keep = false) {
      const shown = keep ? { x: { ...this.u.scales.x }, y: { ...this.u.scales.y } } : null;
      this.u?.destroy();
      this.lists = this.chosen();
      const xs = this.rows[this.axis];
      const pick = (column, list) => Float64Array.from(list, (i) => column[i]);
      const data = [null, ...this.lists.map((list) => [pick(xs, list), pick(this.rows.latency, list)])];
      const ops = OPS.filter((_, n) => this.present[n]);
      this.bounds(data);
      this.u = new uPlot(this.options(ops), data, this.box);
      this.dot = document.createElement("div");
      this.dot.className = "dot";
      this.dot.hidden = true;
      this.u.over.append(this.dot);
      this.touch();
      this.show(shown ?? this.all);
    }

    /** The ranges that show every mark, with a little room. */
    bounds(data) {
      let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
      for (const [xs, ys] of data.slice(1)) {
        for (const x of xs) (left = Math.min(left, x)), (right = Math.max(right, x));
        for (const y of ys) (low = Math.min(low, y)), (high = Math.max(high, y));
      }
      if (left > right) [left, right, low, high] = [0, 1, 0.1, 1];
      const room = 0.02 * (right - left) || 0.5;
      const y = this.log ? { min: low / 1.25, max: high * 1.25 } : { min: 0, max: high * 1.06 };
      this.all = { x: { min: left - room, max: right + room }, y };
    }

    options(ops) {
      const font = `12px ${getComputedStyle(this.box).fontFamily}`;
      const look = {
        stroke: colour("--fig-muted"),
        font,
        labelFont: font,
        labelSize: 20,
        labelGap: 4,
        grid: { stroke: colour("--fig-grid"), width: 1 },
        ticks: { stroke: colour("--fig-grid"), width: 1, size: 4 },
      };
      const whole = AXES[this.axis].whole;
      const along = {
        ...look,
        label: AXES[this.axis].label,
        splits: (u, _, low, high) => evenTicks(low, high, Math.max(3, u.width / 110)).filter((n) => !whole || Number.isInteger(n)),
        values: (_, ticks) => ticks.map((n) => plain(n, ticks.length > 1 ? ticks[1] - ticks[0] : 1)),
        size: 34,
      };
      const powers = (low, high) => this.log && high / low >= LINEAR_BELOW;
      const up = {
        ...look,
        label: "latency (ms)",
        splits: (_, __, low, high) => (powers(low, high) ? powerTicks(low, high) : evenTicks(low, high, 6)),
        filter: (_, ticks) => ticks,
        values: (u, ticks) => {
          const even = !powers(u.scales.y.min, u.scales.y.max);
          return ticks.map((n) => plain(n, even && ticks.length > 1 ? ticks[1] - ticks[0] : n));
        },
        size: (_, values) => 12 + 7 * Math.max(3, ...(values ?? []).map((text) => text.length)),
      };
      return {
        mode: 2,
        ...this.size(),
        legend: { show: false },
        cursor: { drag: { x: true, y: true, uni: 24, dist: 6 }, points: { show: false }, dataIdx: () => null },
        scales: { x: { time: false, auto: false }, y: { auto: false, distr: this.log ? 3 : 1 } },
        axes: [along, up],
        series: [
          {},
          ...ops.map(({ colour: name, shape }) => ({
            stroke: colour(name),
            facets: [{ scale: "x", auto: false }, { scale: "y", auto: false }],
            paths: marks(shape),
          })),
        ],
        hooks: { setCursor: [(u) => this.tell(u)] },
      };
    }

    size() {
      const width = Math.max(240, Math.floor(this.box.clientWidth));
      return { width, height: width < 560 ? 300 : 360 };
    }

    fit() {
      const { width, height } = this.size();
      if (width !== this.u.width || height !== this.u.height) this.u.setSize({ width, height });
    }

    show({ x, y }) {
      this.u.batch(() => {
        this.u.setScale("x", { min: x.min, max: x.max });
        this.u.setScale("y", { min: y.min, max: y.max });
      });
      this.dot.hidden = true;
    }

    whole() {
      this.show(this.all);
    }

    /** Shows `part` of the width of what is shown, around `at` (0 left, 1 right); never more than all. */
    zoom(part, at = 0.5, from = this.u.scales.x, shift = 0) {
      const { min, max } = this.all.x;
      const wide = Math.min(max - min, (from.max - from.min) * part);
      const middle = from.min + (from.max - from.min) * at - wide * (at + shift);
      const left = Math.max(min, Math.min(max - wide, middle));
      if (wide > 0 && left + wide > left) this.u.setScale("x", { min: left, max: left + wide });
      this.dot.hidden = true;
    }

    pan(part) {
      this.zoom(1, 0.5, this.u.scales.x, -part);
    }

    /** One finger moves sideways, two zoom; up and down stays with the page. */
    touch() {
      const over = this.u.over;
      const fingers = new Map();
      let from, begun;
      const begin = () => {
        from = { ...this.u.scales.x };
        begun = [...fingers.values()];
      };
      over.addEventListener("pointerdown", (event) => {
        if (event.pointerType === "mouse" || fingers.size > 1) return;
        fingers.set(event.pointerId, event.clientX);
        begin();
      });
      over.addEventListener("pointermove", (event) => {
        if (!fingers.has(event.pointerId)) return;
        fingers.set(event.pointerId, event.clientX);
        const [one, other] = fingers.values();
        const { left, width } = over.getBoundingClientRect();
        if (other === undefined) {
          this.zoom(1, 0.5, from, (one - begun[0]) / width);
          return;
        }
        const before = Math.abs(begun[0] - begun[1]) || 1;
        const now = Math.abs(one - other) || 1;
        this.zoom(Math.min(50, before / now), ((begun[0] + begun[1]) / 2 - left) / width, from);
      });
      const end = (event) => {
        if (fingers.delete(event.pointerId)) begin();
      };
      for (const name of ["pointerup", "pointercancel", "pointerleave"]) over.addEventListener(name, end);
    }

    /** Says which request is under the pointer. */
    tell(u) {
      const { left, top } = u.cursor;
      let best = NEAR_PX ** 2;
      let found;
      if (left >= 0)
        this.lists.forEach((list, n) => {
          const [xs, ys] = u.data[n + 1];
          for (let i = 0; i < list.length; i++) {
            const [x, y] = [u.valToPos(xs[i], "x"), u.valToPos(ys[i], "y")];
            const far = (x - left) ** 2 + (y - top) ** 2;
            if (far < best) [best, found] = [far, { row: list[i], x, y }];
          }
        });
      this.dot.hidden = !found;
      if (!found) return;
      this.dot.style.transform = `translate(${found.x - 6}px, ${found.y - 6}px)`;
      const { op, number, latency, time, address, group } = this.rows;
      const row = found.row;
      const where = op[row] === FLUSH ? "" : `, at ${plain(address[row], 0.001)} GiB`;
      this.told.textContent =
        `Request ${number[row].toLocaleString("en-US")}, a ${OPS[op[row]].name}${where}: ${duration(latency[row])},` +
        ` ${digits3(time[row])} s after the test began, in step ${this.groups[group[row]]}.`;
    }
  }

  const made = new Set();
  const make = (figure) => {
    if (made.has(figure)) return;
    made.add(figure);
    new Plot(figure);
  };
  const figures = document.querySelectorAll("figure.plot");
  const seen = new IntersectionObserver((entries) => entries.filter((e) => e.isIntersecting).forEach((e) => make(e.target)), {
    rootMargin: `${AHEAD_PX}px`,
  });
  for (const figure of figures) {
    figure.hidden = false;
    if (figure.getBoundingClientRect().top < innerHeight + AHEAD_PX) make(figure);
    else seen.observe(figure);
  }
  addEventListener("beforeprint", () => figures.forEach(make));
})();
