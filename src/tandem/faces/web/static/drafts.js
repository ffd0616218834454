// Nothing typed is lost: a form with `data-draft` is kept in this window until it was sent, and a form that is being
// typed in is not touched when the page is brought up to date (`data-keep`).
(() => {
  "use strict";
  const keyOf = (form) => `tandem-draft ${location.pathname} ${form.id}`;
  const fieldsOf = (form) => [...form.elements].filter((field) => field.matches("textarea, input[type=text], input:not([type])"));

  function save(form) {
    const kept = {};
    for (const field of fieldsOf(form)) if (field.name && field.value !== field.defaultValue) kept[field.name] = field.value;
    if (Object.keys(kept).length) sessionStorage.setItem(keyOf(form), JSON.stringify(kept));
    else sessionStorage.removeItem(keyOf(form));
    form.toggleAttribute("data-keep", Object.keys(kept).length > 0);
  }

  function restore(form) {
    const kept = JSON.parse(sessionStorage.getItem(keyOf(form)) || "{}");
    for (const field of fieldsOf(form)) {
      if (field.name in kept && field.value === field.defaultValue) {
        field.value = kept[field.name];
        form.setAttribute("data-keep", "");
        form.closest("details")?.setAttribute("open", "");
      }
    }
  }

  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (form?.matches("[data-draft]")) save(form);
  });
  // A form that was refused comes back with what was typed in it.
  document.addEventListener("submit", (event) => {
    event.target.removeAttribute("data-keep");
    sessionStorage.removeItem(keyOf(event.target));
  });
  document.querySelectorAll("form[data-draft]").forEach(restore);
})();
