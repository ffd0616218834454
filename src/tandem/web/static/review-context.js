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

  // The first of the lines that take the place of a fold, or of the part of it that is asked for.
  async function expand(link, part) {
    const row = link.closest("tr");
    const { oldFirst, newFirst, oldLast } = link.dataset;
    const query = new URLSearchParams({ old_first: oldFirst, new_first: newFirst, ...part });
    if (oldLast) query.set("count", Number(oldLast) - Number(oldFirst) + 1);
    const address = new URL(link.href);
    address.searchParams.delete("open");
    address.pathname += "/lines";
    address.hash = "";
    for (const [name, value] of query) address.searchParams.set(name, value);
    const rows = all("tr", (await fetched(address)).querySelector("tbody") || document.createElement("tbody"));
    const left = rows.findLast((one) => one.classList.contains("hunk"));
    const around = row.querySelector(".around");
    if (left && around) left.firstElementChild.append(" ", around);
    put(rows, row);
    return rows.find((one) => one.classList.contains("line"));
  }

  function put(rows, row) {
    row.replaceWith(...rows);
    const body = rows[0]?.parentElement;
    for (const one of rows) htmx.process(one);
    if (body) prepareAll(body);
  }

  async function open(link, way) {
    const row = link.closest("tr");
    try {
      const focused = await expand(link, way === "up" ? { take: STEP, from: "end" } : way ? { take: STEP } : {});
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
    put(all("tbody > tr", await fetched(address)), row);
  }

  // What carries a line's name; an unchanged line has none for its number before the change.
  function lineOf(file, side, number) {
    const named = document.getElementById(`${file.id}-${side}${number}`);
    if (named || side === "R") return named;
    const row = all("tr.line > .n:first-child", file).find((cell) => Number(cell.textContent) === number)?.parentElement;
    return row?.id ? row : row?.querySelector("[id]");
  }

  // The same, once the fold that has it is open; nothing where the file has no such line.
  async function uncover(file, side, number) {
    const [first, last] = side === "L" ? ["oldFirst", "oldLast"] : ["newFirst", "newLast"];
    for (;;) {
      const line = lineOf(file, side, number);
      const fold = all("a.expand", file).find(({ dataset }) => dataset[first] <= number && number <= (dataset[last] || Infinity));
      const more = file.querySelector("a.more-lines");
      if (line || (!fold && !more)) return line;
      if (!fold) await goOn(more);
      else if (!(await expand(fold, { at: number - fold.dataset[first] + Number(fold.dataset.newFirst) }))) return null;
    }
  }

  root.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest("a.expand, a.more-lines, button.step");
    if (!link) return;
    event.preventDefault();
    if (link.matches("a.more-lines")) goOn(link).catch((problem) => notice(problem.message));
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

  window.tandemReview.uncover = uncover;
  offerAll(document);
  document.addEventListener("htmx:after:swap", () => offerAll(document));
})();
