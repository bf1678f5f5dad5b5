"use strict";
/* The slider over the depth k of rankings: means over all queries, or the numbers of one query. */
page.register("depths", (element, data) => {
  const {create, number} = page, systems = data.systems, ALL = "";
  let query = ALL, place = 0, chart;

  const keys = Object.keys(systems[0].queries);
  const select = create("select", {"aria-label": "Query", onchange: () => show(select.value)},
    create("option", {value: ALL}, `mean of ${number(data.counted)} queries`),
    ...keys.map(key => create("option", {value: key}, data.names[key])));
  const slider = create("input", {type: "range", min: 0, max: data.k.length - 1, step: 1, "aria-label": "Depth k",
    oninput: () => move(Number(slider.value))});
  const depth = create("output", {class: "threshold"}), results = create("div", {class: "results", tabindex: 0});
  const remark = create("p", {class: "remark"}), charts = create("div");

  /* Relevant items among the first k: a tied group that k divides counts in proportion. */
  function hitsAt(x, k) {
    return x.end.reduce((sum, end, i) => {
      const items = x.items ? x.items[i] : 1, hits = x.hits ? x.hits[i] : 1;
      return sum + hits * Math.min(Math.max((k - end + items) / items, 0), 1);
    }, 0);
  }

  function numbers(system) {
    const x = system.queries[query];
    if (!x) return system.means;
    const hits = data.k.map(k => hitsAt(x, k)), ratio = (a, b) => b > 0 ? a / b : null;
    return {precision: [hits.map((h, i) => h / data.k[i])], recall: [hits.map(h => ratio(h, x.m))],
      F1: [hits.map((h, i) => ratio(2 * h, data.k[i] + x.m))]};
  }

  function show(key) {
    query = select.value = key;
    const colors = ["accent", "second", "third"], dashes = [undefined, [6, 4]];
    const series = systems.flatMap((system, j) => Object.entries(numbers(system)).map(([name, [y, low, high]], i) => ({
      name: system.name ? `${name}, ${system.name}` : name, x: data.k, y, low, high, color: colors[i], dash: dashes[j]})));
    charts.replaceChildren();
    chart = page.chart(charts, {x: "k", y: "value", log: data.k.length > 20, series});
    move(place);
  }

  function move(to) {
    place = to;
    const k = data.k[place];
    slider.value = place;
    slider.setAttribute("aria-valuetext", `first ${k}`);
    depth.textContent = `k = ${k}`;
    const marks = [];
    results.replaceChildren(...systems.map(system => {
      const rows = Object.entries(numbers(system)).map(([name, [y, low, high]]) => {
        marks.push({x: k, y: y[place]});
        return [name, y[place] == null ? "–" : y[place].toFixed(3),
          low && low[place] != null ? `${low[place].toFixed(3)}–${high[place].toFixed(3)}` : "–"];
      });
      return page.table([system.name, "value", `${data.level} interval`], rows);
    }));
    if (query === ALL && systems.length > 1) {
      const signed = y => y == null ? "–" : `${y < 0 ? "−" : "+"}${Math.abs(y).toFixed(3)}`;
      results.append(page.table([`${systems[0].name} minus ${systems[1].name}`, "difference", `${data.level} interval`],
        Object.entries(data.differences).map(([name, [y, low, high]]) => [name, signed(y[place]),
          low[place] == null ? "–" : `${signed(low[place])} to ${signed(high[place])}`])));
    }
    const x = systems[0].queries[query];
    remark.textContent = x ? `${number(hitsAt(x, k))} of ${number(x.m)} relevant items are among the first ${k} of ${number(x.n)}.` :
      "Means over the queries with relevant items; the missing items of a shorter ranking count as not relevant.";
    chart.mark(marks);
  }

  for (const x of element.children) x.classList.add("printed");
  element.prepend(create("div", {class: "live"}, create("div", {class: "bar"}, select, slider, depth), results, remark, charts));
  show(ALL);
  move(Math.min(9, data.k.length - 1));
  return {open: show};
});
