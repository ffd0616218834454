// Comments on lines: written below the line, kept in this window until they are sent with the verdict (or as a
// comment now), and the threads of those that were sent, brought up to date as they change.
(() => {
  "use strict";
  if (window.tandemComments) return;
  const KEY = `tandem-comments ${location.pathname}`;
  const acts = () => document.getElementById("acts");
  const read = () => JSON.parse(sessionStorage.getItem(KEY) || "[]");
  const isWriting = (element) => element?.matches?.("input, textarea, select, [contenteditable]");
  let items = read();

  function save() {
    if (items.length) sessionStorage.setItem(KEY, JSON.stringify(items));
    else sessionStorage.removeItem(KEY);
  }

  const ready = () => items.filter((item) => !item.open && item.body.trim());
  const where = (item) => `${item.file}${item.line ? `:${item.line}` : ""}${item.removed ? " (a removed line)" : ""}`;

  // As it is sent. The contract knows lines of the file as it would be; a removed line is quoted.
  function sent(item) {
    const body = item.removed ? `On the removed line ${item.removed}, \`${item.quote}\`:\n\n${item.body}` : item.body;
    return { file: item.file, line: item.line || null, body };
  }

  window.tandemComments = {
    count: () => ready().length,
    send(body) {
      if (body.get("form_name") !== "verdict") return;
      const going = ready();
      body.set("comments", JSON.stringify(going.map(sent)));
      if (going.length && body.get("verdict") === "comment" && !body.get("reason").trim()) body.set("reason", "See the comments on the lines.");
    },
    clear() {
      items = items.filter((item) => item.open);
      save();
      show();
    },
  };

  // ------------------------------------------------------------------------------------------- places

  function lineOf(item) {
    const side = item.side || "after";
    const number = item.removed || item.line;
    for (const table of document.querySelectorAll("#change table.diff[data-path]")) {
      if (table.dataset.path !== item.file) continue;
      const link = table.querySelector(`a[data-side="${side}"][data-line="${number}"]`);
      if (link) return link.closest("tr");
    }
    return null;
  }

  // A row of its own below a line, after what stands there already.
  function rowBelow(line, name) {
    let last = line;
    while (last.nextElementSibling?.classList.contains("threads")) {
      last = last.nextElementSibling;
      if (last.dataset.row === name) return last.cells[0];
    }
    const row = document.createElement("tr");
    row.className = "threads";
    row.dataset.row = name;
    const cell = row.insertCell();
    cell.colSpan = [...line.cells].reduce((sum, one) => sum + one.colSpan, 0);
    last.after(row);
    return cell;
  }

  function copy(id) {
    return document.getElementById(id).content.firstElementChild.cloneNode(true);
  }

  // ------------------------------------------------------------------------------------------ showing

  function show() {
    // Lines are reached with j and k; as many stops for Tab would be no help.
    for (const link of document.querySelectorAll("table.diff td.n a:not([tabindex])")) link.tabIndex = -1;
    if (!acts()) return;
    const wanted = new Set(items.map((item) => item.id));
    for (const row of document.querySelectorAll("tr.threads[data-row^='own-']")) if (!wanted.has(row.dataset.row)) row.remove();
    for (const item of items) {
      const line = lineOf(item);
      if (line) fill(rowBelow(line, item.id), item);
    }
    list();
  }

  function fill(cell, item) {
    const shown = cell.firstElementChild;
    if (shown && shown.dataset.open === String(Boolean(item.open))) return;
    const made = item.open ? editor(item) : card(item);
    made.dataset.open = String(Boolean(item.open));
    cell.replaceChildren(made);
  }

  function card(item) {
    const made = copy("pending-template");
    made.querySelector(".pending-where").textContent = where(item) + (item.round === acts().dataset.round ? "" : ` · written on round ${item.round}`);
    made.querySelector(".said").textContent = item.body;
    made.querySelector("[data-pending-edit]").addEventListener("click", () => edit(item));
    made.querySelector("[data-pending-drop]").addEventListener("click", () => drop(item));
    return made;
  }

  function editor(item) {
    const form = copy("comment-template");
    form.querySelector(".comment-where").textContent = `Comment on ${where(item)}`;
    const text = form.elements.body;
    text.value = item.body;
    text.addEventListener("input", () => {
      item.body = text.value;
      save();
    });
    text.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !text.value.trim()) drop(item);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      event.stopPropagation();
      if (!item.body.trim()) return;
      if (acts().dataset.commentHow === "message") return sendNow(item, "message");
      item.open = false;
      save();
      show();
      lineOf(item)?.querySelector("a[data-line]")?.focus();
    });
    form.querySelector("[data-comment-now]")?.addEventListener("click", () => item.body.trim() && sendNow(item, "comment"));
    form.querySelector("[data-comment-cancel]").addEventListener("click", () => drop(item));
    return form;
  }

  function list() {
    const box = document.getElementById("pending-list");
    if (!box) return;
    const going = ready();
    box.hidden = !going.length;
    box.replaceChildren();
    if (!going.length) return;
    const title = document.createElement("p");
    title.textContent = `${going.length} comment${going.length === 1 ? "" : "s"} on lines go${going.length === 1 ? "es" : ""} with it:`;
    box.append(title);
    for (const item of going) if (!lineOf(item)) box.append(card(item));
    const links = document.createElement("p");
    links.className = "facts";
    for (const item of going.filter(lineOf)) {
      const link = document.createElement("a");
      link.textContent = where(item);
      link.href = "#" + (lineOf(item).id || lineOf(item).querySelector("[id]")?.id || "");
      links.append(link);
    }
    box.append(links);
  }

  // ------------------------------------------------------------------------------------------ writing

  function edit(item) {
    item.open = true;
    save();
    show();
    document.querySelector(`tr[data-row="${item.id}"] textarea`)?.focus();
  }

  function drop(item) {
    const line = lineOf(item);
    items = items.filter((one) => one !== item);
    save();
    show();
    line?.querySelector("a[data-line]")?.focus();
  }

  function open(link) {
    const table = link.closest("#change table.diff[data-path]");
    const box = acts();
    if (!table || !box) return;
    if (box.dataset.commentHow === "none") return explain(link, box.dataset.commentWhy);
    const file = table.dataset.path;
    const number = Number(link.dataset.line);
    const side = link.dataset.side || "after";
    const known = items.find((item) => item.file === file && (item.removed || item.line) === number && item.side === side);
    if (known) return edit(known);
    const item = { id: `own-${Date.now()}-${items.length}`, file, side, line: number, round: box.dataset.round, body: "", open: true };
    if (side === "before" && table.querySelector('a[data-side="after"]')) {
      item.removed = number;
      item.line = near(link.closest("tr"));
      item.quote = link.closest("tr").querySelector(".code").textContent;
    }
    items.push(item);
    edit(item);
  }

  // The line of the file as it would be that a removed one stands at.
  function near(row) {
    for (const step of ["nextElementSibling", "previousElementSibling"]) {
      for (let other = row[step]; other; other = other[step]) {
        const link = other.querySelector(':scope > td.n a[data-side="after"]');
        if (link) return Number(link.dataset.line);
      }
    }
    return null;
  }

  function explain(link, why) {
    const cell = rowBelow(link.closest("tr"), "own-why");
    const told = document.createElement("p");
    told.className = "hint why-not";
    told.setAttribute("role", "status");
    told.textContent = why;
    cell.replaceChildren(told);
    setTimeout(() => cell.parentElement.remove(), 6000);
  }

  async function sendNow(item, how) {
    const values = { comments: JSON.stringify([sent(item)]) };
    if (how === "message") Object.assign(values, { body: sent(item).body, file: item.file, line: item.line || "", comments: "[]" });
    const source = document.getElementById(how === "message" ? "message-form" : "verdict-form");
    const body = new FormData(source);
    for (const name of ["reason", "body", "comments"]) body.delete(name);
    for (const [name, value] of Object.entries(values)) body.set(name, value);
    body.set("form_name", "comment");
    // Its own key: the form that it borrows from is sent on its own.
    body.set("idempotency_key", item.id + "-" + body.get("idempotency_key"));
    const target = how === "message" ? "#stream" : "#acts";
    let status = 0;
    const hear = (event) => (status = event.detail.ctx.response.status);
    document.addEventListener("htmx:after:request", hear);
    try {
      await htmx.ajax("POST", `${acts().dataset.base}/${how}?round=${acts().dataset.round}`, { source: acts(), target, select: target, swap: "outerMorph", values: Object.fromEntries(body) });
    } finally {
      document.removeEventListener("htmx:after:request", hear);
    }
    if (status === 200) {
      items = items.filter((one) => one !== item);
      save();
      show();
      document.dispatchEvent(new CustomEvent("tandem-refresh"));
    }
  }

  const isLine = (element) => element instanceof Element && element.closest("#change table.diff[data-path] td.n a[data-line]");

  document.addEventListener("click", (event) => {
    const link = isLine(event.target);
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(link);
  });

  // Enter or c on a line that has the focus comments on it; c does not claim there.
  document.addEventListener("keydown", (event) => {
    if ((event.key !== "c" && event.key !== "Enter") || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
    if (event.key === "Enter" && !event.target.matches("tr, td.n a[data-line]")) return;
    const row = document.activeElement?.closest?.("#change table.diff tr.line");
    const link = row && (isLine(document.activeElement) || [...row.querySelectorAll("td.n a[data-line]")].pop());
    if (!link) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    open(link);
  }, true);

  // ------------------------------------------------------------------------------------------ threads

  document.addEventListener("tandem-fetched", (event) => {
    for (const fresh of event.detail.querySelectorAll(".thread")) {
      const shown = document.getElementById(fresh.id);
      if (shown) {
        htmx.swap({ target: shown, text: fresh.outerHTML, swap: "outerMorph" });
        continue;
      }
      const line = lineOf({ file: fresh.dataset.threadPath, line: Number(fresh.dataset.threadLine) });
      if (!line) continue;
      const cell = rowBelow(line, `of-${fresh.id}`);
      cell.replaceChildren(document.importNode(fresh, true));
      htmx.process(cell);
    }
  });
  document.addEventListener("htmx:after:swap", show);
  window.addEventListener("load", show);
})();
