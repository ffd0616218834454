// The keyboard. Whatever has `data-key` is pressed by it ("g i": one after the other); a field is focused instead.
// j and k go through what has `data-item`, Enter opens it. Nothing here runs while somebody types, but for Escape
// and Ctrl+Enter.
(() => {
  "use strict";
  const SEQUENCE_MS = 1200;
  const DOUBT_MS = 500; // where a key does something itself, and begins a sequence, too
  const BUILT_IN = [
    ["j", "Next"],
    ["k", "Previous"],
    ["Enter", "Open"],
    ["Esc", "Leave a field, close what is open"],
    ["Ctrl Enter", "Send the form that is typed in"],
  ];
  const dialog = document.getElementById("keys");
  let begun = "";
  let timer = 0;

  const isField = (element) =>
    element instanceof HTMLElement && (element.isContentEditable || element.matches("input:not([type=checkbox]):not([type=radio]), textarea, select"));
  const isVisible = (element) => element.getClientRects().length > 0 || element.closest("[data-key-hidden]") !== null;

  function all() {
    return [...document.querySelectorAll("[data-key]")].filter((element) => !element.disabled);
  }

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
    const found = new Map(BUILT_IN);
    for (const element of all()) if (element.dataset.keyHelp) found.set(element.dataset.key, element.dataset.keyHelp);
    const target = document.getElementById("keys-list");
    target.replaceChildren();
    for (const [key, help] of found) {
      const name = document.createElement("dt");
      for (const part of key.split(" ")) {
        const cap = document.createElement("kbd");
        cap.textContent = part;
        name.append(cap, " ");
      }
      const meaning = document.createElement("dd");
      meaning.textContent = help;
      target.append(name, meaning);
    }
    dialog.showModal();
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
    const hit = all().find((element) => element.dataset.key === pressed);
    clearTimeout(timer);
    begun = "";
    if (all().some((element) => element.dataset.key.startsWith(pressed + " "))) {
      begun = pressed;
      timer = setTimeout(() => {
        begun = "";
        if (hit) press(hit);
      }, hit ? DOUBT_MS : SEQUENCE_MS);
    } else if (hit) {
      event.preventDefault();
      press(hit);
    }
  });

  window.tandemKeys = { isWithin: () => begun !== "" };

  const open = document.getElementById("keys-open");
  open.hidden = false;
  open.addEventListener("click", list);
})();
