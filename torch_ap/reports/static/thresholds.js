"use strict";
/* The slider over score thresholds: its numbers, confusion matrix and curves move together. */
page.register("thresholds", (element, data) => {
  const {create, number, score, table} = page, [system, other] = data.systems;
  const precision = (x, i) => x.tp[i] / (x.tp[i] + x.fp[i]);
  const f1 = (x, m, i) => 2 * x.tp[i] / (x.tp[i] + x.fp[i] + m);
  let ranking, place, curves;

  const select = create("select", {"aria-label": "Ranking", onchange: () => show(Number(select.value))},
    ...data.rankings.map((x, i) => create("option", {value: i}, x.name || system)));
  const slider = create("input", {type: "range", min: 0, step: 1, "aria-label": "Score threshold", oninput: () => move(
    ranking.t.length - 1 - Number(slider.value))});
  const threshold = create("output", {class: "threshold"});
  const copy = create("button", {type: "button", onclick: copyThreshold}, "Copy this threshold");
  const rules = data.rules.map((name, i) => create("button", {type: "button", onclick: () => move(ranking.best[i])}, name));
  const missing = create("output", {});
  const results = create("div", {class: "results", tabindex: 0}), remark = create("p", {class: "remark"}), charts = create("div");
  const confusions = create("div", {class: "confusions", tabindex: 0}), MAX_CONFUSIONS = 10;
  const heads = data["confusion words"].slice(0, -1), counted = data["confusion words"].at(-1);

  async function copyThreshold() {
    const text = String(ranking.t[place]);
    let isCopied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // without permission, or not allowed for files in some browsers
      const field = create("textarea", {}, text);
      document.body.append(field);
      field.select();
      isCopied = document.execCommand("copy");
      field.remove();
      copy.focus();
    }
    copy.textContent = isCopied ? `Copied ${text}` : `Not copied: ${text}`;
  }

  /* The series of precision over recall: ascending recall, a step from threshold to threshold. */
  function precisionSeries(x, m, name) {
    const at = x.t.map((_, i) => i);
    return {name, x: at.map(i => x.tp[i] / m), y: at.map(i => precision(x, i)), ...ends(x, 0, at),
      details: {"score ≥": x.t, TP: x.tp, FP: x.fp, FN: at.map(i => m - x.tp[i])}};
  }

  function ends(x, row, at) {
    return x.ends[row].some(y => y !== null) ? {low: at.map(i => x.ends[row][i]), high: at.map(i => x.ends[row + 1][i])} : {};
  }

  /* Series over ascending thresholds. */
  function overThresholds(x, m, name) {
    const at = x.t.map((_, i) => x.t.length - 1 - i), t = at.map(i => x.t[i]);
    return {name, x: t, y: at.map(i => f1(x, m, i)), ...ends(x, 4, at), details: {precision: at.map(i => precision(x, i)),
      recall: at.map(i => x.tp[i] / m), TP: at.map(i => x.tp[i]), FP: at.map(i => x.fp[i])}};
  }

  /* Class confusions at the nearest threshold with confusions: of all classes, or of the class of the ranking. */
  function showConfusions(t) {
    if (!data.confusions.length || ranking.slice) return confusions.replaceChildren();
    const near = data.confusions.reduce((a, b) => Math.abs(b.t - t) < Math.abs(a.t - t) ? b : a);
    const chosen = data.rankings.indexOf(ranking) - data.first, name = i => data.rankings[i + data.first].name;
    const [truths, detected, counts] = near.cells, rows = [];
    truths.forEach((a, i) => {
      if (chosen < 0 || a === chosen || detected[i] === chosen) rows.push([name(a), name(detected[i]), number(counts[i])]);
    });
    const shown = rows.slice(0, MAX_CONFUSIONS), kept = counts.length < near.kinds ? ` the ${number(counts.length)} most frequent of` : "";
    confusions.replaceChildren(create("h3", {}, chosen < 0 ? "Class confusions" : `Class confusions: ${ranking.name}`),
      create("p", {class: "remark"}, `At score ≥ ${score(near.t)} for all classes, the nearest of ${data.confusions.length} ` +
        `thresholds with confusions: ${number(near.total)} ${counted}.` + (shown.length < rows.length || kept ?
        ` Shown: ${shown.length} of ${number(rows.length)} pairs${kept ? `, among${kept} ${number(near.kinds)}` : ""}.` : "")),
      ...(shown.length ? [table(heads, shown, 2)] : []));
  }

  function show(index) {
    ranking = data.rankings[index];
    select.value = index;
    curves = [];
    charts.replaceChildren();
    const others = ranking.others.filter(x => x.t.length), has = ranking.t.length > 0 && ranking.m > 0;
    for (const x of [slider, copy, ...rules]) x.disabled = !has;
    rules.forEach((x, i) => {
      x.disabled = !has || ranking.best[i] < 0;
      x.title = has && x.disabled ? `No threshold has ${data.rules[i]}.` : "";
    });
    missing.textContent = rules.map(x => x.title).join(" ").trim();
    if (!has) {
      threshold.textContent = "no threshold: nothing positive is retrieved";
      results.replaceChildren();
      confusions.replaceChildren();
      remark.textContent = "";
      return;
    }
    const all = (make, end) => [make(ranking, ranking.m, other ? system + end : ""), ...others.map(x => make(x, ranking.m, other + end))];
    const title = x => create("h3", {}, ranking.name ? `${x}: ${ranking.name}` : x);
    charts.append(title("Precision over recall"));
    curves.push(page.chart(charts, {x: "recall", y: "precision", xRange: [0, 1.02], step: true, series: all(precisionSeries, "")}));
    charts.append(title("F1 over the threshold"));
    curves.push(page.chart(charts, {x: "score threshold", y: "F1", series: all(overThresholds, "")}));
    slider.max = ranking.t.length - 1;
    move(Math.max(ranking.best[0], 0));
  }

  function move(to) {
    place = to;
    const {t, tp, fp, m, n} = ranking, i = place, values = [precision(ranking, i), tp[i] / m, f1(ranking, m, i)];
    slider.value = t.length - 1 - i;
    slider.setAttribute("aria-valuetext", `score at least ${score(t[i])}`);
    threshold.textContent = `score ≥ ${score(t[i])}`;
    copy.textContent = "Copy this threshold";
    const rows = ["precision", "recall", "F1"].map((name, k) => {
      const [low, high] = [ranking.ends[2 * k][i], ranking.ends[2 * k + 1][i]];
      return [name, values[k].toFixed(3), low === null ? "–" : `${low.toFixed(3)}–${high.toFixed(3)}`];
    });
    results.replaceChildren(
      table(["", "value", `${data.level} interval`], rows),
      n == null ? table(["", "object", "no object"], [["detected", number(tp[i]), number(fp[i])], ["missed", number(m - tp[i]), "–"]])
        : table(["", "positive", "negative"], [["score ≥ threshold", number(tp[i]), number(fp[i])],
          ["below", number(m - tp[i]), number(n - m - fp[i])]]));
    const [same] = ranking.others.filter(x => x.t.length);
    const j = same ? same.tp.findIndex(x => x >= tp[i]) : -1;
    remark.textContent = !same ? "" : j < 0 ? `${other} never reaches this recall.` :
      `${other} at the same recall or the next: precision ${precision(same, j).toFixed(3)}, score ≥ ${score(same.t[j])}.`;
    showConfusions(t[i]);
    curves[0].mark([{x: values[1], y: values[0]}]);
    curves[1].mark([{x: t[i], y: values[2]}]);
  }

  element.querySelectorAll("figure, details").forEach(x => x.classList.add("printed"));
  const box = create("div", {class: "live"},
    create("div", {class: "bar"}, ...(data.rankings.length > 1 ? [select] : []), ...rules, copy, missing),
    create("div", {class: "bar"}, slider, threshold), results, remark, confusions, charts);
  if (data.most) {
    box.append(create("p", {class: "remark"}, `At most ${data.most} thresholds of each curve are on this page, ` +
      "evenly over the scores of the positives, with the best ones; each has its exact counts. Ends of intervals have three digits."));
  }
  element.prepend(box);
  show(0);
  return {open(key) { show(Number(key) + data.first); }};
});
