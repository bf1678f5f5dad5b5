"use strict";
/* Switches of the gallery: which side is drawn, whether with names; a picture opens in full width when it is clicked.
 * Rows of images and of errors open the first picture of the image, or the pictures of this kind of error. An image without
 * a picture is drawn from its data, see `_Gallery._data` in Python. */
page.register("gallery", element => {
  const {create} = page, legend = element.querySelector(".legend");
  if (legend) {
    const choices = [["objects", "without-truths"], ["detections", "without-detections"], ["names", "without-names"]];
    for (const [text, hides] of choices) {
      const box = create("input", {type: "checkbox", checked: true,
        onchange: event => document.body.classList.toggle(hides, !event.target.checked)});
      legend.append(create("label", {}, box, ` ${text}`));
    }
    legend.after(create("div", {class: "shots", id: "drawing"}));
  }
  const enlargeable = shot => {
    const drawing = shot.querySelector("svg");
    page.pressable(drawing, `Enlarge ${drawing.getAttribute("aria-label")}`, () => shot.classList.toggle("large"));
  };
  element.querySelectorAll(".shot").forEach(enlargeable);
  const data = document.getElementById("drawings"), further = data ? JSON.parse(data.textContent) : {images: {}};
  const image = key => further.images[key.replace("image-", "")];
  const find = key => document.querySelector(`[data-shows="${CSS.escape(key)}"]`);

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  /* The path of a shape: of two corners, of all corners, or the path itself. */
  function path(shape) {
    if (typeof shape === "string") return shape;
    const [a, b, c, d] = shape, every = shape.length === 4 ? [a, b, c, b, c, d, a, d] : shape;
    return `M${every.map(x => x / 10).join(" ")}Z`;
  }

  function draw(key) {
    const [name, width, height, line, objects, detections, hidden] = image(key), {names, kinds} = further;
    const drawing = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `image ${name}`},
      svg("rect", {class: "canvas", width, height}));
    const shot = create("figure", {class: "shot large"}, drawing), list = create("ul");
    document.getElementById("drawing").replaceChildren(shot);
    const add = (kind, described, short, shape) => {
      const outline = svg("path", line ? {d: path(shape), class: "mask", style: `stroke-width:${line}`} : {d: path(shape)});
      const group = svg("g", {class: kind}, svg("title", {}, described), outline);
      drawing.append(group);
      const box = outline.getBBox(), y = box.y + (kind.startsWith("truth") ? 9 : -3);
      group.append(svg("text", {x: Math.max(1, box.x + 2), y: Math.max(9, y)}, short));
      list.append(create("li", {}, described));
    };
    for (const [label, verdict, shape] of objects) {
      const text = `object ${names[label]}: ${["found", "missed", "ignored"][verdict]}`;
      add(`truth ${verdict === 1 ? "missed" : "found"}`, text, names[label], shape);
    }
    for (const [label, score, kind, iou, owner, shape] of detections) {
      const about = owner < 0 ? "" : `, IoU ${iou.toFixed(2)} with ${names[owner]}`;
      const verdict = kind === 0 ? "right" : kind === kinds.length - 1 ? "ignored" : "wrong";
      add(`detection ${verdict}`, `${names[label]} ${score}${about}: ${kinds[kind]}`, `${names[label]} ${Number(score.toPrecision(2))}`, shape);
    }
    const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
    if (hidden[0] || hidden[1]) list.append(create("li", {}, `not drawn: ${count(hidden[0], "object")}, ${count(hidden[1], "detection")}`));
    shot.append(create("figcaption", {}, create("b", {}, `image ${name}`), create("details", {},
      create("summary", {}, `${count(objects.length, "object")}, ${count(detections.length, "detection")}`), list)));
    enlargeable(shot);
    return shot;
  }

  return {
    has: key => find(key) || image(key),
    open(key) {
      const found = find(key), shot = found ? found.closest(".shot") : draw(key);
      if (found) found.closest("details").open = true;
      if (shot) shot.classList.add("large");
      return shot || found;
    },
  };
});
