
"use strict";
// The page works without this. It filters events, copies the id, opens what a link
// leads to, moves a large graph to what matters or makes it fit, and shows in the
// navigation where one is.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);

  const reveal = () => {
    let part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const target = part;
    for (; part; part = part.parentElement) {
      if (part.tagName === "DETAILS") part.open = true;
    }
    if (target) target.scrollIntoView({ block: "nearest" });
  };
  addEventListener("hashchange", reveal);
  reveal();

  const canvas = one(".canvas");
  const middle = one(".canvas .was-failed, .canvas .was-active") ?? one(".canvas .entry");
  if (canvas && middle) {
    const [outer, inner] = [canvas, middle].map((part) => part.getBoundingClientRect());
    canvas.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
    canvas.scrollTop += inner.bottom > outer.bottom ? inner.top - outer.top - 40 : 0;
  }
  const fit = one("#fit");
  if (canvas && fit && canvas.scrollWidth > canvas.clientWidth) {
    fit.parentElement.hidden = false;
    fit.addEventListener("click", () => {
      const fits = canvas.classList.toggle("fit");
      fit.setAttribute("aria-pressed", fits);
    });
  }

  for (const button of all("button[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy).textContent;
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
  }

  for (const time of all("time")) {
    const moment = new Date(time.dateTime);
    if (!Number.isNaN(moment.getTime())) time.title = moment.toLocaleString();
  }

  const form = one(".filters");
  if (form) {
    const rows = all("#events tbody tr:not(.gap)");
    const gaps = all("#events tbody tr.gap");
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const words = one("#filter");
    const errors = one("#only-errors");
    const apply = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let found = 0;
      rows.forEach((row, number) => {
        const fits = wanted.every((word) => texts[number].includes(word));
        row.hidden = !fits || (errors.checked && !row.classList.contains("error"));
        found += !row.hidden;
      });
      const filtered = wanted.length > 0 || errors.checked;
      for (const gap of gaps) gap.hidden = filtered;
      one("#found").textContent = filtered ? `${found} of ${rows.length} shown` : "";
    };
    form.hidden = false;
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
  }

  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.classList.remove("here");
      links.get(entry.target.id)?.classList.add("here");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  for (const id of links.keys()) {
    const part = document.getElementById(id);
    if (part) seen.observe(part);
  }
})();
