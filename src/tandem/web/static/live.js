// Keeps the page as the log has it: one connection to the broker for all windows, and elements that are fetched
// again when something that they show has changed. An element says so by `data-live`: `*`, or the subjects
// (reviews, cycles, reviewers) and `project:NAME` whose events concern it; it is taken by its id from
// `data-live-source`, or else from this page's own address. Elements with one source are fetched together.
(() => {
  "use strict";
  const SETTLE_MS = 150;
  const RETRY_MS = 1000;
  const TIMES_MS = 20_000;
  const channel = new BroadcastChannel("tandem-events");
  const badge = document.getElementById("live");
  const notify = document.getElementById("notify");
  const theme = document.getElementById("theme");
  let cursor = document.body.dataset.cursor || "";
  let leading = false;
  let told = reviewsOfMine();

  function show(state) {
    if (badge.dataset.state === state) return;
    badge.dataset.state = state;
    badge.textContent = state;
  }

  // ------------------------------------------------------------------------------------- hearing

  function hear(message) {
    if (message.cursor) cursor = message.cursor;
    const isBack = message.state === "live" && badge.dataset.state === "offline";
    if (message.state) show(message.state);
    // Somebody else listens, and may have heard of what came after this page was made and before it was there.
    const isElsewhere = message.heard && message.heard !== cursor;
    // What could not be fetched while the broker was away is fetched now.
    if (message.reset || isBack || isElsewhere) refreshAll();
    if (message.over) leave();
    for (const event of message.events || []) touch(event);
    if (message.events && message.events.length) {
      document.dispatchEvent(new CustomEvent("tandem-events", { detail: message.events }));
    }
  }

  function tell(message) {
    channel.postMessage(message);
    hear(message);
  }

  // A browser has few connections to one host, so only one window of many listens.
  function lead() {
    leading = true;
    return new Promise(() => connect());
  }

  function connect() {
    const source = new EventSource("/events" + (cursor ? "?after=" + encodeURIComponent(cursor) : ""));
    source.addEventListener("open", () => tell({ state: "live" }));
    source.addEventListener("change", (event) =>
      tell({ cursor: event.lastEventId, events: JSON.parse(event.data).events }));
    source.addEventListener("reset", (event) => tell({ cursor: event.lastEventId, reset: true }));
    source.addEventListener("error", () => {
      tell({ state: "offline" });
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      source.close();
      lookForLogin();
      setTimeout(connect, RETRY_MS);
    });
  }

  // Where people log in, the broker also ends the connection of somebody who no longer is.
  async function lookForLogin() {
    if (!document.body.dataset.login) return;
    try {
      const answer = await fetch("/you", { method: "HEAD" });
      if (answer.status === 401 || answer.redirected) tell({ over: true });
    } catch {
      // The broker is away: the next attempt tells.
    }
  }

  // To the login and back here. A page with something on it that would be lost stays, and says so.
  function leave() {
    const { login } = document.body.dataset;
    const unsent = [...document.querySelectorAll("main form[method=post]:not([data-draft]) :is(textarea, input[type=text], input:not([type]))")];
    if (!document.body.hasAttribute("data-answer") && unsent.every((field) => field.value === field.defaultValue)) {
      // The window keeps its drafts until the person is back.
      document.body.dataset.leaves = "";
      location.assign(login);
      return;
    }
    if (document.querySelector("#notice a")) return;
    const notice = document.getElementById("notice");
    const link = Object.assign(document.createElement("a"), { href: login, target: "_blank", textContent: "Log in, in a new window" });
    notice.replaceChildren("You are not logged in any more. Copy what you typed before you load this page again. ", link);
    notice.hidden = false;
  }

  channel.addEventListener("message", (event) => {
    if (event.data.asking) {
      if (leading) channel.postMessage({ state: badge.dataset.state, heard: cursor });
      return;
    }
    hear(event.data);
  });
  if (navigator.locks) {
    navigator.locks.request("tandem-events", lead);
    channel.postMessage({ asking: true });
  } else {
    lead();
  }

  // ---------------------------------------------------------------------------------- refreshing

  const due = new Map();
  let refreshing = Promise.resolve(); // one after the other, so that a burst does not fall upon the broker at once

  function touch(event) {
    const names = new Set(["*", event.subject, "project:" + event.project, "kind:" + event.kind]);
    for (const element of document.querySelectorAll("[data-live]")) {
      if (element.dataset.live.split(" ").some((name) => names.has(name))) refreshSoon(element);
    }
  }

  function refreshAll() {
    document.querySelectorAll("[data-live]").forEach(refreshSoon);
  }

  const sourceOf = (element) => element.dataset.liveSource || location.pathname + location.search;
  const from = (source) => [...document.querySelectorAll("[data-live][id]")].filter((one) => sourceOf(one) === source);

  function refreshSoon(element) {
    const source = sourceOf(element);
    if (due.has(source)) return;
    due.set(source, setTimeout(() => (refreshing = refreshing.then(() => refresh(source))), SETTLE_MS));
  }

  // A form that is on its way stays until its answer is there, and a page fetched before that answer is older.
  let answers = 0;
  const isSending = () => document.querySelector("form.htmx-request") !== null;

  async function refresh(source) {
    due.delete(source);
    const [first] = from(source);
    if (!first) return;
    const before = answers;
    const isLate = () => isSending() || answers !== before;
    if (isLate()) return refreshSoon(first);
    try {
      const have = [...document.querySelectorAll("[data-mark]")].map((one) => one.dataset.mark);
      const answer = await fetch(source, { headers: { "tandem-have": have.join() } });
      await put(await answer.text(), from(source), isLate);
      if (isLate()) refreshSoon(first);
    } catch {
      refreshSoon(first); // the broker is away: what has changed is fetched when it is back
    }
    settle();
  }

  // A press on what moves before it is let go is no click, so nothing moves meanwhile.
  let letGo = null;
  let released = Promise.resolve();
  document.addEventListener("pointerdown", () => (letGo ? null : (released = new Promise((done) => (letGo = done)))), true);
  // The click comes right behind; of a window that loses the focus the end may be heard by another.
  for (const kind of ["pointerup", "pointercancel", "blur"]) window.addEventListener(kind, () => setTimeout(() => (letGo = void letGo?.())));
  window.tandemReleased = () => released;
  document.addEventListener("htmx:config:request", ({ detail: { ctx } }) => {
    ctx.fetch = async (...asked) => {
      const answer = await fetch(...asked);
      await released;
      return answer;
    };
  });

  // An answer without a part, as from a broker that is stopping, leaves it as it is.
  async function put(text, elements, isLate = () => false) {
    const page = new DOMParser().parseFromString(text, "text/html");
    await released;
    // Rows that are as they were come empty.
    for (const row of page.querySelectorAll("[data-same]")) row.replaceWith(document.getElementById(row.id)?.cloneNode(true) || "");
    for (const element of elements) {
      if (isLate()) return;
      const fresh = page.getElementById(element.id);
      if (fresh) await htmx.swap({ sourceElement: element, target: element, text: fresh.outerHTML, swap: "outerMorph" });
    }
    document.dispatchEvent(new CustomEvent("tandem-fetched", { detail: page }));
  }

  // The answer to a form has more than the part that the form stands in.
  document.addEventListener("tandem-answered", (event) => {
    answers += 1;
    const { text, except } = event.detail;
    put(text, [...document.querySelectorAll("#main [data-live-source][id]")].filter((one) => one.id !== except));
  });

  // A form's answer without the part that was asked for changes nothing.
  document.addEventListener("htmx:after:request", (event) => {
    const { select, text, hx } = event.detail.ctx;
    if (!hx?.redirect && select?.startsWith("#") && !text?.includes(`id="${select.slice(1)}"`)) event.preventDefault();
  });

  // What follows from what the page shows now.
  function settle() {
    const waiting = document.getElementById("inbox-count");
    const count = Number(waiting?.dataset.count || 0);
    document.title = (count ? `(${count > 50 ? "50+" : count}) ` : "") + document.body.dataset.title;
    tellOfNew();
    freshenTimes();
  }

  // What somebody has opened or closed stays so when the page is brought up to date.
  const opened = new Map();
  const folds = () => document.querySelectorAll(".list details[id], #findings details[id], #acts details[id], #stream details[id], #checks details[id], .thread details[id]");
  document.addEventListener("htmx:before:swap", () => {
    for (const fold of folds()) opened.set(fold.id, fold.open);
  });
  document.addEventListener("htmx:after:swap", () => {
    for (const fold of folds()) if (opened.has(fold.id)) fold.open = opened.get(fold.id);
  });

  document.addEventListener("tandem-refresh", refreshAll);

  // After the form of a row, the row behind it has the focus, and what was done is said.
  const NEXT = "tandem-next";
  document.addEventListener("submit", (event) => {
    const rows = [...document.querySelectorAll("#main [data-item]")];
    const at = rows.indexOf(event.target.closest("[data-item]"));
    sessionStorage.setItem(NEXT, JSON.stringify(at < 0 ? [] : [at + 1, at - 1, at].map((one) => rows[one]?.id)));
  });
  const done = document.getElementById("done");
  if (done) {
    const ids = JSON.parse(sessionStorage.getItem(NEXT) || "[]");
    (ids.map((id) => document.getElementById(id)).find((row) => row) || done).focus();
    done.replaceChildren(done.textContent); // a status is read out when it changes
    const here = new URL(location.href);
    here.searchParams.delete("done");
    history.replaceState(history.state, "", here);
  }

  // --------------------------------------------------------------------------------------- times

  function duration(seconds) {
    const pair = (large, a, small, b) => {
      const rest = Math.floor((seconds % large) / small);
      return `${Math.floor(seconds / large)} ${a}` + (rest ? ` ${rest} ${b}` : "");
    };
    if (seconds < 60) return `${Math.floor(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
    return seconds < 86400 ? pair(3600, "h", 60, "min") : pair(86400, "d", 3600, "h");
  }

  function freshenTimes() {
    for (const element of document.querySelectorAll("time[datetime]:not([data-fixed])")) {
      const seconds = (Date.now() - Date.parse(element.dateTime)) / 1000;
      if (!Number.isFinite(seconds)) continue;
      const { form } = element.dataset;
      const told = form === "for" ? duration(Math.max(0, seconds)) : seconds < 0 ? `in ${duration(-seconds)}` : `${duration(seconds)} ago`;
      element.textContent = form === "clock"
        ? new Date(element.dateTime).toLocaleTimeString([], { hour: "numeric", minute: "2-digit" }) : told;
    }
  }
  freshenTimes();
  setInterval(freshenTimes, TIMES_MS);

  // ------------------------------------------------------------------------------- notifications

  function reviewsOfMine() {
    return JSON.parse(document.getElementById("inbox-count")?.dataset.reviews || "{}");
  }

  function tellOfNew() {
    const now = reviewsOfMine();
    const fresh = Object.keys(now).filter((id) => !(id in told));
    told = now;
    if (!fresh.length || !leading || !wantsNotifications()) return;
    const title = fresh.length === 1 ? "Tandem: a review waits" : `Tandem: ${fresh.length} more reviews wait`;
    const note = new Notification(title, { body: now[fresh[0]], tag: fresh[0] });
    note.addEventListener("click", () => {
      window.focus();
      location.assign(fresh.length === 1 ? "/reviews/" + encodeURIComponent(fresh[0]) : "/");
    });
  }

  function wantsNotifications() {
    return "Notification" in window && Notification.permission === "granted" && localStorage.getItem("tandem-notify") === "on";
  }

  function showChoice() {
    notify.hidden = !("Notification" in window);
    notify.setAttribute("aria-pressed", String(wantsNotifications()));
    notify.textContent = wantsNotifications() ? "Notifying" : "Notify";
  }

  notify.addEventListener("click", async () => {
    const turnOn = !wantsNotifications();
    if (turnOn) await Notification.requestPermission();
    localStorage.setItem("tandem-notify", turnOn ? "on" : "off");
    showChoice();
  });
  showChoice();

  // --------------------------------------------------------------------------------------- theme

  const THEMES = ["system", "light", "dark"];
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const chosen = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "system") + 1) % THEMES.length];
    if (chosen === "system") {
      localStorage.removeItem("tandem-theme");
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem("tandem-theme", chosen);
      document.documentElement.dataset.theme = chosen;
    }
    theme.textContent = `Theme: ${chosen}`;
  });
  // Where the pages in the head have no room, the shown one is to be seen.
  document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
})();
