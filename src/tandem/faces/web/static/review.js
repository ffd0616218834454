// The page of a review: files that are loaded when they are scrolled to, folded when they are viewed, context that
// opens in place, and the keyboard. Everything here has a plain link or form that does the same.
(() => {
  "use strict";
  const root = document.querySelector(".review");
  if (!root) return;
  const LAYOUT_AGE_SECONDS = 400 * 86_400;
  const COPIED_MS = 1500;
  const STEP = 20;
  const MANY = 45;
  const AHEAD = "1200px 0px";
  const marks = new BroadcastChannel("tandem-viewed");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const files = () => all(".file[id]", root).filter((file) => file.querySelector(":scope > .file-head"));
  const bodyOf = (file) => file.querySelector(":scope > .file-body");

  // ----------------------------------------------------------------------------------- measures

  // A property of the root restyles everything, so it is only set where the stylesheet's guess is wrong.
  const top = document.querySelector(".top");
  function measure() {
    place("--top", getComputedStyle(top).position === "sticky" ? top.offsetHeight : 0);
    place("--bar", document.querySelector(".change-bar")?.offsetHeight);
  }
  function place(name, height) {
    const root = document.documentElement;
    if (height === undefined || Math.abs(parseFloat(getComputedStyle(root).getPropertyValue(name)) - height) < 2) return;
    root.style.setProperty(name, `${height}px`);
  }
  new ResizeObserver(measure).observe(top);

  // ------------------------------------------------------------------------------------ copying

  function prepare(within) {
    for (const button of all("button.copy[hidden], button.fold[hidden]", within)) button.hidden = false;
    for (const link of all("a.expand", within)) offerSteps(link);
    // One stop for the Tab key in each diff instead of one a line: from row to row go j and k.
    for (const number of all(".n a[href]", within)) number.removeAttribute("href");
    for (const row of all("tr.line:not([tabindex])", within)) row.tabIndex = -1;
    for (const table of all("table.diff", within)) {
      const first = table.querySelector("tr.line");
      if (first && !table.querySelector('tr.line[tabindex="0"]')) first.tabIndex = 0;
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    const said = button.firstChild;
    const before = said.textContent;
    await navigator.clipboard.writeText(button.dataset.copy);
    said.textContent = "Copied";
    setTimeout(() => (said.textContent = before), COPIED_MS);
  });

  // ------------------------------------------------------------------------------------- layout

  function rememberLayout(layout) {
    document.cookie = `tandem_diff=${layout}; path=/; max-age=${LAYOUT_AGE_SECONDS}; samesite=strict`;
  }

  const asked = new URLSearchParams(location.search).get("view");
  if (asked === "unified" || asked === "split") rememberLayout(asked);
  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-layout]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    // Back to the same file in the other layout.
    const file = current();
    if (file && window.scrollY > 0) link.hash = file.id;
  });

  // ------------------------------------------------------------------------------------ loading

  const loading = new Map();

  function load(file) {
    const link = file.querySelector(":scope > .file-body a[data-load]");
    if (!link) return Promise.resolve();
    if (!loading.has(file.id)) {
      file.classList.add("loading");
      loading.set(
        file.id,
        fill(file, link.dataset.load).catch(() => {}).finally(() => {
          loading.delete(file.id);
          file.classList.remove("loading");
          if (!file.querySelector("a[data-load]")) file.dataset.state = "shown";
          prepare(file);
        }),
      );
    }
    return loading.get(file.id);
  }

  // Each file is its own source: of many requests of one source, htmx drops all but two.
  function fill(file, address) {
    const target = `#${bodyOf(file).id}`;
    return htmx.ajax("GET", address, { source: file, target, select: target, swap: "outerHTML" });
  }

  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        const file = entry.target.closest(".file");
        if (file && file.dataset.state === "later") load(file);
      }
    },
    { rootMargin: AHEAD },
  );

  function watch(file) {
    const later = file.querySelector(".later");
    if (file.dataset.state === "later" && later) seen.observe(later);
  }

  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-load]");
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const file = link.closest(".file");
    load(file).then(() => fold(file, true));
  });

  // ------------------------------------------------------------------------------------ folding

  function fold(file, open) {
    const body = bodyOf(file);
    body.hidden = !open;
    file.querySelector(".fold")?.setAttribute("aria-expanded", String(open));
  }

  function toggle(file) {
    const open = file.querySelector(".fold")?.getAttribute("aria-expanded") !== "true";
    if (open && file.querySelector("a[data-load]")) load(file).then(() => fold(file, true));
    else fold(file, open);
  }

  root.addEventListener("click", (event) => {
    const button = event.target.closest(".fold");
    if (button) toggle(button.closest(".file"));
  });

  // ------------------------------------------------------------------------------------- viewed

  function show(file, viewed) {
    const button = file.querySelector("button.viewed");
    if (!button || (button.getAttribute("aria-checked") === "true") === viewed) return;
    button.setAttribute("aria-checked", String(viewed));
    button.value = viewed ? "no" : "yes";
    if (!viewed && file.querySelector("a[data-load]")) {
      file.dataset.state = "later";
      watch(file);
      fold(file, true);
    } else {
      fold(file, !viewed);
    }
    const leaf = document.querySelector(`[data-tree-file="${file.id}"]`);
    leaf?.classList.toggle("viewed", viewed);
    const word = leaf?.querySelector(".viewed-word");
    if (word) word.textContent = viewed ? "viewed" : "";
    const count = document.getElementById("viewed-count");
    if (count) count.textContent = all('button.viewed[aria-checked="true"]', root).length;
  }

  function showAll(paths) {
    const viewed = new Set(paths);
    for (const file of files()) show(file, viewed.has(file.dataset.path));
  }

  root.addEventListener("submit", async (event) => {
    const form = event.target.closest(".viewed-form");
    if (!form) return;
    event.preventDefault();
    const file = form.closest(".file");
    const button = form.querySelector("button.viewed");
    const viewed = button.value === "yes";
    const above = file.getBoundingClientRect().top < 0;
    const body = new FormData(form);
    body.set("viewed", button.value);
    body.set("quiet", "1");
    show(file, viewed);
    // What was scrolled past is folded; the reader stays at its head.
    if (viewed && above) file.scrollIntoView({ block: "start" });
    const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(body) }).catch(() => null);
    if (!answer?.ok) {
      show(file, !viewed);
      notice("This could not be kept: the broker did not take it. Try again, or load the page anew.");
      return;
    }
    marks.postMessage({ review: root.dataset.review, round: root.dataset.round, path: file.dataset.path, viewed });
  });

  marks.addEventListener("message", (event) => {
    const { review, round, path, viewed } = event.data;
    if (review !== root.dataset.review || round !== root.dataset.round) return;
    const file = files().find((one) => one.dataset.path === path);
    if (file) show(file, viewed);
  });

  // Another browser of the same person says nothing here: whoever comes back to this window is told then.
  document.addEventListener("visibilitychange", async () => {
    if (document.hidden || !document.querySelector(".viewed-form")) return;
    const address = `/reviews/${encodeURIComponent(root.dataset.review)}/viewed?round=${root.dataset.round}`;
    const answer = await fetch(address).catch(() => null);
    if (answer?.ok) showAll((await answer.json()).paths);
  });

  function notice(text) {
    const place = document.getElementById("notice");
    place.textContent = text;
    place.hidden = false;
  }

  // ------------------------------------------------------------------------------------ context

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
      if (body) prepare(body);
      if (focused) focusRow(focused, false);
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
      if (body) prepare(body);
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

  // ------------------------------------------------------------------------------------ keyboard

  const edge = () => top.getBoundingClientRect().bottom + (document.querySelector(".change-bar")?.offsetHeight || 0);

  // The file that is worked on: where the focus is, or else the one at the upper edge of the window.
  function current() {
    const focused = document.activeElement?.closest?.(".file");
    if (focused && root.contains(focused) && focused.querySelector(".file-head")) return focused;
    const line = Math.max(edge(), 0) + 8;
    return files().find((file) => file.getBoundingClientRect().bottom > line);
  }

  function goToFile(by) {
    const list = files();
    const at = list.indexOf(current());
    const isAtHead = document.activeElement?.closest(".file") === list[at];
    const next = list[by > 0 && !isAtHead && window.scrollY < 8 ? 0 : Math.min(list.length - 1, Math.max(0, at + by))];
    if (!next) return sections(by);
    const head = next.querySelector(".file-head");
    head.tabIndex = -1;
    head.focus({ preventScroll: true });
    next.scrollIntoView({ block: "start" });
  }

  // In a document: from heading to heading.
  function sections(by) {
    const list = all(".paper section[id], .doc-block.changed, .doc-block.added, .doc-block.deleted", root);
    const at = list.indexOf(document.activeElement);
    const next = list[Math.min(list.length - 1, Math.max(0, at + by))];
    if (!next) return;
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "start" });
  }

  function isShown(row) {
    return !row.closest(".file-body")?.hidden;
  }

  function focusRow(row, scroll = true) {
    const stop = row.closest("table").querySelector('tr.line[tabindex="0"]');
    if (stop) stop.tabIndex = -1;
    row.tabIndex = 0;
    row.dataset.item = "";
    row.addEventListener("blur", () => delete row.dataset.item, { once: true });
    row.focus({ preventScroll: true });
    if (!scroll) return;
    const box = row.getBoundingClientRect();
    const upper = edge() + 40;
    if (box.top < upper) window.scrollBy(0, box.top - upper - 60);
    else if (box.bottom > window.innerHeight - 40) window.scrollBy(0, box.bottom - window.innerHeight + 140);
  }

  function startRow(rows, by) {
    const file = document.activeElement?.closest?.(".file");
    if (file) return rows.findIndex((row) => file.contains(row)) - (by > 0 ? 1 : 0);
    const upper = edge();
    const at = rows.findIndex((row) => isShown(row) && row.getBoundingClientRect().top >= upper);
    return by > 0 ? at - 1 : at;
  }

  function goToRow(by, selector) {
    const rows = all(selector, root);
    let at = rows.indexOf(document.activeElement?.closest?.("tr"));
    if (at < 0 && document.activeElement?.matches?.("tr.line")) {
      // Between two changes: from where the focus is.
      const place = document.activeElement;
      at = rows.findIndex((row) => place.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);
      if (at < 0) at = rows.length;
      if (by > 0) at -= 1;
    } else if (at < 0) {
      at = startRow(rows, by);
    }
    for (at += by; at >= 0 && at < rows.length; at += by) {
      if (isShown(rows[at])) return focusRow(rows[at]);
    }
  }

  const CHANGES = "tr.line.added, tr.line.deleted, .diff-split tr.line:has(> .added, > .deleted)";

  function goToChange(by) {
    // The first line of each run of changed lines.
    const isChange = (row) => row?.matches(CHANGES);
    const rows = all("tr.line", root).filter((row) => isChange(row) && !isChange(row.previousElementSibling));
    rows.forEach((row) => row.classList.add("run"));
    goToRow(by, "tr.line.run");
  }

  document.getElementById("review-keys")?.addEventListener("click", (event) => {
    const { go, by } = event.target.dataset;
    const file = current();
    if (go === "file") goToFile(Number(by));
    if (go === "change") goToChange(Number(by));
    if (go === "fold" && file) toggle(file);
    if (go === "layout") document.querySelector("a[data-layout]:not([aria-current])")?.click();
    if (go === "viewed" && file) {
      file.querySelector("button.viewed")?.click();
      const head = file.querySelector(".file-head");
      head.tabIndex = -1;
      head.focus({ preventScroll: true });
    }
  });

  // In the diff, j and k go from line to line; elsewhere they do what they do on every page.
  window.addEventListener(
    "keydown",
    (event) => {
      if ((event.key !== "j" && event.key !== "k") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable], #talk, dialog")) return;
      if (document.querySelector("dialog[open]") || !root.querySelector(".file tr.line")) return;
      event.stopPropagation();
      event.preventDefault();
      goToRow(event.key === "j" ? 1 : -1, "tr.line");
    },
    true,
  );

  document.getElementById("files-summary")?.addEventListener("click", (event) => {
    // Pressed by its key, the list opens and takes the focus; a mouse opens and closes it.
    if (event.detail > 0) return;
    const list = document.getElementById("files");
    if (list.contains(document.activeElement) && list.open) return;
    event.preventDefault();
    list.open = true;
    (list.querySelector("a[aria-current]") || list.querySelector("a"))?.focus();
  });

  // ------------------------------------------------------------------------ where one is in the tree

  const leaves = new Map(all("[data-tree-file]").map((leaf) => [leaf.dataset.treeFile, leaf]));
  let due = 0;
  function followScroll() {
    due = 0;
    const file = current();
    for (const [id, leaf] of leaves) {
      if (file?.id !== id) leaf.removeAttribute("aria-current");
      else if (!leaf.hasAttribute("aria-current")) {
        leaf.setAttribute("aria-current", "true");
        const box = leaf.closest("nav");
        const place = leaf.getBoundingClientRect();
        const frame = box.getBoundingClientRect();
        if (place.top < frame.top || place.bottom > frame.bottom) box.scrollTop += place.top - frame.top - frame.height / 3;
      }
    }
  }
  if (leaves.size) {
    document.addEventListener("scroll", () => (due ||= requestAnimationFrame(followScroll)), { passive: true });
  }

  // --------------------------------------------------------------------------------------- begin

  prepare(document);
  document.addEventListener("htmx:after:swap", () => prepare(document));
  for (const file of files()) {
    if (file.dataset.state === "viewed") fold(file, false);
    watch(file);
  }
  // What was left plain for want of time comes highlighted when the page is there.
  for (const table of all("table[data-plain]", root)) {
    const file = table.closest(".file");
    const link = file?.dataset.address;
    if (link) fill(file, link).then(() => prepare(file));
  }
  requestAnimationFrame(followScroll);
})();
