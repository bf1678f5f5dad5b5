"use strict";
/* Switches of the gallery: which side is drawn, whether with names; a picture opens in full width when it is clicked.
 * Rows of images and of errors open the first picture of the image, or the pictures of this kind of error. */
page.register("gallery", element => {
  const legend = element.querySelector(".legend");
  if (legend) {
    const choices = [["objects", "without-truths"], ["detections", "without-detections"], ["names", "without-names"]];
    for (const [text, hides] of choices) {
      const box = page.create("input", {type: "checkbox", checked: true,
        onchange: event => document.body.classList.toggle(hides, !event.target.checked)});
      legend.append(page.create("label", {}, box, ` ${text}`));
    }
  }
  for (const shot of element.querySelectorAll(".shot svg")) {
    shot.addEventListener("click", () => shot.closest(".shot").classList.toggle("large"));
  }
  const find = key => document.querySelector(`[data-shows="${CSS.escape(key)}"]`);
  return {
    has: find,
    open(key) {
      const found = find(key), shot = found.closest(".shot");
      found.closest("details").open = true;
      if (shot) shot.classList.add("large");
      return shot || found;
    },
  };
});
