"use strict";
(() => {
  const block = document.getElementById("explorer-data");
  const slider = document.getElementById("budget");
  if (!block || !slider) return;
  const data = JSON.parse(block.textContent);
  const told = (name) => document.getElementById(`told-${name}`);
  const rows = document.querySelectorAll("[data-method]");
  const markers = document.querySelectorAll(".marker");
  const first = Math.log(data.epsilons[0]);
  const span = Math.log(data.epsilons[data.epsilons.length - 1]) - first;

  const shown = (value) => {
    if (value === 0) return "0";
    const digits = value >= 100 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(value)));
    const text = value.toFixed(Math.min(digits, 8));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  };

  const show = () => {
    const place = Number(slider.value);
    const method = data.chosen[place];
    const error = data.errors[method][place];
    const share = `${Math.round((100 * error) / data.errors.mean[place])}%`;
    told("epsilon").textContent = data.shown[place];
    told("method").textContent = data.titles[method];
    told("error").textContent = shown(error);
    told("share").textContent = share;
    told("odds").textContent = data.odds[place];
    slider.setAttribute(
      "aria-valuetext",
      `epsilon ${data.shown[place]}: ${data.titles[method]}, guessed error ${shown(error)}`,
    );
    rows.forEach((row) => {
      const name = row.dataset.method;
      const cells = row.querySelectorAll("td");
      cells[0].textContent = shown(data.errors[name][place]);
      cells[1].textContent = name === method ? "chosen" : "";
      row.classList.toggle("chosen", name === method);
    });
    const along = (Math.log(data.epsilons[place]) - first) / span;
    markers.forEach((marker) => {
      const at = Object.fromEntries(Object.entries(marker.dataset).map(([key, text]) => [key, Number(text)]));
      const x = at.x0 + (at.x1 - at.x0) * along;
      const up = Math.min(Math.max((error - at.low) / (at.high - at.low), 0), 1);
      const [line, dot] = marker.children;
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", at.y0 + (at.y1 - at.y0) * up);
    });
  };

  slider.addEventListener("input", show);
  document.getElementById("budget-back").addEventListener("click", () => {
    slider.value = data.at;
    show();
    slider.focus();
  });
  slider.closest(".controls").hidden = false;
  show();
})();
