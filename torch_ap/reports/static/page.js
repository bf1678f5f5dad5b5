"use strict";
/* The page without its sections: data, elements, tables and charts.
 *
 * A section in its own file calls
 *
 *   page.register("NAME", (element, data) => ({open(key) { ... }}));
 *
 * where "NAME" is the name of the `Widget` in Python and of the file. The function is called once for each such widget,
 * with its element, which contains the static content, and its data. It may return `open(key)`, which shows the details
 * of one row: the first cell of each row of a table with `opens="NAME"` becomes a button that calls it with the row's key,
 * and so do the marks of a drawing. It may return the element to which the page scrolls, instead of the widget's. If
 * there is `has(key)`, only keys for which it returns a true value open something.
 *
 *   page.create(tag, attributes, ...children)   a new element; texts are never read as HTML
 *   page.chart(parent, options)                 a chart to hover over and zoom, see below
 *   page.number(x), page.score(x)               texts of a number and of a threshold
 *   page.table(heads, rows, textColumns)        a new table of texts; as many columns are aligned left, default 1
 *   page.onScheme(redraw)                       calls redraw when light and dark change
 *   page.pressable(element, label, action)      calls action for a click, Enter and the space bar
 *
 * Any <table class="sortable"> sorts by its heads; from 8 rows on it can be searched and filtered. A column is a column of
 * numbers unless its head has the class "text"; the cells of numbers have `data-value`, or none if undefined.
 */
const page = (() => {
  const makers = new Map(), openers = new Map(), redraws = [];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const MIN_SEARCHED_ROWS = 8;

  function create(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }

  function pressable(element, label, action) {
    for (const [name, value] of Object.entries({role: "button", tabindex: 0, "aria-label": label})) element.setAttribute(name, value);
    element.addEventListener("click", action);
    element.addEventListener("keydown", event => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      action();
    });
  }

  const number = x => x == null || Number.isNaN(x) ? "–" : Number.isInteger(x) ? x.toLocaleString("en") :
    Math.abs(x) < 1e-3 || Math.abs(x) >= 1e5 ? x.toPrecision(4) : x.toFixed(3);
  const score = x => String(Number(x.toPrecision(6)));

  const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const onScheme = redraw => redraws.push(redraw);
  dark.addEventListener("change", () => redraws.forEach(redraw => redraw()));

  function register(name, make) { makers.set(name, make); }

  function open(name, key) {
    const {element: whole, widget} = openers.get(name), element = widget.open(key) || whole;
    element.scrollIntoView({block: "start"});
    element.setAttribute("tabindex", "-1");
    element.focus({preventScroll: true});
  }

  // -- tables

  /* Return a new table, with a head of each row; the first columns contain text. */
  function table(heads, rows, textColumns = 1) {
    const kind = i => i < textColumns ? "text" : null;
    return create("table", {}, create("thead", {}, create("tr", {}, ...heads.map((x, i) => create(x ? "th" : "td", x ? {scope: "col", class: kind(i)} : {}, x)))),
      create("tbody", {}, ...rows.map(cells => create("tr", {},
        ...cells.map((x, i) => i ? create("td", {class: kind(i)}, x) : create("th", {scope: "row", class: kind(i)}, x))))));
  }

  function cellKey(row, column) {
    const cell = row.cells[column], value = cell.dataset.value;
    return cell.classList.contains("text") ? cell.textContent : value === undefined ? NaN : Number(value);
  }

  function sortable(table) {
    const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
    const order = (a, b) => typeof a === "string" ? a.localeCompare(b, undefined, {numeric: true}) : a - b;
    heads.forEach((head, column) => {
      const button = head.querySelector("button") || create("button", {type: "button"}, ...head.childNodes);
      head.append(button);
      if (!head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const isText = head.classList.contains("text"), now = head.getAttribute("aria-sort");
        const up = now === "none" ? isText : now === "descending";
        const rows = [...body.rows].map(row => [cellKey(row, column), row]);
        rows.sort(([a], [b]) => a !== a || b !== b ? (a !== a) - (b !== b) : (up ? 1 : -1) * order(a, b));
        body.append(...rows.map(([, row]) => row));
        heads.forEach(x => x.setAttribute("aria-sort", x === head ? (up ? "ascending" : "descending") : "none"));
      });
    });
    if (body.rows.length >= MIN_SEARCHED_ROWS) searchable(table, heads);
  }

  function searchable(table, heads) {
    const rows = [...table.tBodies[0].rows], count = create("output", {});
    const words = create("input", {type: "search", placeholder: "Search", "aria-label": "Search the rows"});
    const columns = heads.map((head, place) => [head.textContent.trim(), place, head])
      .filter(([, , head]) => !head.classList.contains("text"));
    const column = create("select", {"aria-label": "Column to filter by"},
      ...columns.map(([name, place]) => create("option", {value: place}, name)));
    const side = create("select", {"aria-label": "Side of the limit"},
      create("option", {value: "1"}, "≥"), create("option", {value: "-1"}, "≤"));
    const limit = create("input", {type: "number", step: "any", placeholder: "any", "aria-label": "Limit"});
    function update() {
      const wanted = words.value.trim().toLowerCase(), least = limit.value === "" ? null : Number(limit.value);
      let shown = 0;
      for (const row of rows) {
        const isWanted = row.textContent.toLowerCase().includes(wanted);
        const scale = row.cells[column.value].textContent.endsWith("%") ? 100 : 1;
        const isInside = least === null || side.value * (scale * cellKey(row, column.value) - least) >= 0;
        row.hidden = !(isWanted && isInside);
        shown += !row.hidden;
      }
      count.textContent = shown === rows.length ? `${number(shown)} rows` : `${number(shown)} of ${number(rows.length)} rows`;
    }
    const title = table.closest("section").querySelector("h2").textContent;
    const label = `Search ${document.querySelectorAll("[role=search]").length + 1}: ${title}`;  // landmarks need distinct names
    const bar = create("div", {class: "bar", role: "search", "aria-label": label}, words, ...(columns.length ? [column, side, limit] : []), count);
    bar.addEventListener("input", update);
    (table.closest(".wide") || table).before(bar);
    update();
  }

  /* Let the rows of a table, or the marks of a drawing, open their details. */
  function openable(parent) {
    const name = parent.dataset.opens;
    if (!openers.has(name)) return;
    for (const row of parent.querySelectorAll("[data-key]")) {
      const {widget} = openers.get(name), {key} = row.dataset, show = () => open(name, key), cell = row.cells && row.cells[0];
      if (widget.has && !widget.has(key)) continue;
      if (cell) cell.append(create("button", {type: "button", class: "open", onclick: show}, ...cell.childNodes));
      else row.addEventListener("click", show);  // each mark has a row in a table for the keyboard
      row.classList.add("opens");
    }
  }

  /* Show the title of a mark or shape on touch screens, which do not hover: the first tap shows it, the next one opens. */
  const title = create("div", {class: "tip", role: "status", hidden: true});
  let isTouch = false, titled;
  addEventListener("pointerdown", event => { isTouch = event.pointerType === "touch"; }, true);
  addEventListener("click", event => {
    const mark = isTouch && event.target.closest(":is(.marks, .shot) :is(g, circle)");
    const isNew = mark && mark !== titled && mark.querySelector("title");
    titled = isNew ? mark : undefined;
    title.hidden = !isNew;
    if (!isNew) return;
    event.stopPropagation();
    document.body.append(title);
    title.textContent = mark.querySelector("title").textContent;
    const {left, bottom} = mark.getBoundingClientRect(), room = document.documentElement.clientWidth - title.offsetWidth;
    title.style.left = `${scrollX + Math.max(0, Math.min(left, room))}px`;
    title.style.top = `${scrollY + bottom + 4}px`;
  }, true);

  // -- charts

  /* Draw a chart that follows the pointer and zooms, and return {mark(points), element}.
   *
   *   x, y         labels of the axes
   *   xRange       ends of the x axis; default those of the data. yRange: likewise, default [0, 1]
   *   step         whether a value holds from the point before (precision over recall), instead of straight lines
   *   log          whether the x axis is logarithmic
   *   series       [{name, x, y, low, high, details: {name: values}, dash, color}]: x ascending without repetition;
   *                low and high: ends of an interval; color: name of a CSS variable without dashes, or a colour
   *   marks        [{x, y}] points to draw, which mark(points) replaces
   *   names        texts of the x values 0, 1, ...
   */
  function chart(parent, options) {
    const label = `${options.y} over ${options.x}: the arrow keys show the numbers`;
    const box = create("div", {class: "tip", role: "status", hidden: true});
    const holder = create("div", {class: "chart", role: "group", tabindex: 0, "aria-label": label, onkeydown: moveCursor,
      onblur: () => { box.hidden = true; }});
    const palette = ["accent", "second", "third", "fourth"], {names} = options, MAX_TICK = 10;
    let plot, marks = options.marks || [];
    const zoomBy = factor => {
      const {min, max} = plot.scales.x, [first, last] = full();
      const middle = marks.length && marks[0].x > min && marks[0].x < max ? marks[0].x : (min + max) / 2;
      const half = (max - min) * factor / 2;
      plot.setScale("x", {min: Math.max(first, middle - half), max: Math.min(last, middle + half)});
    };
    const xs = () => plot ? plot.data[0] : uPlot.join(tables())[0];
    const full = () => options.xRange || [xs()[0], xs()[xs().length - 1]];
    const tables = () => options.series.map(({x, y, low, high}) => low ? [x, y, low, high] : [x, y]);
    const ink = (x, place) => color(x.color || palette[place % palette.length]) || x.color;

    function nearest(xs, x) {
      let low = 0, high = xs.length - 1;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (xs[middle] < x) low = middle + 1; else high = middle;
      }
      return !options.step && low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
    }

    function follow(u) {
      const {left, top} = u.cursor;
      box.hidden = left == null || left < 0;
      if (box.hidden) return;
      const at = u.posToVal(left, "x"), x = options.step ? at : xs()[nearest(xs(), at)];
      const lines = options.series.map((series, place) => {
        const i = nearest(series.x, x);
        if (series.x[i] === undefined || (options.step && x > series.x[series.x.length - 1])) return "";
        const ends = series.low && series.low[i] != null ? ` (${number(series.low[i])}–${number(series.high[i])})` : "";
        const details = Object.entries(series.details || {}).map(([name, values]) => `${name} ${number(values[i])}`);
        const head = create("b", {}, `${series.name || options.y} ${number(series.y[i])}${ends}`);
        head.style.color = ink(series, place);
        return create("div", {}, head, details.length ? ` ${details.join(", ")}` : "");
      });
      const place = names ? `: ${names[nearest(xs(), x)]}` : ` ${number(x)}`;
      box.replaceChildren(create("div", {}, options.x + place), ...lines);
      const toLeft = left > u.over.clientWidth / 2;
      box.style.left = toLeft ? "" : `${left + 12}px`;
      box.style.right = toLeft ? `${u.over.clientWidth - left + 12}px` : "";
      box.style.top = `${Math.min(Math.max(top - 20, 0), Math.max(u.over.clientHeight - box.offsetHeight, 0))}px`;
    }

    /* Move the cursor to the next or the previous value. */
    function moveCursor(event) {
      const way = {ArrowLeft: -1, ArrowRight: 1}[event.key], values = xs();
      if (!way) return;
      event.preventDefault();
      const {left} = plot.cursor, {min, max} = plot.scales.x;
      const now = left == null || left < 0 ? -1 : values.findIndex(x => x >= plot.posToVal(left, "x") - 1e-6 * (max - min));
      const [first, last] = [values.findIndex(x => x >= min), values.findLastIndex(x => x <= max)];
      const next = Math.min(Math.max(now < 0 ? (way > 0 ? first : last) : now + way, first), last);
      plot.setCursor({left: plot.valToPos(values[next], "x"), top: 0});
    }

    function drawMarks(u) {
      for (const {x, y} of marks) {
        if (x == null || y == null || x < u.scales.x.min || x > u.scales.x.max) continue;
        u.ctx.beginPath();
        u.ctx.arc(u.valToPos(x, "x", true), u.valToPos(y, "y", true), 6 * devicePixelRatio, 0, 2 * Math.PI);
        u.ctx.fillStyle = color("warm-edge");
        u.ctx.fill();
        u.ctx.lineWidth = 2 * devicePixelRatio;
        u.ctx.strokeStyle = color("ink");
        u.ctx.stroke();
      }
    }

    function build() {
      if (plot) plot.destroy();
      plot = undefined;
      const series = [{}], bands = [], [bottom, ceiling] = options.yRange || [0, 1];
      options.series.forEach((x, place) => {
        const stroke = ink(x, place), paths = options.step ? uPlot.paths.stepped({align: -1}) : undefined;
        series.push({stroke, width: 2, dash: x.dash, paths, points: {show: x.x.length < 2}});
        if (x.low) {
          bands.push({series: [series.length + 1, series.length], fill: `color-mix(in srgb, ${stroke} 18%, transparent)`});
          series.push({paths, points: {show: false}}, {paths, points: {show: false}});
        }
      });
      const joined = uPlot.join(tables()), [first, last] = full();
      const isZoomed = ({min, max}) => min != null && (min > first || max < last);
      const isAll = (min, max) => (options.xRange && joined[0].length === 1) ||  // uPlot pads a single value
        (min === joined[0][0] && max === joined[0][joined[0].length - 1]);
      const axis = (label, size) => ({label, labelSize: 20, labelGap: 0, size, stroke: color("ink"), ticks: {stroke: color("line")},
        grid: {stroke: color("line"), width: 1}, font: "12px system-ui", labelFont: "13px system-ui"});
      plot = new uPlot({
        width: Math.max(holder.clientWidth, 200), height: 300, series, bands,
        legend: {show: false},
        cursor: {y: false, drag: {x: true, y: false}, points: {show: false}},
        scales: {
          x: {time: false, distr: options.log ? 3 : 1, range: (u, min, max) => isAll(min, max) ? [first, last] : [min, max]},
          y: {range: (u, min, max) => isZoomed(u.scales.x) ? [min - 0.02, max + 0.02] : [bottom, ceiling + 0.02]},
        },
        axes: [{...axis(options.x, 40), ...(names && {space: 80, values: (_, at) => at.map(x => (names[x] || "").slice(0, MAX_TICK))})},
          axis(options.y, 50)],
        hooks: {setCursor: [follow], draw: [drawMarks]},
      }, joined, holder);
      plot.over.append(box);
      plot.over.addEventListener("mouseleave", () => { box.hidden = true; });
    }
    const button = (text, label, onclick) => create("button", {type: "button", title: label, "aria-label": label, onclick}, text);
    const named = options.series.filter(x => x.name);
    const key = create("span", {class: "key"}, ...named.map(x => {
      const stroke = create("i", {}), place = options.series.indexOf(x);
      onScheme(() => { stroke.style.background = ink(x, place); });
      stroke.style.background = ink(x, place);
      return create("span", {}, stroke, x.name);
    }));
    const tools = create("div", {class: "tools"}, key, create("span", {}, button("+", "Zoom in", () => zoomBy(0.5)),
      button("−", "Zoom out", () => zoomBy(2)), button("Reset", "Show the whole curve", () => zoomBy(Infinity))));
    parent.append(tools, holder);
    build();
    onScheme(build);
    new ResizeObserver(() => {
      if (holder.clientWidth) plot.setSize({width: holder.clientWidth, height: 300});
    }).observe(holder);
    return {element: holder, mark(points) { marks = points; plot.redraw(false); }};
  }

  register("chart", (element, data) => {
    const figure = element.querySelector("figure"), box = create("div", {class: "live"});
    figure.classList.add("printed");
    figure.before(box);
    chart(box, data);
    box.append(create("p", {class: "remark"}, figure.querySelector("figcaption").textContent));
  });

  addEventListener("DOMContentLoaded", () => {
    const data = JSON.parse(document.getElementById("data").textContent);
    for (const element of document.querySelectorAll("[data-widget]")) {
      const {widget: name, place} = element.dataset;
      const widget = makers.get(name)(element, data[place]);
      if (widget && widget.open && !openers.has(name)) openers.set(name, {element, widget});
    }
    document.querySelectorAll("table.sortable").forEach(sortable);
    document.querySelectorAll("[data-opens]").forEach(openable);
  });

  return {chart, color, create, number, onScheme, open, pressable, register, score, table};
})();
