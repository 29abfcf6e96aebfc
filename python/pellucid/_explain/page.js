// The search box: shows the rows of tables that hold all of its words, and opens what they are in.
const box = document.getElementById("search");
const told = document.getElementById("found");
const rows = [...document.querySelectorAll("tbody tr")].map((row) => [row, row.textContent.toLowerCase()]);
const folds = [...document.querySelectorAll("details")].map((fold) => [fold, fold.open]);

function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const [row, text] of rows) {
    const shown = words.every((word) => text.includes(word));
    row.hidden = !shown;
    found += shown;
  }
  for (const [fold, open] of folds) {
    const holds = words.length === 0 || fold.querySelector("tbody tr:not([hidden])") !== null;
    fold.hidden = !holds;
    fold.open = words.length === 0 ? open : holds;
  }
  told.textContent = words.length === 0 ? "" : `${found} of ${rows.length} lines`;
}

// A link into a fold opens it.
function openTarget() {
  for (let at = document.getElementById(location.hash.slice(1)); at !== null; at = at.parentElement) {
    if (at.tagName === "DETAILS") at.open = true;
  }
}

box.addEventListener("input", search);
addEventListener("hashchange", openTarget);
addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
  }
});
openTarget();
