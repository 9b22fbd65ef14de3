"use strict";
// The convergence chart: plain SVG, drawn again whenever its box changes size.
(function () {
  const box = document.getElementById("chart");
  if (!box) return;
  const data = JSON.parse(document.getElementById("rounds").textContent);
  const form = document.getElementById("controls");
  const tip = document.getElementById("tip");
  const said = document.getElementById("said");
  const NAMES = {
    seconds: "time since the fit began (s)", passes: "passes over the rows", round: "round",
  };
  // What each view draws: [key of a round, name, class of the stroke].
  const VIEWS = {
    gap: {
      name: "relative duality gap",
      lines: [["gap", "gap of the problem", "a"], ["span_gap", "gap within the span", "b"]],
      ends: (c) => [c.gap], least: 1e-10,
    },
    objective: {
      name: "objective",
      lines: [["lower", "dual value, from below", "a"], ["upper", "primal value, from above", "b"]],
      ends: (c) => [c.lower, c.upper],
    },
    core: { name: "vectors", lines: [["core", "core or basis vectors", "a"]], ends: () => [] },
  };
  let shown = [];  // the points drawn, in the order of the rounds
  let now = -1;    // which of them is looked at

  const choice = (name) => form.elements[name].value;
  const known = (value) => typeof value === "number" && isFinite(value);

  // The gap of the problem may be that on a part of the rows; other values are not.
  const whole = (line, point) => line.key !== "gap" || point.r.exact;

  function element(parent, name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function short(value) {
    if (!known(value)) return "unknown";
    const size = Math.abs(value);
    if (value === 0 || (size >= 1e-3 && size < 1e6)) return String(Number(value.toPrecision(5)));
    return value.toExponential(2).replace("e+", "e");
  }

  function power(exponent) {
    const digits = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
    return exponent === 0 ? "1" : "10" + String(exponent).split("").map((d) => digits[d]).join("");
  }

  // A scale maps values to pixels; with log = true by their logarithm.
  function scale(values, from, to, log, room) {
    let low = Math.min(...values), high = Math.max(...values);
    const f = log ? Math.log10 : (v) => v;
    low = f(low); high = f(high);
    if (high - low < 1e-12) { low -= log ? 0.5 : Math.abs(low) / 2 || 0.5; high += log ? 0.5 : Math.abs(high) / 2 || 0.5; }
    const more = room * (high - low);
    low -= more; high += more;
    const place = (v) => from + ((f(v) - low) / (high - low)) * (to - from);
    return { place, ticks: log ? decades(low, high) : round(low, high) };
  }

  function decades(low, high) {
    const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
    if (last - first < 1) {  // less than a decade: round values inside it
      return round(Math.pow(10, low), Math.pow(10, high)).filter((t) => t[0] > 0);
    }
    const step = Math.ceil((last - first + 1) / 7);
    const found = [];
    for (let e = first; e <= last; e += step) found.push([Math.pow(10, e), power(e)]);
    return found;
  }

  function round(low, high) {
    let step = Math.pow(10, Math.floor(Math.log10((high - low) / 5)));
    for (const factor of [1, 2, 5, 10]) {
      if ((high - low) / (factor * step) <= 6) { step *= factor; break; }
    }
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
      found.push([k * step, short(Number((k * step).toPrecision(12)))]);
    }
    return found;
  }

  function draw() {
    const view = VIEWS[choice("y")], x = choice("x"), end = data.certificate;
    const logX = form.elements.logx.checked, logY = form.elements.logy.checked;
    const floor = (v) => (view.least && known(v) ? Math.max(v, view.least) : v);
    const can = (at, v) => known(at) && known(v) && (!logX || at > 0) && (!logY || v > 0);
    const lines = view.lines.map(([key, name, kind]) => ({
      key, name, kind, points: data.rounds
        .map((r, i) => ({ i, r, at: r[x], value: floor(r[key]), raw: r[key] }))
        .filter((p) => can(p.at, p.value)),
    })).filter((line) => line.points.length);
    const last = data.rounds[data.rounds.length - 1];
    const endAt = x === "round" ? last.round : Math.max(last[x], end[x] || 0);
    const ends = view.ends(end).map(floor).filter((v) => can(endAt, v));
    const values = lines.flatMap((l) => l.points.map((p) => p.value)).concat(ends);
    const ats = lines.flatMap((l) => l.points.map((p) => p.at)).concat(ends.length ? [endAt] : []);
    box.querySelectorAll("svg").forEach((old) => old.remove());
    now = -1; tip.hidden = true; shown = [];
    keys(lines, ends.length, choice("y") === "gap" && known(end.tol));
    if (!values.length) return;
    const tol = choice("y") === "gap" && known(end.tol) ? [end.tol] : [];

    const width = Math.max(box.clientWidth, 200), height = width < 560 ? 300 : 360;
    const left = 66, right = 14, top = 12, bottom = 46;
    const svg = element(box, "svg", {
      class: "chart live", viewBox: "0 0 " + width + " " + height, width, height,
      role: "img", "aria-label": view.name + " against " + NAMES[x],
    });
    const X = scale(ats, left + 8, width - right - 8, logX, 0);
    const Y = scale(values.concat(tol), height - bottom, top, logY, 0.05);
    for (const [value, text] of Y.ticks) {
      const y = Y.place(value);
      element(svg, "line", { class: "grid", x1: left, x2: width - right, y1: y, y2: y });
      element(svg, "text", { x: left - 8, y: y + 5, "text-anchor": "end" }, text);
    }
    for (const [value, text] of X.ticks) {
      element(svg, "text", { x: X.place(value), y: height - bottom + 20, "text-anchor": "middle" }, text);
    }
    element(svg, "line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom });
    element(svg, "text", { class: "name", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, NAMES[x]);
    element(svg, "text", { class: "name", transform: "translate(14 " + (height - bottom + top) / 2 + ") rotate(-90)", "text-anchor": "middle" }, view.name);
    for (const value of tol) {
      const y = Y.place(value);
      element(svg, "line", { class: "tol", x1: left, x2: width - right, y1: y, y2: y });
    }
    const cross = element(svg, "line", { class: "cross", y1: top, y2: height - bottom, x1: -9, x2: -9 });
    for (const line of lines) {
      const path = line.points.map((p, i) => (i ? "L" : "M") + X.place(p.at).toFixed(1) + " " + Y.place(p.value).toFixed(1));
      element(svg, "path", { class: "line " + line.kind, d: path.join("") });
      for (const p of line.points) {
        const spot = element(svg, "circle", {
          class: "point " + line.kind + (whole(line, p) ? " exact" : ""), "data-round": p.r.round,
          cx: X.place(p.at).toFixed(1), cy: Y.place(p.value).toFixed(1), r: line.points.length > 80 ? 2 : 4,
        });
        shown.push({ round: p.i, x: X.place(p.at), y: Y.place(p.value), spot, cross });
      }
    }
    for (const value of ends) {
      const cx = X.place(endAt), cy = Y.place(value);
      element(svg, "rect", { class: "final", x: cx - 6, y: cy - 6, width: 12, height: 12, transform: "rotate(45 " + cx + " " + cy + ")" });
    }
    shown.sort((p, q) => p.round - q.round);
  }

  function keys(lines, hasEnd, hasTol) {
    const list = document.getElementById("keys");
    list.textContent = "";
    const add = (kind, text) => {
      const item = document.createElement("li"), mark = document.createElement("i");
      mark.className = kind;
      item.append(mark, text);
      list.append(item);
    };
    for (const line of lines) {
      add(line.kind, line.name + (line.points.every((p) => whole(line, p)) ? "" : " (hollow: on a part of the rows)"));
    }
    if (hasEnd) add("f", "certificate");
    if (hasTol) add("t", "asked: " + short(data.certificate.tol));
  }

  function show(index) {
    if (!shown.length) return;
    now = Math.min(Math.max(index, 0), shown.length - 1);
    const point = shown[now], r = data.rounds[point.round];
    box.querySelectorAll(".now").forEach((old) => old.classList.remove("now"));
    point.spot.classList.add("now");
    point.cross.setAttribute("x1", point.x); point.cross.setAttribute("x2", point.x);
    const lines = ["round " + r.round + (r.exact || !known(r.gap) ? "" : " (on a part of the rows)")];
    const add = (text, value, unit) => { if (known(value)) lines.push(text + " " + short(value) + (unit || "")); };
    add("gap", r.gap); add("gap within the span", r.span_gap);
    add("dual value", r.lower); add("primal value", r.upper); add("vectors", r.core);
    add("passes", r.passes); add("time", r.seconds, " s");
    tip.textContent = lines.join("\n");
    said.textContent = lines.join(", ");
    tip.hidden = false;
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    const x = point.x + 14 + wide > box.clientWidth ? point.x - wide - 14 : point.x + 14;
    tip.style.left = Math.max(0, Math.min(x, box.clientWidth - wide)) + "px";
    tip.style.top = Math.max(0, point.y - high - 8) + "px";
  }

  function hide() {
    tip.hidden = true; now = -1;
    box.querySelectorAll(".now").forEach((old) => old.classList.remove("now"));
    box.querySelectorAll(".cross").forEach((c) => { c.setAttribute("x1", -9); c.setAttribute("x2", -9); });
  }

  function beside(way) {  // the nearest point of another round; two lines share rounds
    let k = now + way;
    while (now >= 0 && shown[k] && shown[k].round === shown[now].round) k += way;
    return shown[k] ? k : now;
  }

  box.addEventListener("pointermove", (event) => {
    const place = box.getBoundingClientRect();
    const x = event.clientX - place.left, y = event.clientY - place.top;
    let best = -1, least = Infinity;
    shown.forEach((p, i) => {
      const far = (p.x - x) * (p.x - x) + 0.05 * (p.y - y) * (p.y - y);
      if (far < least) { least = far; best = i; }
    });
    if (best >= 0) show(best);
  });
  box.addEventListener("pointerleave", hide);
  box.addEventListener("blur", hide);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: beside(-1), ArrowRight: beside(1), Home: 0, End: shown.length - 1 }[event.key];
    if (event.key === "Escape") hide();
    if (step === undefined) return;
    event.preventDefault();
    show(step);
  });
  function suit() {  // a gap and an objective over decades are read by powers of ten
    const view = VIEWS[choice("y")];
    const values = data.rounds.flatMap((r) => view.lines.map((l) => r[l[0]])).filter((v) => known(v));
    const many = values.every((v) => v > 0) && Math.max(...values) > 20 * Math.min(...values);
    form.elements.logy.checked = choice("y") === "gap" || many;
  }
  form.addEventListener("change", (event) => { if (event.target.name === "y") suit(); draw(); });
  let drawnAt = 0;
  new ResizeObserver(() => {
    if (box.clientWidth !== drawnAt) { drawnAt = box.clientWidth; draw(); }
  }).observe(box);
  suit();
  drawnAt = box.clientWidth;
  draw();
})();
