// Zoom, pan, search and hover for the chart on this page. It reads the picture only; nothing is fetched.
(() => {
  "use strict";
  const svg = document.querySelector("svg.gantt");
  const card = document.getElementById("card");
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const layer = { bars: svg.querySelector(".bars"), labels: svg.querySelector(".labels"), axis: svg.querySelector(".axis") };
  const [left, width, top, bottom, end] =
    ["left", "width", "top", "bottom", "end"].map((key) => Number(svg.dataset[key]));
  const LETTER = 6.5, MOST_LABELS = 500, CLOSEST = 1e5;

  // Every bar with its tooltip, which the card shows instead of the browser.
  const bars = [...layer.bars.children].map((rect) => {
    const title = rect.querySelector("title");
    const text = title.textContent;
    title.remove();
    const number = (name) => Number(rect.getAttribute(name));
    const kind = /\bk(\d+)/.exec(rect.getAttribute("class"))[1];
    return { rect, text, kind, name: text.split("\n", 1)[0], x: number("x"), y: number("y"),
      width: number("width"), height: number("height"), hit: false };
  });
  const ofRect = new Map(bars.map((bar) => [bar.rect, bar]));
  const marks = [...svg.querySelectorAll(".mark")];

  // A point x of the whole picture is shown at left + (x - left) * zoom + shift.
  let zoom = 1, shift = 0, pending = false;
  const shown = (x) => left + (x - left) * zoom + shift;

  const element = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const drawAxis = () => {
    const from = (-shift / zoom / width) * end, span = end / zoom;
    const power = 10 ** Math.floor(Math.log10(span / 10));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => span / s <= 12);
    const decimals = Math.min(12, Math.max(0, -Math.floor(Math.log10(step))));
    const ticks = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= from + span + step * 1e-9; i++) {
      const x = shown(left + ((i * step) / end) * width);
      ticks.push(element("path", { d: `M${x} ${top}V${bottom + 5}` }),
        element("text", { x, y: bottom + 18 }, (i * step).toFixed(decimals)));
    }
    layer.axis.replaceChildren(...ticks);
  };

  const drawLabels = () => {
    const labels = [];
    for (const bar of bars) {
      if (bar.height < 9 || labels.length >= MOST_LABELS) continue;
      const from = Math.max(shown(bar.x), left), to = Math.min(shown(bar.x + bar.width), left + width);
      const room = Math.floor((to - from - 8) / LETTER);
      if (room < Math.min(bar.name.length, 7)) continue;
      const name = bar.name.length > room ? bar.name.slice(0, room - 1) + "…" : bar.name;
      labels.push(element("text",
        { class: `i${bar.kind}${bar.hit ? " hit" : ""}`, x: from + 5, y: bar.y + bar.height / 2 + 3.8 }, name));
    }
    layer.labels.replaceChildren(...labels);
  };

  const draw = () => {
    pending = false;
    layer.bars.setAttribute("transform", `translate(${left + shift - left * zoom} 0) scale(${zoom} 1)`);
    for (const mark of marks) {
      const x = shown(Number(mark.dataset.x));
      mark.setAttribute("transform", `translate(${x} 0)`);
      mark.style.display = x < left - 1 || x > left + width + 1 ? "none" : "";
    }
    drawAxis();
    drawLabels();
  };
  const redraw = () => {
    if (!pending) requestAnimationFrame(draw);
    pending = true;
  };

  const move = (newZoom, newShift) => {
    zoom = Math.min(CLOSEST, Math.max(1, newZoom));
    shift = Math.min(0, Math.max(width * (1 - zoom), newShift));
    redraw();
  };
  const showAll = () => move(1, 0);

  // The pointer in the picture's own measure.
  const at = (event) => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale, scale };
  };
  const isInside = ({ x, y }) => x >= left && x <= left + width && y >= top && y <= bottom;

  svg.addEventListener("wheel", (event) => {
    const point = at(event);
    if (!isInside(point)) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) return move(zoom, shift - event.deltaX);
    const factor = Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.002));
    const next = Math.min(CLOSEST, Math.max(1, zoom * factor));
    move(next, point.x - left - ((point.x - left - shift) * next) / zoom);
  }, { passive: false });

  let drag = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && isInside(at(event))) drag = { x: event.clientX, y: event.clientY, shift };
  });
  window.addEventListener("pointermove", (event) => {
    if (drag) {
      svg.classList.add("moving");
      move(zoom, drag.shift + (event.clientX - drag.x) * at(event).scale);
      window.scrollBy(0, drag.y - event.clientY);
      drag.y = event.clientY;
    }
    const bar = ofRect.get(event.target);
    card.hidden = !bar || Boolean(drag);
    if (card.hidden) return;
    card.textContent = bar.text;
    const x = Math.min(event.clientX + 16, innerWidth - card.offsetWidth - 8);
    const below = event.clientY + 18;
    const y = below + card.offsetHeight > innerHeight ? event.clientY - card.offsetHeight - 12 : below;
    card.style.left = `${x}px`;
    card.style.top = `${y}px`;
  });
  window.addEventListener("pointerup", () => {
    drag = null;
    svg.classList.remove("moving");
  });
  svg.addEventListener("dblclick", showAll);
  document.getElementById("all").addEventListener("click", () => {
    search.value = "";
    filter(() => false, false);
    showAll();
  });

  // Everything but the hits fades.
  const filter = (isHit, on) => {
    let hits = 0;
    for (const bar of bars) {
      bar.hit = on && isHit(bar);
      bar.rect.classList.toggle("hit", bar.hit);
      hits += bar.hit;
    }
    svg.classList.toggle("filtered", on);
    found.textContent = on ? `${hits} of ${bars.length}` : "";
    redraw();
  };
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    filter((bar) => bar.name.toLowerCase().includes(wanted), wanted !== "");
  });
  search.addEventListener("keydown", (event) => {
    const hit = bars.find((bar) => bar.hit);
    if (event.key !== "Enter" || !hit) return;
    const next = Math.min(CLOSEST, Math.max(1, width / 5 / Math.max(hit.width, width / CLOSEST)));
    move(next, width / 2 - (hit.x + hit.width / 2 - left) * next);
    hit.rect.scrollIntoView({ block: "nearest" });
  });
  window.addEventListener("keydown", (event) => {
    if (event.key === "Escape") showAll();
  });
  let alone = null;
  for (const key of svg.querySelectorAll(".key")) {
    key.addEventListener("click", () => {
      alone = alone === key.dataset.kind ? null : key.dataset.kind;
      search.value = "";
      filter((bar) => bar.kind === alone, alone !== null);
    });
  }
  document.getElementById("tools").hidden = false;
})();
