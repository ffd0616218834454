// Lines that the diff leaves out open in its place; each link leads to a page that does the same.
(() => {
  "use strict";
  if (!window.tandemReview) return;
  const { root, all, prepare, notice } = window.tandemReview;
  const STEP = 20;
  const MANY = 45;

  function offerSteps(link) {
    const { oldFirst, oldLast } = link.dataset;
    if (link.dataset.offered || !oldLast || Number(oldLast) - Number(oldFirst) < MANY) return;
    link.dataset.offered = "1";
    const below = step("down", `↓ ${STEP}`, `Show ${STEP} lines below the change above`);
    const above = step("up", `↑ ${STEP}`, `Show ${STEP} lines above the change below`);
    link.before(...(Number(link.dataset.newFirst) > 1 ? [below, above] : [above]));
  }

  function step(way, text, label) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet step";
    button.dataset.step = way;
    button.textContent = text;
    button.setAttribute("aria-label", label);
    return button;
  }

  async function fetched(address) {
    const answer = await fetch(address).catch(() => null);
    const made = new DOMParser().parseFromString(answer ? await answer.text() : "", "text/html");
    if (answer?.ok) return made;
    throw new Error(made.querySelector(".refusal")?.textContent || "The broker does not answer. Try again in a moment.");
  }

  async function open(link, way) {
    const row = link.closest("tr");
    const { oldFirst, newFirst, oldLast } = link.dataset;
    const query = new URLSearchParams({ old_first: oldFirst, new_first: newFirst });
    if (oldLast) query.set("count", Number(oldLast) - Number(oldFirst) + 1);
    if (way) query.set("take", STEP);
    if (way === "up") query.set("from", "end");
    const address = new URL(link.href);
    address.searchParams.delete("open");
    address.pathname += "/lines";
    address.hash = "";
    for (const [name, value] of query) address.searchParams.set(name, value);
    try {
      const rows = all("tr", (await fetched(address)).querySelector("tbody") || document.createElement("tbody"));
      const left = rows.find((one) => one.classList.contains("hunk"));
      const around = row.querySelector(".around");
      if (left && around) left.firstElementChild.append(" ", around);
      const focused = rows.find((one) => one.classList.contains("line"));
      row.replaceWith(...rows);
      const body = rows[0]?.parentElement;
      for (const one of rows) htmx.process(one);
      if (body) prepareAll(body);
      if (focused) window.tandemReview.focusRow(focused, false);
    } catch (problem) {
      const said = row.querySelector(".problem") || row.firstElementChild.appendChild(document.createElement("span"));
      said.className = "problem";
      said.setAttribute("role", "alert");
      said.textContent = problem.message;
    }
  }

  async function goOn(link) {
    const row = link.closest("tr");
    const address = new URL(link.href);
    address.searchParams.set("part", "1");
    try {
      const rows = all("tbody > tr", await fetched(address));
      row.replaceWith(...rows);
      const body = rows[0]?.parentElement;
      for (const one of rows) htmx.process(one);
      if (body) prepareAll(body);
    } catch (problem) {
      notice(problem.message);
    }
  }

  root.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest("a.expand, a.more-lines, button.step");
    if (!link) return;
    event.preventDefault();
    if (link.matches("a.more-lines")) goOn(link);
    else if (link.matches("a.expand")) open(link, "");
    else open(link.parentElement.querySelector("a.expand"), link.dataset.step);
  });

  function offerAll(within) {
    for (const link of all("a.expand", within)) offerSteps(link);
  }

  function prepareAll(within) {
    offerAll(within);
    prepare(within);
  }

  offerAll(document);
  document.addEventListener("htmx:after:swap", () => offerAll(document));
})();
