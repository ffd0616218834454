// Nothing typed is lost: a form with `data-draft` is kept in this window until it was sent, and a form that is being
// typed in is not touched when the page is brought up to date (`data-keep`).
(() => {
  "use strict";
  const keyOf = (id) => `tandem-draft ${location.pathname} ${id}`;
  const fieldsOf = (form) => [...form.elements].filter((field) => field.name && field.matches("textarea, input[type=text], input:not([type])"));
  const kept = (id) => JSON.parse(sessionStorage.getItem(keyOf(id)) || "{}");

  // What was sent and is wanted back counts as typed, though the page may have it: `wasSent`.
  function keep(form, wasSent = form.matches("[data-came-back]")) {
    const typed = {};
    for (const field of fieldsOf(form)) if (field.value !== field.defaultValue || (wasSent && field.value)) typed[field.name] = field.value;
    const some = Object.keys(typed).length > 0;
    // The files that are open, for the way back to them.
    for (const { name, value } of some ? form.querySelectorAll("input[name^='path:']") : []) typed[name] = value;
    try {
      if (some) sessionStorage.setItem(keyOf(form.id), JSON.stringify(typed));
      else sessionStorage.removeItem(keyOf(form.id));
    } catch {
      // Too much for the window's store; it still stands in the form.
    }
    form.toggleAttribute("data-keep", some);
    document.dispatchEvent(new CustomEvent("tandem-typed", { detail: form }));
  }

  // What the broker has kept of a form, unless this window has something of its own.
  function adopt(id, name, text) {
    if (!(name in kept(id))) sessionStorage.setItem(keyOf(id), JSON.stringify({ [name]: text }));
  }

  const forget = (id) => sessionStorage.removeItem(keyOf(id));

  function restore(form) {
    const typed = kept(form.id);
    for (const field of fieldsOf(form)) {
      if (!(field.name in typed) || field.value !== field.defaultValue) continue;
      field.value = typed[field.name];
      form.setAttribute("data-keep", "");
      form.closest("details")?.setAttribute("open", "");
    }
  }

  const restoreAll = () => {
    document.querySelectorAll("form[data-draft]").forEach(restore);
    showPatches();
  };

  // What was being written as a counter-patch, also to an earlier round, is led to.
  function showPatches() {
    const box = document.getElementById("counter-drafts");
    if (!box) return;
    const start = `tandem-draft ${box.dataset.base}/edit draft-form-`;
    const rounds = Object.keys(sessionStorage).filter((key) => key.startsWith(start)).map((key) => key.slice(start.length));
    const links = rounds.filter((round) => !document.getElementById(`draft-form-${round}`)).map((round) => {
      const paths = Object.entries(JSON.parse(sessionStorage.getItem(start + round))).filter(([name]) => name.startsWith("path:"));
      const query = new URLSearchParams([["round", round], ...paths.map(([, path]) => ["path", path])]);
      return Object.assign(document.createElement("a"), { href: `${box.dataset.base}/edit?${query}`, textContent: `You were writing a counter-patch to round ${round}` });
    });
    box.replaceChildren(...links);
    box.hidden = !links.length;
  }

  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (form?.matches("[data-draft]")) keep(form);
  });
  // A form that was refused comes back with what was typed in it.
  document.addEventListener("submit", (event) => {
    event.target.removeAttribute("data-keep");
    forget(event.target.id);
  });
  window.tandemDrafts = { keep, kept, adopt, forget, restoreAll };
  restoreAll();
})();
