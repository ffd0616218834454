// Findings on lines: written below the line, kept in this window and by the broker until they are sent with the verdict
// (or at once), and the threads of those that were sent, brought up to date as they change.
(() => {
  "use strict";
  if (window.tandemComments) return;
  const KEY = `tandem-comments ${location.pathname}`;
  const acts = () => document.getElementById("acts");
  const read = () => JSON.parse(sessionStorage.getItem(KEY) || "[]");
  const isWriting = (element) => element?.matches?.("input, textarea, select, [contenteditable]");
  let items = read();
  const typing = new Set(); // the ids of items whose last line is being typed, and is not that of the item yet

  function save() {
    if (items.length) sessionStorage.setItem(KEY, JSON.stringify(items));
    else sessionStorage.removeItem(KEY);
  }

  // An item is `open` in its editor, and `added` to the next verdict, also if that is on a later round. Its lines are
  // those of its own round; a line before the change since a round is one of that round.
  const shownRound = () => acts().dataset.round;
  const isAdded = (item) => item.added && !item.open && item.body.trim() !== "";
  const isWritten = ({ body, category, failure, suggestion }) => [body, category, failure].some((text) => text?.trim()) || (suggestion ?? null) !== null;
  const written = () => items.filter(isWritten);
  const ready = () => written().filter(isAdded);
  const marks = (item) => [item.severity || "minor", item.category, (item.suggestion ?? null) !== null && "with a suggestion", item.pre_existing && "was there before"].filter(Boolean).join(" · ");
  const isOfBase = (item) => item.round === acts().dataset.since && item.side === "after";
  const isElsewhere = (item) => item.round !== shownRound() && !isOfBase(item);

  // Where the page has its lines: of another round, where the broker says that they are in this one.
  function spot(item) {
    const { since } = acts().dataset;
    if (isOfBase(item) && rowAt({ ...item, side: "before" }, item.number)) return { ...item, side: "before" };
    if (item.round === shownRound()) return item.side === "before" && since ? null : item;
    const { place, side } = item;
    if (item.placedIn !== shownRound() || !place || Boolean(place.line) !== Boolean(item.number) || (side === "before" && since)) return null;
    return { file: place.file, side, number: place.line, end: place.end_line };
  }

  const where = (item) => {
    const { file, number, end } = spot(item) || item;
    if (!file) return "the whole change";
    return `${file}${number ? `:${number}` : ""}${end ? `–${end}` : ""}${item.removed ? " (a removed line)" : ""}`;
  };
  const told = (item) => (isElsewhere(item) ? `Your draft from round ${item.round}` : "Draft") + (item.added ? ", not sent yet" : "");
  const named = (item) => (isElsewhere(item) ? `${where(item)} (your draft from round ${item.round})` : where(item));

  // What a finding may say besides; no suggestion is not the same as an empty one, which deletes the lines.
  const details = ({ category, failure, suggestion, pre_existing }) => ({ category: category || null, failure: failure || null, suggestion: suggestion ?? null, pre_existing: pre_existing || null });

  // By the broker, too: each as one types.
  function keep(item) {
    const { id, round, file, side, body, number, end, severity } = item;
    if (isWritten(item)) window.tandemSaved?.put({ draft_id: id, kind: "finding", round, file, side, severity, line: number, end_line: end, body, ...details(item) });
    else window.tandemSaved?.drop(id);
    save();
  }

  // As it is sent, with the verdict on the round that is shown.
  function sent(item) {
    const { file, side, number, end, body: claim } = item;
    const shared = { severity: item.severity || "minor", claim, ...details(item) };
    if (item.round === shownRound()) return { ...shared, file, line: number, end_line: end, side: side === "before" ? "old" : "new" };
    place(item);
    if (isOfBase(item) && item.line) {
      const quote = item.text ? `, \`${item.text}\`` : "";
      return { ...shared, file, line: item.line, claim: item.removed ? `On the removed line ${number}${quote}:\n\n${claim}` : claim };
    }
    const isPlaced = item.placedIn === shownRound() && item.place;
    const { file: there, line, end_line } = isPlaced ? item.place : { file };
    const found = { ...shared, file: there, line, end_line, side: side === "before" && line ? "old" : "new" };
    const quote = isPlaced ? item.quote : `On ${file}${number ? `:${number}` : ""}${end ? `-${end}` : ""} of round ${item.round}:`;
    if (!quote) return found;
    // It would replace other lines than it was written for.
    const instead = shared.suggestion === null ? [] : ["Suggested instead:", (shared.suggestion || "(nothing)").replace(/^/gm, "    ")];
    return { ...found, claim: [quote, claim, ...instead].join("\n\n"), suggestion: null };
  }

  window.tandemComments = {
    count: () => ready().length,
    send(body) {
      if (body.get("form_name") !== "verdict") return;
      const going = ready();
      body.set("findings", JSON.stringify(going.map(sent)));
      for (const item of going) window.tandemSaved?.take(body, item.id, item);
    },
    // What a verdict would leave behind, in words.
    unsent: () => written().filter((item) => !isAdded(item)).map(named),
    // Whether all can go with the verdict.
    addAll() {
      const vague = written().find((item) => !item.body.trim());
      if (vague) return askFor(vague);
      for (const item of written()) Object.assign(item, { open: false, added: true });
      save();
      show();
      return true;
    },
    clear() {
      ready().forEach((item) => window.tandemSaved?.forget(item.id));
      items = written().filter((item) => !isAdded(item));
      save();
      show();
    },
  };

  // ------------------------------------------------------------------------------------------- places

  // A line before the change has the path before of a file that was renamed.
  const pathOf = ({ dataset }, side) => (side === "before" && dataset.oldPath) || dataset.path;

  function rowAt(at, number) {
    if (!at) return null;
    const side = at.side || "after";
    for (const table of document.querySelectorAll("#change table.diff[data-path]")) {
      if (pathOf(table, side) !== at.file) continue;
      const link = table.querySelector(`a[data-side="${side}"][data-line="${number}"]`);
      if (link) return link.closest("tr");
    }
    return null;
  }

  const lineAt = (at) => rowAt(at, at?.end || at?.number) || rowAt(at, at?.number);
  const lineOf = (item) => lineAt(spot(item));
  const fileAt = (path) => [...document.querySelectorAll("#change .file[data-path]")].find(({ dataset }) => path && [dataset.path, dataset.oldPath].includes(path));
  // A finding on no line is one on the file.
  const headOf = (item) => (!item.number && fileAt(spot(item)?.file)?.querySelector(".file-head")) || null;
  const elementOf = (item) => lineOf(item) || headOf(item);
  const focusOn = (element) => element?.querySelector("a[data-line], [data-comment-file]")?.focus();

  // The rows of its lines, as far as they follow each other on the page.
  function rowsOf(item) {
    const rows = [];
    const at = spot(item);
    for (let row, number = at?.number; number <= (at?.end || at?.number) && (row = rowAt(at, number)); number++) rows.push(row);
    return rows;
  }

  // Its lines as they are; empty where the page does not have all of them so, or they are others now.
  function linesOf(item) {
    if (isElsewhere(item) && item.quote) return "";
    const cells = rowsOf(item).map((row) => [...row.querySelectorAll(":scope > .code")].pop());
    const isWhole = cells.length > (item.end || item.number) - item.number && !cells.some((cell) => cell.querySelector(".hidden-char, .cut, .rest"));
    return isWhole ? cells.map((cell) => cell.textContent).join("\n") : "";
  }

  // Where the file as it would be has it: beside a removed line, which is quoted, a line that stays.
  function place(item) {
    const at = spot(item);
    const row = rowAt(at, at?.number);
    if (!row) return void (item.line = null);
    item.removed = at.side === "before" && Boolean(row.closest("table").querySelector('a[data-side="after"]'));
    item.line = item.removed ? near(row) : at.number;
    item.text = item.removed ? row.querySelector(".code").textContent : "";
  }

  // A row of its own below a line, after what stands there already.
  function rowBelow(line, name) {
    let last = line;
    while (last.nextElementSibling?.classList.contains("threads")) {
      last = last.nextElementSibling;
      if (last.dataset.row === name) return last.cells[0];
    }
    const focused = document.activeElement;
    const row = document.querySelector(`tr.threads[data-row="${name}"]`) || document.createElement("tr");
    row.className = "threads";
    row.dataset.row = name;
    const cell = row.cells[0] || row.insertCell();
    cell.colSpan = [...line.cells].reduce((sum, one) => sum + one.colSpan, 0);
    last.after(row);
    if (row.contains(focused)) focused.focus();
    return cell;
  }

  const cellBelow = (place, name) => (place.matches("tr") ? rowBelow(place, name) : partBelow(place, name));

  function partBelow(head, name) {
    const known = head.parentElement.querySelector(`:scope > [data-row="${name}"]`);
    if (known) return known;
    const part = Object.assign(document.createElement("div"), { className: "unplaced" });
    part.dataset.row = name;
    head.after(part);
    return part;
  }

  function copy(id) {
    return document.getElementById(id).content.firstElementChild.cloneNode(true);
  }

  // ------------------------------------------------------------------------------------------ showing

  function show() {
    // Lines are reached with j and k; as many stops for Tab would be no help.
    for (const link of document.querySelectorAll("table.diff td.n a:not([tabindex])")) link.tabIndex = -1;
    if (!acts()) return;
    for (const button of document.querySelectorAll("#change [data-comment-file][hidden]")) button.hidden = false;
    const wanted = new Set(items.map((item) => item.id));
    for (const row of document.querySelectorAll("#change [data-row^='own-']")) if (!wanted.has(row.dataset.row)) row.remove();
    for (const item of items) {
      const element = elementOf(item);
      if (element) place(item);
      if (element) fill(cellBelow(element, item.id), item);
    }
    for (const row of document.querySelectorAll("tr.line.chosen")) row.classList.remove("chosen");
    for (const item of items) if (item.open && item.end) for (const row of rowsOf(item)) row.classList.add("chosen");
    list();
  }

  function fill(cell, item) {
    const shown = cell.firstElementChild;
    // An editor keeps what is typed in it; a card is drawn again when it says something else.
    const look = item.open ? "open" : `${told(item)} ${where(item)} ${marks(item)} ${[item.body, item.failure, item.suggestion, item.quote].join(" ")}`;
    if (shown && shown.dataset.look === look) return void shown.dispatchEvent(new Event("tandem-range"));
    const made = item.open ? editor(item) : card(item);
    made.dataset.look = look;
    cell.replaceChildren(made);
  }

  function card(item) {
    const made = copy("pending-template");
    made.querySelector(".pending-state").textContent = told(item);
    made.querySelector(".pending-where").textContent = `${where(item)} · ${marks(item)}`;
    const body = made.querySelector(".said");
    const { failure, suggestion } = details(item);
    body.textContent = item.body;
    if (isElsewhere(item) && item.quote) body.before(said("p", "said hint", item.quote));
    if (suggestion !== null) body.after(said("p", "hint", "Suggestion:"), said("pre", "patch", suggestion));
    if (failure) body.after(said("p", "said", `How it fails: ${failure}`));
    made.querySelector("[data-pending-edit]").addEventListener("click", () => edit(item));
    made.querySelector("[data-pending-drop]").addEventListener("click", () => drop(item));
    return made;
  }

  function editor(item) {
    // What was begun as a finding stays one: who claims the review meanwhile makes no message of it.
    item.isFinding ||= acts().dataset.commentHow !== "message";
    const form = copy(item.isFinding ? "comment-template" : "message-template");
    const { body: text, severity, suggestion, pre_existing, end_line: end } = form.elements;
    const quote = said("p", "said hint", "");
    form.prepend(quote);
    item.severity ||= "minor";
    for (const field of form.elements) if (field.matches("input, textarea, select")) field.value = item[field.name] ?? field.value;
    function range() {
      const isOld = isElsewhere(item);
      const { commentHow, commentWhy } = acts().dataset;
      const mayClaim = document.getElementById("claim-form") !== null;
      const isSent = `It is sent with your verdict${mayClaim && item.claims ? ", once you claim the review" : ""}.`;
      const hint = commentHow === "verdict" ? isSent + (mayClaim && !item.claims ? " Writing it claims the review." : "") : `It is kept as your draft. ${commentWhy}`;
      const why = window.tandemSaved?.whyUnsaved(item.id);
      if (severity) form.querySelector("[data-comment-hint]").textContent = why ? `It is not saved yet: ${why}. Keep this window open.` : hint;
      form.querySelector(".comment-where").textContent = `${severity ? "Finding" : "Message"} on ${where(item)}${isOld ? ` · ${told(item).toLowerCase()}` : ""}`;
      quote.textContent = (isOld && item.quote) || "";
      quote.hidden = !quote.textContent;
      if (!severity) return;
      if (!typing.has(item.id)) end.value = spot(item)?.end || "";
      suggestion.value = item.suggestion ?? linesOf(item);
    }
    if (severity) {
      pre_existing.checked = Boolean(item.pre_existing);
      if (!item.number || isOfBase(item) || item.side === "before") suggestion.closest("label").remove();
      if (!item.number || item.round !== shownRound()) end.closest("label").remove();
      form.querySelector("details").open = Object.values(details(item)).some((one) => one !== null);
      // The editor may go to another line: after the focus has gone on, and what took it there is let go.
      end.addEventListener("change", () => setTimeout(() => window.tandemReleased().then(reachTyped)));
    }
    // Before it is added or sent, too: the last line may have been typed just now.
    function reachTyped() {
      if (typing.has(item.id)) reach(item, Number(end.value) || 0);
    }
    typing.delete(item.id);
    range();
    form.addEventListener("tandem-range", range);
    form.addEventListener("input", ({ target }) => {
      if (target === end) return void typing.add(item.id);
      claim(item);
      item[target.name] = target === pre_existing ? target.checked : target.value;
      if (target === suggestion && target.value === linesOf(item)) item.suggestion = null;
      keep(item);
    });
    text.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !isWritten(item)) drop(item);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      event.stopPropagation();
      reachTyped();
      if (!item.body.trim()) return void askFor(item);
      // What was begun for a verdict does not become a message because the claim is over.
      const isVerdict = acts().dataset.commentHow === "verdict";
      if (!severity && acts().dataset.commentHow === "message") return sendNow(item, "message");
      Object.assign(item, { open: false, added: isVerdict });
      save();
      show();
      if (!isVerdict) tellKept();
      focusOn(elementOf(item));
    });
    const isHeld = () => document.getElementById("verdict-form") !== null;
    form.querySelector("[data-comment-now]")?.addEventListener("click", () => {
      reachTyped();
      if (!item.body.trim()) askFor(item);
      else if (isHeld()) sendNow(item, "comment");
      else tellKept();
    });
    form.querySelector("[data-comment-cancel]").addEventListener("click", () => drop(item));
    return form;
  }

  function tellKept(cause) {
    const why = cause || acts().dataset.commentWhy || "You do not hold the review: claim it to send this with your verdict.";
    tell(`Not sent, kept as your draft. ${why}`);
  }

  function tell(text) {
    const notice = document.getElementById("notice");
    notice.textContent = text;
    notice.hidden = false;
  }

  // A finding is its main text; the rest alone stays a draft.
  function askFor(item) {
    edit(item);
    tell("Not sent yet: say first what the fault is.");
    return false;
  }

  const said = (tag, className, textContent) => Object.assign(document.createElement(tag), { className, textContent });

  // What goes with the verdict, and the drafts that have no place elsewhere on the page.
  function list() {
    const box = document.getElementById("pending-list");
    if (!box) return;
    const going = ready();
    const strays = items.filter((item) => (item.open || isWritten(item)) && !elementOf(item));
    const others = window.tandemSaved?.strays() || [];
    box.hidden = !going.length && !strays.length && !others.length;
    const cells = new Map([...box.querySelectorAll("[data-row]")].map((cell) => [cell.dataset.row, cell]));
    const focused = document.activeElement;
    box.replaceChildren();
    // Only where there is a verdict to go with.
    const [some, go, are] = going.length === 1 ? ["1 finding", "goes", "is"] : [`${going.length} findings`, "go", "are"];
    const state = document.getElementById("verdict-form") ? `${go} with it:` : `${are} kept as your draft${going.length === 1 ? "" : "s"}, and not sent:`;
    if (going.length) box.append(said("p", "", `${some} ${state}`));
    const links = said("p", "facts", "");
    for (const item of going) {
      const element = lineOf(item) || headOf(item)?.parentElement;
      const link = said("a", "", named(item));
      if (element) link.href = "#" + (element.id || element.querySelector("[id]")?.id || "");
      links.append(link);
    }
    if (going.length) box.append(links);
    for (const item of strays) {
      const cell = cells.get(item.id) || document.createElement("div");
      cell.dataset.row = item.id;
      box.append(cell);
      fill(cell, item);
    }
    if (box.contains(focused)) focused.focus();
    for (const draft of others) box.append(stray(draft));
  }

  // A message whose field is not there any more.
  function stray(draft) {
    const made = copy("pending-template");
    made.querySelector(".pending-state").textContent = String(draft.round) === shownRound() ? "Draft" : `Your draft from round ${draft.round}`;
    made.querySelector(".pending-where").textContent = "A message";
    made.querySelector(".said").textContent = draft.body;
    made.querySelector("[data-pending-edit]").remove();
    made.querySelector("[data-pending-drop]").addEventListener("click", () => {
      window.tandemSaved.drop(draft.draft_id);
      show();
    });
    return made;
  }

  // ------------------------------------------------------------------------------------------ writing

  function edit(item) {
    item.open = true;
    save();
    show();
    document.querySelector(`[data-row="${item.id}"] textarea`)?.focus();
  }

  // Beginning to write about a free review claims it, once: who released it again meant that.
  function claim(item) {
    if (!item.claims) document.getElementById("claim-form")?.requestSubmit();
    item.claims = true;
  }

  function drop(item) {
    const element = elementOf(item);
    items = items.filter((one) => one !== item);
    window.tandemSaved?.drop(item.id);
    save();
    show();
    focusOn(element);
  }

  // Its lines are as many as go to this one.
  function reach(item, to) {
    typing.delete(item.id);
    if (item.round !== shownRound()) return;
    if (to && to < item.number) Object.assign(item, { number: to, end: item.end || item.number });
    else item.end = to > item.number ? to : null;
    keep(item);
    show();
  }

  function open(link, isMore) {
    const table = link.closest("#change table.diff[data-path]");
    const box = acts();
    if (!table || !box) return;
    if (box.dataset.commentHow === "none") return explain(link.closest("tr"), box.dataset.commentWhy);
    const { id } = link.closest("[id]");
    history.replaceState(history.state, "", `#${id}`); // a link to the line, for others
    const number = Number(link.dataset.line);
    const side = link.dataset.side || "after";
    const file = pathOf(table, side);
    const there = items.filter((item) => spot(item)?.file === file && spot(item).side === side);
    const begun = isMore && there.findLast((item) => item.open);
    if (begun) reach(begun, number);
    const known = begun || there.find((item) => [spot(item).number, spot(item).end].includes(number));
    if (known) return edit(known);
    begin({ file, number, ...(side === "before" && box.dataset.since ? { side: "after", round: box.dataset.since } : { side, round: shownRound() }) });
  }

  function openFile(head) {
    const file = head.parentElement.dataset.path;
    if (acts().dataset.commentHow === "none") return explain(head, acts().dataset.commentWhy);
    const known = items.find((item) => !item.number && spot(item)?.file === file);
    if (known) return edit(known);
    begin({ file, number: null, side: "after", round: shownRound() });
  }

  function begin(at) {
    const item = { id: `own-${Date.now()}-${Math.random().toString(36).slice(2, 8)}`, ...at, body: "", open: true };
    place(item);
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

  function explain(place, why) {
    const cell = cellBelow(place, "own-why");
    const told = document.createElement("p");
    told.className = "hint why-not";
    told.setAttribute("role", "status");
    told.textContent = why;
    cell.replaceChildren(told);
    setTimeout(() => (cell.closest("tr") || cell).remove(), 6000);
  }

  async function sendNow(item, how) {
    const values = { findings: JSON.stringify([sent(item)]) };
    if (how === "message") Object.assign(values, { body: sent(item).claim, file: item.file, line: sent(item).line || "", findings: "[]" });
    const source = document.getElementById(how === "message" ? "message-form" : "verdict-form");
    const body = new FormData(source);
    for (const name of ["reason", "body", "findings"]) body.delete(name);
    for (const [name, value] of Object.entries(values)) body.set(name, value);
    body.set("form_name", "comment");
    // Its own key: the form that it borrows from is sent on its own.
    body.set("idempotency_key", item.id + "-" + body.get("idempotency_key"));
    window.tandemSaved?.take(body, item.id, item);
    const target = how === "message" ? "#stream" : "#acts";
    let status = 0;
    const hear = (event) => (status = event.detail.ctx.response.status);
    document.addEventListener("htmx:after:request", hear);
    try {
      await htmx.ajax("POST", `${acts().dataset.base}/${how}?round=${acts().dataset.round}`, { source: acts(), target, select: target, swap: "outerMorph", values: Object.fromEntries(body) });
    } catch {
      // Without an answer there is no status.
    } finally {
      document.removeEventListener("htmx:after:request", hear);
    }
    if (!status || status >= 500) tellKept("The broker did not take it: try again in a moment.");
    if (status === 200) {
      items = items.filter((one) => one !== item);
      window.tandemSaved?.forget(item.id);
      save();
      show();
      document.dispatchEvent(new CustomEvent("tandem-refresh"));
    }
  }

  const isLine = (element) => element instanceof Element && element.closest("#change table.diff[data-path] td.n a[data-line]");

  document.addEventListener("click", (event) => {
    const head = event.target instanceof Element && event.target.closest("[data-comment-file]")?.closest(".file-head");
    if (head) return openFile(head);
    const link = isLine(event.target);
    if (!link || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    open(link, event.shiftKey);
  });

  // With Shift a finding goes on to the line, and what is selected stays.
  document.addEventListener("mousedown", (event) => {
    if (event.shiftKey && isLine(event.target)) event.preventDefault();
  });

  // Enter or c on a line that has the focus opens a finding on it; c does not claim there.
  document.addEventListener("keydown", (event) => {
    if ((event.key !== "c" && event.key !== "Enter") || event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target) || window.tandemKeys?.isWithin()) return;
    if (event.key === "Enter" && !event.target.matches("tr, td.n a[data-line]")) return;
    const row = document.activeElement?.closest?.("#change table.diff tr.line");
    const link = row && (isLine(document.activeElement) || [...row.querySelectorAll("td.n a[data-line]")].pop());
    if (!link) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    open(link, event.shiftKey);
  }, true);

  // ------------------------------------------------------------------------------------------ threads

  document.addEventListener("tandem-fetched", (event) => {
    for (const fresh of event.detail.querySelectorAll(".thread")) {
      const shown = document.getElementById(fresh.id);
      if (shown) {
        htmx.swap({ target: shown, text: fresh.outerHTML, swap: "outerMorph" });
        continue;
      }
      const { threadPath: file, threadSide: side, threadLine: number } = fresh.dataset;
      const line = side === "before" && acts().dataset.since ? null : lineAt({ file, side, number: Number(number) });
      const head = number === "" && fileAt(file)?.querySelector(".file-head");
      const place = line || (head && head.parentElement.querySelector("table.diff, .binary") && head);
      const cell = place ? cellBelow(place, `of-${fresh.id}`) : !fileAt(file) && document.getElementById("findings-above")?.appendChild(document.createElement("div"));
      if (!cell) continue;
      cell.replaceChildren(document.importNode(fresh, true));
      htmx.process(cell);
    }
  });
  // ----------------------------------------------------------------------------------- other windows

  // What another window wrote is here, too, and what it sent or removed is gone; what was typed here and is not saved stays.
  document.addEventListener("tandem-drafts", ({ detail: drafts }) => {
    const { base, isDue, isFollowing } = window.tandemSaved;
    const placedIn = "current" in acts().dataset ? shownRound() : "";
    const there = new Map(drafts.filter((one) => one.kind === "finding").map((one) => [one.draft_id, one]));
    items = items.filter((item) => there.has(item.id) || isDue(item.id) || !isFollowing(item.id, item));
    const given = (one) => ({ body: one.body, severity: one.severity || "minor", number: one.line, end: one.end_line, ...details(one) });
    for (const item of items) {
      const fresh = there.get(item.id);
      if (fresh) Object.assign(item, { place: fresh.place, quote: fresh.quote, placedIn });
      if (isDue(item.id)) continue;
      if (fresh && isFollowing(item.id, item, fresh)) {
        rewrite(item, given(fresh));
        base(item.id, fresh);
      } else keep(item);
    }
    for (const one of there.values()) {
      if (items.some((item) => item.id === one.draft_id) || isDue(one.draft_id)) continue;
      const { place, quote } = one;
      items.push({ id: one.draft_id, file: one.file, side: one.side || "after", round: String(one.round), ...given(one), place, quote, placedIn });
      base(one.draft_id, one);
    }
    save();
    show();
  });

  // Both are kept, one behind the other.
  document.addEventListener("tandem-joined", ({ detail: { id, draft, fresh } }) => {
    const item = items.find((one) => one.id === id);
    if (!item) return;
    rewrite(item, window.tandemSaved.join(item, draft, fresh));
    keep(item);
    show();
  });

  // Also in its editor; a field that says the same is left alone.
  function rewrite(item, said) {
    Object.assign(item, said);
    for (const field of document.querySelectorAll(`[data-row="${item.id}"] :is(textarea, select, input)`)) {
      const text = said[field.name] ?? "";
      if (field.type === "checkbox") field.checked = Boolean(item[field.name]);
      else if (field.name in said && field.value !== text) window.tandemSaved.write(field, text);
    }
  }

  document.addEventListener("tandem-saved", () => document.querySelectorAll("#main [data-comment-form]").forEach((form) => form.dispatchEvent(new Event("tandem-range"))));
  document.addEventListener("htmx:after:swap", show);
  window.addEventListener("load", show);
})();
