// What a page of the bench measures of itself; runs before each document.
window.probe = {lcp: 0, cls: 0, content: 0, long: [], inputs: {}};
const see = (type, take, more) => new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) take(entry);
}).observe({type, buffered: true, ...more});
see("largest-contentful-paint", (e) => { probe.lcp = e.startTime; });
see("layout-shift", (e) => { if (!e.hadRecentInput) probe.cls += e.value; });
see("longtask", (e) => probe.long.push([e.startTime, e.duration]));
see("event", (e) => {
  if (e.interactionId) {
    probe.inputs[e.interactionId] = Math.max(probe.inputs[e.interactionId] ?? 0, e.duration);
  }
}, {durationThreshold: 16});
// What was answered before the first step or row was drawn is what it waited for.
const drawn = new MutationObserver(() => {
  if (!document.querySelector(".node, [role=row][data-id]")) return;
  drawn.disconnect();
  probe.content = performance.now();
});
drawn.observe(document, {childList: true, subtree: true});
const painted = () => new Promise((done) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done();
  channel.port2.postMessage(0);
}));
const slider = () => document.querySelector("[role=slider]").getAttribute("aria-valuenow");
const isHere = () => document.querySelector(".slider .position .mono").textContent.trim() !== "";
const values = () => document.querySelector(".values[data-seq]:not(.old)")?.dataset.seq;
// The time from the next move of the pointer until the page shows its position.
window.moved = (withValues) => new Promise((done) => {
  const old = slider();
  addEventListener("pointermove", async (event) => {
    for (let tries = 0; tries < 600; tries++) {
      await painted();
      const isShown = slider() !== old && isHere();
      if (isShown && (!withValues || values() === slider())) break;
    }
    done(performance.now() - event.timeStamp);
  }, {once: true, capture: true});
});
// Wall time at which each length of the log was on the screen.
window.lengths = [];
window.follow = () => new MutationObserver(async () => {
  const length = Number(document.querySelector("[role=slider]").getAttribute("aria-valuemax"));
  await painted();
  lengths.push([length, performance.timeOrigin + performance.now()]);
}).observe(document.querySelector("[role=slider]"), {attributeFilter: ["aria-valuemax"]});
window.frames = [];
window.count = () => {
  let last = performance.now();
  frames.length = 0;
  const next = (now) => { frames.push(now - last); last = now; window.counting = requestAnimationFrame(next); };
  window.counting = requestAnimationFrame((now) => { last = now; next(now); frames.length = 0; });
};
