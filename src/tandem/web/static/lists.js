// The queue: filters that act when they are chosen, and many rows ticked at once.
(() => {
  "use strict";
  const filters = document.getElementById("filters");
  filters.addEventListener("change", (event) => {
    if (event.target.matches("select")) filters.requestSubmit();
  });
  const all = document.getElementById("choose-all");
  if (!all) return; // somebody who may not close reviews
  all.hidden = false;
  all.addEventListener("click", () => {
    const boxes = [...document.querySelectorAll("#chosen input[name=review_id]:not(:disabled)")];
    const turnOn = boxes.some((box) => !box.checked);
    for (const box of boxes) box.checked = turnOn;
  });
  // What is ticked stays as it is: the rows under it are not exchanged while somebody chooses.
  const rows = document.getElementById("reviews");
  const keep = () => rows.toggleAttribute("data-keep", rows.querySelector("input:checked") !== null);
  rows.addEventListener("change", keep);
  all.addEventListener("click", keep);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "x" || !event.target.matches?.("[data-item]")) return;
    const box = event.target.querySelector("input[name=review_id]");
    if (box && !box.disabled) box.click();
  });
  document.getElementById("close-chosen").addEventListener("click", (event) => {
    const count = document.querySelectorAll("#chosen input[name=review_id]:checked").length;
    if (count && !confirm(`Close ${count} review${count === 1 ? "" : "s"}?`)) event.preventDefault();
  });
})();
