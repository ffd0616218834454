// The log of a check comes where its fold is opened; it has a page of its own, from which it is taken then.
(() => {
  "use strict";

  async function fill(fold) {
    const answer = await fetch(fold.dataset.log);
    const log = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("check-log");
    if (!log) return; // the link is still there
    log.removeAttribute("id");
    fold.querySelector(".check-log-place").replaceChildren(log);
    log.scrollTop = log.scrollHeight;
    // What it wrote is no other text later: after another run the fold has another name.
    fold.setAttribute("data-keep", "");
  }

  document.addEventListener("toggle", (event) => {
    const fold = event.target;
    if (fold.matches?.("details[data-log]:not([data-keep])") && fold.open) fill(fold).catch(() => {});
  }, true);
})();
