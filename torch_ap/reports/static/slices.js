"use strict";
/* The slider of the slices: the numbers of all images and of each slice at one score threshold for all classes. */
page.register("slices", (element, data) => {
  const {create, number, score, table} = page, {t, slices} = data, COLUMNS = ["precision", "recall", "F1"];
  const slider = create("input", {type: "range", min: 0, max: t.length - 1, step: 1, "aria-label": "Score threshold of slices",
    oninput: () => move(t.length - 1 - Number(slider.value))});
  const threshold = create("output", {class: "threshold"}), results = create("div", {class: "wide", tabindex: 0});
  const text = (x, [low, high]) => Number.isNaN(x) ? "–" : low == null ? x.toFixed(3) :
    `${x.toFixed(3)} (${low.toFixed(3)}–${high.toFixed(3)})`;

  function move(i) {
    slider.value = t.length - 1 - i;
    slider.setAttribute("aria-valuetext", `score at least ${score(t[i])}`);
    threshold.textContent = `score ≥ ${score(t[i])}`;
    results.replaceChildren(table(["slice", ...COLUMNS, "TP", "FP", "FN"], slices.map(({name, m, tp, fp, ends}) => {
      const ratios = [tp[i] / (tp[i] + fp[i]), tp[i] / m, 2 * tp[i] / (tp[i] + fp[i] + m)];
      return [name, ...ratios.map((x, k) => text(x, [ends[2 * k][i], ends[2 * k + 1][i]])),
        number(tp[i]), number(fp[i]), number(m - tp[i])];
    })));
  }

  element.querySelectorAll("details").forEach(x => x.classList.add("printed"));
  element.prepend(create("div", {class: "live"}, create("h3", {}, "Slices at one threshold"),
    create("p", {class: "remark"}, `One threshold for all classes, with ${data.level} intervals over ${data.units}.`),
    create("div", {class: "bar"}, slider, threshold), results));
  move(data.best);
});
