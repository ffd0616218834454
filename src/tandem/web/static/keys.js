// The keyboard. The help in the page, made from the table of all keys, says what each of them presses ("g i": one
// after the other); a field is focused instead. j and k go through what has `data-item`, Enter opens it. Nothing here
// runs while somebody types, but for Escape and Ctrl+Enter.
(() => {
  "use strict";
  const SEQUENCE_MS = 1200;
  const DOUBT_MS = 500; // where a key does something itself, and begins a sequence, too
  const ACTS = {
    g: () => window.scrollTo({ top: 0 }),
    G: () => window.scrollTo({ top: document.documentElement.scrollHeight }),
  };
  const dialog = document.getElementById("keys");
  let begun = "";
  let timer = 0;

  const isField = (element) =>
    element instanceof HTMLElement && (element.isContentEditable || element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select"));
  const isVisible = (element) => element.getClientRects().length > 0 || element.closest("[data-key-hidden]") !== null;

  // What a key presses here, or what it needs; nothing where it does not work.
  function reach(named) {
    return [...document.querySelectorAll(named.dataset.press)].find((element) => !element.disabled && !dialog.contains(element));
  }

  const known = () => [...dialog.querySelectorAll("[data-named]")].filter(reach);

  function press(element) {
    if (isField(element)) {
      element.closest("details")?.setAttribute("open", "");
      element.focus();
    } else {
      element.click();
    }
  }

  function step(by) {
    const items = [...document.querySelectorAll("[data-item]")].filter(isVisible);
    if (!items.length) return;
    const current = items.indexOf(document.activeElement?.closest?.("[data-item]"));
    const next = current < 0 ? (by > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, current + by));
    items[next].focus();
    items[next].scrollIntoView({ block: "nearest" });
  }

  function list() {
    const here = known();
    for (const part of dialog.querySelectorAll("section, .keys-list div")) part.hidden = !here.some((named) => part.contains(named));
    dialog.showModal();
    dialog.scrollTop = 0;
  }

  document.addEventListener("keydown", (event) => {
    const typing = isField(event.target);
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && typing) {
      event.preventDefault();
      const { form } = event.target;
      form?.requestSubmit([...form.elements].find((one) => one.matches("[data-default]")));
      return;
    }
    if (event.key === "Escape" && typing) {
      event.target.blur();
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "j" || event.key === "k") {
      if (!begun) return step(event.key === "j" ? 1 : -1);
    }
    if (event.key === "Enter" && event.target.matches?.("[data-item]")) {
      event.target.querySelector("a")?.click();
      return;
    }
    const pressed = begun ? `${begun} ${event.key}` : event.key;
    const here = known();
    const element = here.filter((named) => named.dataset.named === pressed).map(reach)[0];
    const hit = ACTS[pressed] || (element?.matches("a, button, summary, input, select, textarea") && (() => press(element)));
    clearTimeout(timer);
    begun = "";
    if (here.some((named) => named.dataset.named.startsWith(`${pressed} `))) {
      begun = pressed;
      timer = setTimeout(() => {
        begun = "";
        if (hit) hit();
      }, hit ? DOUBT_MS : SEQUENCE_MS);
    } else if (hit) {
      event.preventDefault();
      hit();
    }
  });

  window.tandemKeys = { isWithin: () => begun !== "" };

  const open = document.getElementById("keys-open");
  open.hidden = false;
  open.addEventListener("click", list);
})();
