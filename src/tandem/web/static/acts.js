// The acting side of a review's page: a form that needs a reason asks for it, the lease is renewed while somebody
// works, and the answer to a form finds its place. What is typed is kept by drafts.js; comments on lines are in
// comments.js.
(() => {
  "use strict";
  const ACTIVE_MS = 60_000;
  const notice = document.getElementById("notice");
  const acts = () => document.getElementById("acts");
  const { keep, kept, restoreAll } = window.tandemDrafts;

  function say(text) {
    notice.textContent = text;
    notice.hidden = !text;
  }

  // ----------------------------------------------------------------------------------- what was typed

  // A verdict that was being written when the claim ended has no field any more: it is shown until it has one again.
  function showKept() {
    const box = document.getElementById("acts-kept");
    if (!box) return;
    const { reason } = document.getElementById("verdict-form") ? {} : kept("verdict-form");
    box.hidden = !reason;
    box.querySelector("pre").textContent = reason || "";
  }

  // A verdict's form whose claim ended stays under the fingers of who types in it, until they leave it or send it.
  document.addEventListener("htmx:before:swap", ({ detail: { ctx, tasks } }) => {
    const form = document.getElementById("verdict-form");
    if (!form?.contains(document.activeElement) || ctx.sourceElement !== acts() || form.matches(".htmx-request")) return;
    for (const { fragment } of tasks) {
      const place = fragment?.querySelector("#drafts-form");
      if (!place || fragment.querySelector("#verdict-form")) continue;
      form.setAttribute("data-keep", "");
      form.setAttribute("data-stays", "");
      place.before(form.cloneNode(true));
      say("The review has changed, and your claim is over. What you write is kept, and not sent.");
    }
  });

  document.addEventListener("focusout", ({ target }) => {
    const form = target.closest("#verdict-form[data-stays]");
    setTimeout(() => {
      if (!form?.isConnected || form.contains(document.activeElement) || form.matches(".htmx-request")) return;
      form.removeAttribute("data-keep");
      document.dispatchEvent(new CustomEvent("tandem-refresh"));
    });
  });

  function settle() {
    for (const form of document.querySelectorAll("form[data-came-back]")) {
      keep(form);
      form.closest("details")?.setAttribute("open", "");
    }
    restoreAll();
    keepRefusals();
    showKept();
    chooseAgain();
    const isCommenting = document.activeElement?.closest("[data-comment-form]");
    if (!isCommenting) document.querySelector("[data-refused]:not([data-told])")?.scrollIntoView({ block: "nearest" });
    document.querySelectorAll("[data-refused]").forEach((box) => box.setAttribute("data-told", ""));
    tick();
  }

  // ------------------------------------------------------------------------------------------ sending

  const isOurs = (form) => form instanceof HTMLFormElement && form.closest("#acts, #stream, #checks, .thread, #draft") !== null;

  let sending = null; // the verdict that was decided on in the dialog

  // Before htmx hears of it: a verdict without its reason is not sent.
  document.addEventListener("submit", (event) => {
    const { submitter, target } = event;
    if (target.id !== "verdict-form" || !submitter?.hasAttribute("data-needs-reason")) return;
    const reason = target.elements.reason;
    const hint = document.getElementById("reason-hint");
    const ready = reason.value.trim() || (submitter.value !== "rejected" && window.tandemComments.count() + (sending ? 0 : window.tandemComments.unsent().length));
    reason.setAttribute("aria-invalid", String(!ready));
    hint.classList.toggle("missing", !ready);
    if (ready) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    hint.textContent = `Say why first: “${submitter.firstChild.textContent.trim()}” needs a reason that the proposer can act on.`;
    choose(submitter.value);
  }, true);

  // A comment that is still being written is not left behind without a word.
  const unsent = document.getElementById("unsent");

  document.addEventListener("submit", (event) => {
    const { submitter, target } = event;
    if (!unsent || target.id !== "verdict-form" || !submitter?.matches("[name=verdict]") || event.defaultPrevented) return;
    const left = window.tandemComments.unsent();
    if (!left.length || sending === submitter.value) return void (sending = null);
    event.preventDefault();
    event.stopImmediatePropagation();
    document.getElementById("unsent-list").replaceChildren(...left.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
    unsent.dataset.verdict = submitter.value;
    unsent.returnValue = "";
    unsent.showModal();
  }, true);

  unsent?.addEventListener("close", () => {
    const form = document.getElementById("verdict-form");
    // Escape is an answer, too: neither.
    if (!form || !["with", "without"].includes(unsent.returnValue)) return;
    if (unsent.returnValue === "with" && !window.tandemComments.addAll()) return;
    sending = unsent.dataset.verdict;
    form.requestSubmit(form.querySelector(`button[name=verdict][value=${sending}]`));
    sending = null;
  });

  document.addEventListener("htmx:config:request", (event) => {
    const { request } = event.detail.ctx;
    const other = request.submitter?.getAttribute("formaction");
    if (other) {
      const address = new URL(other, location.href);
      address.searchParams.set("round", acts()?.dataset.round || request.body.get("on_round"));
      request.action = address.pathname + address.search;
    }
    if (request.form?.id === "verdict-form") {
      window.tandemSaved?.tellShown(request.body);
      window.tandemComments.send(request.body);
    }
    // What is sent is a draft no longer, once it was taken.
    const { form, body } = request;
    if (form) window.tandemSaved?.take(body, form.id, { body: body.get("reason") || body.get("body") || "" });
  });

  function missing(form, answer) {
    keep(form, true);
    const why = answer.querySelector(".refusal")?.textContent.trim() || answer.querySelector("h1")?.textContent || "The answer cannot be read.";
    say(`Not sent, and kept: ${why.replace(/\s+/g, " ")}`);
  }

  document.addEventListener("htmx:after:request", (event) => {
    const { ctx } = event.detail;
    const form = ctx.sourceElement;
    if (!ctx.select || ctx.hx?.redirect || !isOurs(form)) return;
    const answer = new DOMParser().parseFromString(ctx.text, "text/html");
    // Without the part that was asked for (the broker is stopping, the name was forgotten), live.js has dropped it.
    if (event.defaultPrevented) return missing(form, answer);
    const why = form.id === "claim-form" && ctx.response.status >= 400 && answer.querySelector("[data-refused]");
    say(why ? `Not claimed. What you write is kept. ${why.textContent.trim().replace(/\s+/g, " ")}` : "");
    form.removeAttribute("data-keep"); // whatever set it meanwhile: this is the answer to what was typed
    refusals.clear();
    if (ctx.response.status < 400 && !answer.querySelector("form[data-came-back]")) {
      if (TOLD[form.id] && ctx.select === "#acts") done = { told: TOLD[form.id], isLeft: form.contains(document.activeElement) };
      form.reset();
      window.tandemSaved?.forget(form.id);
      if (form.id === "verdict-form") chosen = "";
      if (form.id === "verdict-form") window.tandemComments.clear();
    }
    if (answer.querySelector("[data-unseen]")) window.tandemSaved?.readSoon();
    // The answer shows the review as it is now, and so brings the rest of the page up to date.
    document.dispatchEvent(new CustomEvent("tandem-answered", { detail: { text: ctx.text, except: ctx.select.slice(1) } }));
  });

  // A refusal stays until somebody sends something, also when what it stands in is brought up to date.
  const refusals = new Map();

  function keepRefusals() {
    for (const box of document.querySelectorAll("[data-refused]")) refusals.set(box.parentElement.id, box);
    for (const [id, box] of refusals) {
      const place = document.getElementById(id);
      if (place && !place.querySelector(":scope > [data-refused]")) place.prepend(box.cloneNode(true));
    }
  }

  document.addEventListener("htmx:error", (event) => {
    const form = event.detail.ctx?.sourceElement;
    if (!isOurs(form)) return;
    keep(form, true);
    say("Not sent: the broker cannot be reached. What you wrote is kept; send it again when the page says “live”.");
  });

  document.addEventListener("htmx:after:swap", settle);

  // What was done is said, and where its button is gone, the focus is on what can be done next.
  const TOLD = { "claim-form": "Claimed.", "take-form": "Taken over.", "release-form": "Released.", "verdict-form": "Your verdict is sent." };
  let done = null;

  document.addEventListener("htmx:after:swap", ({ detail }) => {
    if (!done || detail.ctx.select !== "#acts") return;
    document.getElementById("acts-told").textContent = done.told;
    if (done.isLeft && document.activeElement === document.body) document.getElementById("acts-title").focus({ preventScroll: true });
    done = null;
  });

  // ----------------------------------------------------------------------------------------- verdicts

  let chosen = ""; // until it is sent, also when its form is refused or brought up to date

  function choose(verdict) {
    chosen = verdict;
    chooseAgain();
    document.getElementById("verdict-form")?.elements.reason.focus();
  }

  function chooseAgain() {
    const form = document.getElementById("verdict-form");
    if (!form) chosen = "";
    const button = chosen && form.querySelector(`button[name=verdict][value=${chosen}]`);
    if (button) {
      form.querySelectorAll("[data-default]").forEach((one) => one.removeAttribute("data-default"));
      button.setAttribute("data-default", "");
    }
    showDefault();
  }

  function showDefault() {
    const told = document.getElementById("verdict-default");
    const button = document.querySelector("#verdict-form [data-default]");
    if (told && button) told.textContent = `Ctrl Enter: ${button.firstChild.textContent.trim()}`;
  }

  document.addEventListener("click", (event) => {
    const { choose: verdict, send } = event.target.closest?.("[data-choose], [data-send]")?.dataset || {};
    if (verdict) choose(verdict);
    const form = document.getElementById("verdict-form");
    if (send && "look" in event.target.dataset) {
      choose(send);
      say("Not sent yet: look at the list above Approve first. Ctrl Enter then approves.");
    } else if (send) form.requestSubmit(form.querySelector(`button[name=verdict][value=${send}]`));
  });

  // -------------------------------------------------------------------------------------------- lease

  let lastAct = Date.now();
  let lastRenewal = Date.now();
  let longest = 0;

  for (const kind of ["input", "keydown", "pointerdown", "wheel"]) {
    document.addEventListener(kind, () => (lastAct = Date.now()), { passive: true, capture: true });
  }

  function tick() {
    const lease = document.getElementById("lease");
    if (!lease?.dataset.ends) return;
    const left = (Date.parse(lease.dataset.ends) - Date.now()) / 1000;
    longest = Math.max(longest, left);
    const minutes = Math.floor(left / 60);
    const told = left <= 0 ? "The lease has run out." : `Lease ${minutes}:${String(Math.floor(left % 60)).padStart(2, "0")}`;
    if (lease.textContent !== told) lease.textContent = told;
    lease.toggleAttribute("data-short", left < 120 && left < longest / 2);
    const due = Math.min(ACTIVE_MS, (longest * 1000) / 4);
    if (left > 0 && lastAct > lastRenewal && Date.now() - lastRenewal > due) renew(lease);
  }

  async function renew(lease) {
    lastRenewal = Date.now();
    const form = document.getElementById("renew-form");
    if (!form) return;
    try {
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { accept: "application/json" } });
      if (answer.ok) lease.dataset.ends = (await answer.json()).lease_expires_at;
      else document.dispatchEvent(new CustomEvent("tandem-refresh"));
    } catch {
      // The broker is away: the next tick tries again.
    }
  }

  setInterval(tick, 1000);
  window.addEventListener("load", settle);
})();
