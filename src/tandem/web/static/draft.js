// The counter-patch's editor: line numbers beside its fields, and the result shown as one types.
(() => {
  "use strict";
  const SETTLE_MS = 900;
  let due = 0;

  function number(field) {
    const editor = field.closest(".editor");
    if (!editor || field.wrap !== "off") return;
    let gutter = editor.querySelector(".gutter");
    if (!gutter) {
      gutter = document.createElement("pre");
      gutter.className = "gutter";
      gutter.setAttribute("aria-hidden", "true");
      editor.prepend(gutter);
      field.addEventListener("scroll", () => (gutter.scrollTop = field.scrollTop), { passive: true });
    }
    const lines = field.value.split("\n").length;
    if (Number(gutter.dataset.lines) !== lines) {
      gutter.dataset.lines = lines;
      gutter.textContent = Array.from({ length: lines }, (_, index) => index + 1).join("\n");
    }
    gutter.style.height = `${field.offsetHeight}px`;
    gutter.scrollTop = field.scrollTop;
  }

  const all = () => document.querySelectorAll(".editor textarea").forEach(number);

  async function look(form) {
    if (!form.isConnected) return;
    const values = Object.fromEntries(new FormData(form));
    values.do = "check";
    try {
      await htmx.ajax("POST", form.getAttribute("action"), { source: "#draft-result", target: "#draft-result", select: "#draft-result", swap: "outerMorph", values });
    } catch {
      // The broker is away; the next letter tries again.
    }
  }

  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!field.closest?.(".editor, .delete")) return;
    if (field.matches("textarea")) number(field);
    clearTimeout(due);
    due = setTimeout(look, SETTLE_MS, field.form);
  });
  document.addEventListener("submit", () => clearTimeout(due), true);
  document.addEventListener("htmx:after:swap", () => {
    all();
    // Loading the page again opens the same files, and so finds what was typed in them.
    const paths = [...document.querySelectorAll("input[name^='path:']")].map((input) => ["path", input.value]);
    const round = document.getElementById("draft").dataset.round;
    if (paths.length) history.replaceState(null, "", `${location.pathname}?${new URLSearchParams([["round", round], ...paths])}`);
  });
  window.addEventListener("load", all);
})();
