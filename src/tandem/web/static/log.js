// Follows a reviewer's log: asks for what came after the last line, and stays at the end unless somebody scrolled up.
(() => {
  "use strict";
  const EVERY_MS = 1000;
  const MOST_CHARACTERS = 2_000_000;
  const log = document.getElementById("log");
  if (!log) return;
  let position = log.dataset.position;
  log.scrollTop = log.scrollHeight;

  async function follow() {
    try {
      const answer = await fetch(`${log.dataset.source}?position=${encodeURIComponent(position)}`);
      const found = answer.ok ? await answer.json() : { lines: [] };
      show(found);
      if ("ended" in log.dataset && !found.lines.length) return;
    } catch {
      // The broker is away; what was written meanwhile comes with the next answer.
    }
    setTimeout(follow, EVERY_MS);
  }

  function show(found) {
    if (found.position) position = found.position;
    if (!found.lines.length) return;
    const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(found.lines.join("\n") + "\n");
    if (log.textContent.length > MOST_CHARACTERS) log.textContent = log.textContent.slice(-MOST_CHARACTERS / 2);
    if (isAtEnd) log.scrollTop = log.scrollHeight;
  }

  setTimeout(follow, EVERY_MS);
})();
