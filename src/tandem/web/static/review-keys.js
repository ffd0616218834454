// The keyboard on a review's page: from file to file, from change to change, from line to line.
(() => {
  "use strict";
  if (!window.tandemReview) return;
  const { root, all, files, edge, current, toggle } = window.tandemReview;

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

  // From where one is; what was shown last is in the address.
  function goToFinding(by) {
    const list = all("#findings a[data-finding]", root);
    const here = (document.activeElement?.closest?.(".finding")?.id || location.hash.slice(1)) ?? "";
    const at = list.findIndex((link) => link.hash === `#${here}`);
    list[at < 0 ? (by > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + by))]?.click();
  }

  document.getElementById("review-keys")?.addEventListener("click", (event) => {
    const { go, by } = event.target.dataset;
    const file = current();
    if (go === "file") goToFile(Number(by));
    if (go === "change") goToChange(Number(by));
    if (go === "finding") goToFinding(Number(by));
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

  window.tandemReview.focusRow = focusRow;
})();
