// Drafts at the broker, so that they are in every window of the person and outlive each: saved as one types and when the
// page is left, fetched when it is loaded or looked at again. Comments on lines are in comments.js, forms in drafts.js.
(() => {
  "use strict";
  const SETTLE_MS = 600;
  const RETRY_MS = 3000;
  const MOST_AT_ONCE = 20_000; // letters that a page that is left can send; the browser takes 64 KiB as they are encoded
  const windows = new BroadcastChannel("tandem-drafts");
  const box = () => document.getElementById("drafts-form");
  const acts = () => document.getElementById("acts");
  const fieldOf = (id) => (/^(message|in-place|answer)-/.test(id) ? "body" : "reason");
  const due = new Map(); // by id: what is to be saved; null for what is to be discarded
  const own = new Map(); // what this window has saved last, as texts
  // By id: the broker's draft that this window's words were made of. Others that were saved since are not overwritten.
  const BASES = `tandem-bases ${location.pathname}`;
  const bases = new Map(JSON.parse(sessionStorage.getItem(BASES) || "[]"));
  let known = new Map(); // what the broker has
  let going = new Map(); // what is on its way
  let timer = 0;
  let work = Promise.resolve(); // one after the other, so that no older text comes last

  const unsaved = new Map(); // by id: why the broker does not have what was typed last

  const isDue = (id) => due.has(id) || going.has(id);

  function put(draft) {
    due.set(draft.draft_id, draft);
    flushIn(SETTLE_MS);
  }

  function drop(id) {
    unsaved.delete(id);
    if (!known.has(id) && !isDue(id)) return;
    due.set(id, null);
    flushIn(0);
  }

  const TEXTS = ["body", "failure", "suggestion", "category"];
  const textsOf = (draft) => JSON.stringify(TEXTS.map((name) => draft[name] ?? ""));

  function base(id, draft) {
    if (draft) bases.set(id, { kind: draft.kind, at: draft.updated_at, texts: textsOf(draft) });
    else bases.delete(id);
    try {
      sessionStorage.setItem(BASES, JSON.stringify([...bases]));
    } catch {
      // Too much for the window's store: loaded again, it joins more than it had to.
    }
  }

  // Whether what the broker has, perhaps nothing, may stand in the place of this window's words: they are as they came,
  // or all of them are in what is newer.
  function isFollowing(id, said, fresh) {
    const { at, texts } = bases.get(id) || {};
    const isOlder = fresh !== undefined && (fresh.updated_at !== at || textsOf(said) === textsOf({}));
    return texts === textsOf(said) || (isOlder && TEXTS.every((name) => (fresh[name] ?? "").startsWith(said[name] ?? "")));
  }

  // The words of another window, behind those that stand in this one now, which may be more than were sent.
  function join(said, sent, fresh) {
    const more = TEXTS.map((name) => [name, (fresh[name] ?? "").slice((sent[name] ?? "").length)]);
    return Object.fromEntries(more.filter(([, text]) => text).map(([name, text]) => [name, (said[name] ?? "") + text]));
  }

  // A form takes a draft along, as it is sent, and as this window saved it: what another has written since then stays.
  // Sent as the broker has it, it names that version, by which the same words of another window are known.
  function take(body, id, said) {
    if (!known.has(id) && !isDue(id)) return;
    const { at, texts } = bases.get(id) || {};
    for (const one of new Set([textsOf(said), own.get(id) ?? textsOf(said)])) {
      body.append("draft_id", id);
      body.append("draft_texts", one);
      body.append("draft_at", !isDue(id) && texts === textsOf(said) ? at : "");
    }
    // Saved only if it comes back: on its way it would overwrite the words of another window.
    if (document.getElementById(id)?.matches("form")) due.delete(id);
  }

  // A verdict says which drafts this window shows, as they were saved, or as they are on their way.
  const CONTENT = ["body", "severity", "category", "failure", "suggestion", "line", "end_line"];
  const contentOf = (draft) => JSON.stringify(CONTENT.map((name) => String(draft[name] || "")));

  function tellShown(body) {
    const shown = {};
    for (const [id, { at }] of bases) (shown[id] ||= []).push(at);
    for (const [id, draft] of [...going, ...due]) if (draft) (shown[id] ||= []).push(contentOf(draft));
    body.set("shown", JSON.stringify(shown));
  }

  // What was sent: the broker has discarded it by itself. What was being saved meanwhile may have come after that.
  function forget(id) {
    due.delete(id);
    unsaved.delete(id);
    base(id);
    if (going.has(id)) drop(id);
    else if (known.delete(id)) windows.postMessage(location.pathname);
  }

  function flushIn(milliseconds) {
    clearTimeout(timer);
    timer = setTimeout(() => (work = work.then(flush)), milliseconds);
  }

  function send(id, draft, keepalive = false) {
    const body = new URLSearchParams(new FormData(box()));
    const expected = bases.get(id)?.at || "";
    for (const [name, value] of Object.entries({ draft_id: id, expected, ...(draft || { do: "discard" }) })) if (value !== null && value !== undefined) body.set(name, value);
    return fetch(box().action, { method: "POST", body, keepalive });
  }

  async function flush() {
    if (!box() || !due.size) return;
    going = new Map(due);
    due.clear();
    for (const [id, draft] of going) {
      try {
        const answer = await send(id, draft);
        if (!answer.ok && (answer.status >= 500 || answer.status === 429)) throw new Error(answer.statusText);
        if (draft && answer.ok) saved(id, draft, (await answer.json()).draft);
        else if (draft) unsaved.set(id, answer.status === 403 ? "load the page again, which keeps it" : "the broker does not take it");
        else known.delete(id);
        // What another window wrote since then stays, and is shown.
        if (!draft) work = work.then(read);
      } catch {
        // The broker is away: what is written stays in this window, and is sent again.
        if (!due.has(id)) due.set(id, draft);
        if (draft) unsaved.set(id, "the broker is away");
        flushIn(RETRY_MS);
      }
      going.delete(id);
    }
    windows.postMessage(location.pathname);
    document.dispatchEvent(new CustomEvent("tandem-saved"));
  }

  function saved(id, draft, fresh) {
    unsaved.delete(id);
    known.set(id, fresh);
    const isAlone = textsOf(fresh) === textsOf(draft);
    // Words of another window were not seen by a person who sends or removes their own now: they stay.
    if (!isAlone && due.get(id) === null) return void due.delete(id);
    if (!isAlone && document.getElementById(id)?.matches(".htmx-request")) return;
    own.set(id, textsOf(fresh));
    base(id, fresh);
    if (isAlone) return;
    showJoined(id, draft, fresh);
    // Shown as the broker has it, it is not saved once more: that would add it to what another window writes meanwhile.
    const again = due.get(id);
    if (again && contentOf(again) === contentOf(fresh) && Boolean(again.pre_existing) === fresh.pre_existing) due.delete(id);
  }

  function showJoined(id, draft, fresh) {
    if (fresh.kind === "finding") return void document.dispatchEvent(new CustomEvent("tandem-joined", { detail: { id, draft, fresh } }));
    const { adopt, forget: drop, keep } = window.tandemDrafts;
    const name = fieldOf(id);
    const field = document.getElementById(id)?.elements[name];
    if (!field) return void (drop(id), adopt(id, name, fresh.body));
    write(field, join({ body: field.value }, draft, fresh).body);
    keep(field.form);
  }

  // The cursor stays where it is.
  function write(field, text) {
    const { selectionStart: start, selectionEnd: end } = field;
    field.value = text;
    if (field === document.activeElement && field.matches("textarea")) field.setSelectionRange(start, end);
  }

  async function read() {
    if (!box()) return;
    let drafts;
    try {
      const answer = await fetch(box().action);
      if (!answer.ok) return;
      ({ drafts } = await answer.json());
    } catch {
      return; // The broker is away; the next look tells.
    }
    known = new Map(drafts.map((one) => [one.draft_id, one]));
    showForms();
    document.dispatchEvent(new CustomEvent("tandem-drafts", { detail: drafts }));
  }

  // ------------------------------------------------------------------------------------------ forms

  function showForms() {
    const { adopt, forget: drop, kept, restoreAll } = window.tandemDrafts;
    for (const id of new Set([...bases.keys(), ...known.keys()])) {
      const fresh = known.get(id);
      const { kind, round } = fresh || bases.get(id);
      if (kind === "finding" || isDue(id)) continue;
      const name = fieldOf(id);
      const field = document.getElementById(id)?.elements[name];
      const body = field?.value ?? kept(id)[name] ?? "";
      if (isFollowing(id, { body }, fresh)) {
        // Sent, removed or changed in another window, and not touched in this one.
        if (fresh?.body !== body) {
          drop(id);
          field?.form.reset();
          field?.form.removeAttribute("data-keep");
        }
        if (fresh) adopt(id, name, fresh.body);
        base(id, fresh);
      } else if (fresh && body.trim()) put({ draft_id: id, kind, round, body });
    }
    restoreAll();
    mark();
  }

  function mark() {
    for (const { draft_id: id, round } of known.values()) {
      const label = document.getElementById(id)?.querySelector("label");
      if (label && !unsaved.has(id)) label.dataset.told = String(round) === acts()?.dataset.round ? "draft" : `your draft from round ${round}`;
    }
  }

  function tellUnsaved() {
    for (const [id, why] of unsaved) {
      const label = document.getElementById(id)?.querySelector("label");
      if (label) label.dataset.told = `not saved yet: ${why}`;
    }
  }

  // A window that is closed loses what the broker does not have, unless it can still be sent as the page is left.
  window.addEventListener("beforeunload", (event) => {
    const pending = [...due.values(), ...going.values()].filter((draft) => draft);
    const isSent = document.getElementById("live").dataset.state !== "offline" && JSON.stringify(pending).length < MOST_AT_ONCE;
    if (!box() || "leaves" in document.body.dataset || !(unsaved.size || (pending.length && !isSent))) return;
    event.preventDefault();
    flushIn(0);
  });

  document.addEventListener("tandem-typed", ({ detail: form }) => {
    const kind = form.dataset.draft;
    if (!kind || !box()) return;
    const body = form.elements[fieldOf(form.id)]?.value || "";
    const round = (known.get(form.id) || due.get(form.id))?.round || acts().dataset.round;
    if (body.trim()) put({ draft_id: form.id, kind, round, body });
    else drop(form.id);
  });

  // Drafts of forms that the page does not have now; a verdict's is shown in #acts-kept.
  const strays = () => [...known.values()].filter(({ draft_id: id, kind }) => kind === "message" && due.get(id) !== null && going.get(id) !== null && !document.getElementById(id));

  const readSoon = () => (work = work.then(flush).then(read));

  windows.addEventListener("message", (event) => {
    if (event.data === location.pathname && !document.hidden) work = work.then(read);
  });
  document.addEventListener("tandem-saved", () => [mark(), tellUnsaved()]);
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : readSoon()));
  window.addEventListener("pagehide", leave);
  window.addEventListener("load", readSoon);

  // A page that is left cannot wait for answers; what is too long for that is still in this window's store.
  function leave() {
    if (box()) for (const [id, draft] of new Map([...going, ...due])) send(id, draft, true).catch(() => {});
    clearTimeout(timer);
  }

  window.tandemSaved = { whyUnsaved: (id) => unsaved.get(id), take, tellShown, readSoon, put, drop, forget, isDue, strays, base, isFollowing, join, write, has: (id) => known.has(id) || isDue(id) };
})();
