// The page of a review: files that are loaded when they are scrolled to, and folded when they are viewed. Everything
// here has a plain link or form that does the same. Context that opens in place is in review-context.js, the keyboard
// in review-keys.js.
(() => {
  "use strict";
  const root = document.querySelector(".review");
  if (!root) return;
  const LAYOUT_AGE_SECONDS = 400 * 86_400;
  const COPIED_MS = 1500;
  const AHEAD = "1200px 0px";
  const marks = new BroadcastChannel("tandem-viewed");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const files = () => all(".file[id]", root).filter((file) => file.querySelector(":scope > .file-head"));
  const bodyOf = (file) => file.querySelector(":scope > .file-body");

  // ----------------------------------------------------------------------------------- measures

  // A property of the root restyles everything, so it is only set where the stylesheet's guess is wrong.
  const top = document.getElementById("review-bar") || document.querySelector(".top");
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
        fill(file, link.dataset.load).then((isShown) => {
          loading.delete(file.id);
          file.classList.remove("loading");
          if (isShown) file.dataset.state = "shown";
          else tellMissing(link);
        }),
      );
    }
    return loading.get(file.id);
  }

  // Whether its lines came. Each file is its own source: of many requests of one source, htmx drops all but two.
  async function fill(file, address) {
    const before = bodyOf(file);
    const target = `#${before.id}`;
    await htmx.ajax("GET", address, { source: file, target, select: target, swap: "outerHTML" }).catch(() => {});
    const isShown = bodyOf(file) !== before;
    file.toggleAttribute("data-missing", !isShown);
    prepare(file);
    keepLine();
    return isShown;
  }

  function tellMissing(link) {
    const told = link.parentElement.querySelector(".problem") || link.parentElement.insertBefore(document.createElement("span"), link.nextSibling);
    told.className = "problem";
    told.textContent = "Not loaded: the broker did not answer. Its lines come when it is back.";
  }

  // What the broker did not give comes once it answers again.
  document.addEventListener("tandem-fetched", () => {
    for (const file of all(".file[data-missing]", root)) load(file);
    highlight(".file[data-missing] ");
  });

  // What was left plain for want of time comes highlighted when the page is there.
  function highlight(among = "") {
    for (const table of all(`${among}table[data-plain]`, root)) {
      const file = table.closest(".file");
      if (file?.dataset.address) fill(file, file.dataset.address).then(() => isLed && showLine());
    }
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

  // ----------------------------------------------------------------------------------- findings

  // What is in a file that is not loaded or is folded.
  async function reveal(file, id) {
    if (file && !document.getElementById(id)) await load(file);
    const place = document.getElementById(id);
    if (place && file?.contains(place)) fold(file, true);
    return place;
  }

  // Where the address leads stays in sight while the page grows above it, until the person moves on. What came again
  // is marked by the browser only when it goes there again.
  let isLed = false;

  function keepLine() {
    const { hash } = location;
    const place = document.getElementById(hash.slice(1));
    if (!isLed || !place?.checkVisibility()) return;
    if (place.matches(":target")) place.scrollIntoView({ behavior: "instant" });
    else location.replace(hash);
  }

  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    document.addEventListener(kind, () => (isLed = false), { passive: true, capture: true });
  }

  // What opens folds is in a script that runs after this one.
  const isReady = new Promise((done) => document.addEventListener("DOMContentLoaded", done, { once: true }));

  // To a line, by the page's address. The browser marks and shows what the address names once it is there.
  async function showLine() {
    const { hash } = location;
    isLed = hash !== "";
    if (document.getElementById(hash.slice(1))?.checkVisibility()) return;
    const [, name, side, number] = /^#(f\d+)-([LR])(\d+)$/.exec(hash) || [];
    const file = files().find((one) => one.id === name);
    const place = file && (await reveal(file, hash.slice(1)));
    if (!file || hash !== location.hash) return;
    const address = new URL(location.href);
    if (place) location.replace(hash);
    else if (address.searchParams.get("whitespace") === "off") {
      // It may be a line that is left out.
      address.searchParams.delete("whitespace");
      location.replace(address);
    } else openTo(file, side, Number(number));
  }

  // To a line that is folded, or to its file where there is none.
  async function openTo(file, side, number) {
    const { hash } = location;
    let told = `There is no line ${number}${side === "L" ? " before the change" : ""} in ${file.dataset.path}.`;
    await isReady;
    const place = await window.tandemReview.uncover(file, side, number).catch(({ message }) => void (told = message));
    if (hash !== location.hash) return;
    fold(file, true);
    location.replace(`#${(place || file).id}`);
    if (!place) notice(told);
  }

  async function showFinding({ hash, dataset: { path } }) {
    const file = files().find((one) => [one.dataset.path, one.dataset.oldPath].includes(path));
    const place = await reveal(file, hash.slice(1));
    if (!place) return;
    history.replaceState(history.state, "", hash);
    place.focus({ preventScroll: true });
    place.scrollIntoView({ block: "center" });
  }

  root.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-finding]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    showFinding(link);
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

  // One mark after the other, so that the last one holds, however quickly somebody changes their mind.
  let marking = Promise.resolve();
  function inTurn(send) {
    marking = marking.then(send).catch(() => null);
    return marking;
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
    const answer = await inTurn(() => fetch(form.action, { method: "POST", body: new URLSearchParams(body) }));
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

  // ----------------------------------------------------------------------------- where one is

  const edge = () => top.getBoundingClientRect().bottom + (document.querySelector(".change-bar")?.offsetHeight || 0);

  // The file that is worked on: where the focus is, or else the one at the upper edge of the window.
  function current() {
    const focused = document.activeElement?.closest?.(".file");
    if (focused && root.contains(focused) && focused.querySelector(".file-head")) return focused;
    const line = Math.max(edge(), 0) + 8;
    return files().find((file) => file.getBoundingClientRect().bottom > line);
  }

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

  const filter = document.getElementById("files-filter");
  filter?.removeAttribute("hidden");
  filter?.addEventListener("input", () => {
    const words = filter.value.trim().toLowerCase();
    for (const [id, leaf] of leaves) leaf.parentElement.hidden = !document.getElementById(id).dataset.path.toLowerCase().includes(words);
    for (const folder of all("#file-tree li:has(> details)")) folder.hidden = !folder.querySelector("li:not([hidden]) > a");
  });

  // --------------------------------------------------------------------------------------- begin

  window.tandemReview = { root, all, files, edge, current, prepare, toggle, notice };
  prepare(document);
  document.addEventListener("htmx:after:swap", () => prepare(document));
  for (const file of files()) {
    if (file.dataset.state === "viewed") fold(file, false);
    watch(file);
  }
  highlight();
  requestAnimationFrame(followScroll);
  window.addEventListener("hashchange", showLine);
  showLine();
  // A page that is loaded again, or gone back to, is where it was left.
  if (performance.getEntriesByType("navigation")[0].type !== "navigate") isLed = false;
  new ResizeObserver(keepLine).observe(root);
})();
